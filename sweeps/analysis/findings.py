"""What the record of a sweep shows about its space and its scheduler: what `advice` is derived from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.analysis.failure_regions import DeadRegion, dead_regions_of
from sweeps.analysis.forecast import Gain, RungCheck, gain, rung_checks
from sweeps.analysis.influence import Influence, influence
from sweeps.analysis.range_edges import Edge, edges
from sweeps.analysis.top_trials import Ranked, distributions_of, ranked, trainables
from sweeps.record.record import Record


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a sweep shows."""

    seen: Ranked
    """Its trials, those of all trainables together."""
    parts: tuple[Ranked, ...]
    """The trials of each trainable."""
    influences: tuple[Influence, ...]
    """Of each trainable that has enough trials."""
    widen: tuple[Edge, ...]
    """Ranges at whose end the best trials lie."""
    fix: tuple[tuple[str, Influence], ...]
    """Hyperparameters without influence, and how that was found."""
    cut: tuple[DeadRegion, ...]
    """Where trials fail or diverge, and none is good."""
    rungs: tuple[RungCheck, ...]
    """How well each rung predicted the end."""
    grace_epochs: int | None
    """A later first rung to try; None where there is no reason for one."""
    gain: Gain | None
    """What as many trials again may gain; None where that can't be estimated."""

    @property
    def is_cut_short(self) -> bool:
        """Whether the best trials lie at an end behind which there may be better ones."""
        return any(edge.can_widen for edge in self.widen)

    @property
    def more_trials_help(self) -> bool | None:
        """Whether more trials in the same space are worth it; None where that can't be estimated. Not where
        the best lie at an edge that can be moved, nor where the second half of the trials gained next to
        nothing beside what lies between the good ones."""
        if self.gain is None:
            return None
        spread = self.seen.values[0] - self.seen.values[len(self.seen.values) // 2]
        return not self.is_cut_short and self.gain.score > 0.05 * spread


def findings(record: Record) -> Findings:
    """What a sweep shows, however few of its trials ended."""
    seen = ranked(record)
    parts = {name: ranked(record, name) for name in trainables(record)}
    widen = [
        edge
        for part in parts.values()
        if part.can_judge_ranges
        for edge in edges(part.best, part.trials, distributions_of(part.trials))
    ]
    influences = tuple(found for name in parts if (found := influence(record, name)) is not None)
    cut: dict[str, DeadRegion] = {}
    for region in dead_regions_of(record):  # of two that explain the same bad trials, the larger one is first
        cut.setdefault(region.hyperparameter, region)
    matter = {edge.hyperparameter for edge in widen} | cut.keys()
    fix = [(name, each) for each in influences for name in each.without if name not in matter]
    checks = rung_checks(record, seen)
    return Findings(
        seen=seen,
        parts=tuple(parts.values()),
        influences=influences,
        widen=tuple(widen),
        fix=tuple(fix),
        cut=tuple(cut.values()),
        rungs=tuple(checks),
        grace_epochs=_grace_epochs(record, checks),
        gain=None if seen.is_constant or record.objectives.are_several else gain(seen),
    )


def _grace_epochs(record: Record, checks: Sequence[RungCheck]) -> int | None:
    """The next rung, where the first one hardly predicted the end, and trials were pruned there."""
    if not checks or not checks[0].is_weak or not any(t.status == "pruned" for t in record.searched):
        return None
    return checks[1].epoch if len(checks) > 1 else checks[0].end

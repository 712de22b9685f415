"""What the record of a sweep says to try next: ranges, hyperparameters, pruning, and what it may bring.

from sweeps.analysis import advice, results
for line in advice.advise(results.load("results/NAME")).lines:
    print(line)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sweeps.analysis import advice_text
from sweeps.analysis.failure_regions import DeadRegion, dead_regions_of
from sweeps.analysis.fidelity import Influence, influence, trainables
from sweeps.analysis.forecast import RungCheck, gain, rung_checks
from sweeps.analysis.recommendation import Advice
from sweeps.analysis.sweep import Sweep
from sweeps.analysis.top_trials import FEW, Edge, Ranked, edges, ranked, words_of
from sweeps.common.formatting import command, place
from sweeps.record import status
from sweeps.record.record import Record


def advise(sweep: Sweep) -> Advice:
    """What the sweep says to try next, however few of its trials ended."""
    record = sweep.record
    seen = ranked(record)
    parts = {name: ranked(record, name) for name in trainables(record)}
    widen: list[Edge] = []
    found: list[Influence] = []
    for name, part in parts.items():
        if len(part.order) >= FEW and not advice_text.is_constant(part):
            widen += edges(part.best, part.trials, words_of(part.trials))
        if (of_part := influence(record, name)) is not None:
            found.append(of_part)
    cut = dead_regions_of(record)
    matter = {edge.hyperparameter for edge in widen} | {region.hyperparameter for region in cut}
    checks = rung_checks(record, seen)
    advice = Advice(
        epoch=seen.epoch,
        judged=len(seen.order),
        widen=tuple(widen),
        fix=tuple(
            (hyperparameter, each)
            for each in found
            for hyperparameter in each.without
            if hyperparameter not in matter
        ),
        cut=tuple(_first_per_hyperparameter(cut)),
        rungs=tuple(checks),
        grace_epochs=_grace_epochs(record, checks),
        gain=None if advice_text.is_constant(seen) else gain(seen),
        goes_on=None,
        lines=(),
        command="",
    )
    said = _command(record, list(parts.values()), advice)
    advice = dataclasses.replace(advice, goes_on=_goes_on(advice, seen), command=said)
    return dataclasses.replace(advice, lines=tuple(advice_text.lines(advice, record, seen, found)))


def _first_per_hyperparameter(regions: Sequence[DeadRegion]) -> list[DeadRegion]:
    """Of two regions that explain the same bad trials, the larger one: it comes first."""
    taken: dict[str, DeadRegion] = {}
    for region in regions:
        taken.setdefault(region.hyperparameter, region)
    return list(taken.values())


def _grace_epochs(record: Record, checks: Sequence[RungCheck]) -> int | None:
    """The next rung, where the first one said little of the end, and trials were pruned there."""
    if not checks or not checks[0].is_weak or not any(t.status == "pruned" for t in record.searched):
        return None
    return checks[1].epoch if len(checks) > 1 else checks[0].end


def _goes_on(advice: Advice, seen: Ranked) -> bool | None:
    """Not where the best lie at an edge that can be moved, nor where all the trials of a second half brought
    next to nothing beside what lies between the good ones."""
    if advice.gain is None:
        return None
    spread = seen.values[0] - seen.values[len(seen.values) // 2]
    return not advice_text.is_cut_short(advice) and advice.gain.score > 0.05 * spread


def _command(record: Record, parts: Sequence[Ranked], advice: Advice) -> str:
    """To go on with the sweep, where it can; else to refine it, where that changes a range; else more trials,
    where a judgement takes more of them."""
    if status.can_go_on(record):
        return status.go_on(record)
    folder = place(record.folder.resolve())
    if not any(t.status in ("finished", "pruned") for t in record.searched):
        return ""
    if advice.cut or any(len(part.order) >= FEW and not advice_text.is_constant(part) for part in parts):
        grace = advice.grace_epochs
        more = [] if grace is None else ["--grace-epochs", str(grace)]
        return command("run", "--refine", folder, *more)
    is_grid = record.info.settings.get("searcher") == "grid"
    if is_grid or not record.info.has_identity or not any(0 < len(part.order) < FEW for part in parts):
        return ""
    return command("run", "--resume", folder, "--num-trials", str(max(FEW, 2 * len(record.searched))))

"""Ranges at whose end the best trials lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution
from scipy.stats import binom, hypergeom

from sweeps.analysis.top_trials import BY_CHANCE, LEAST_BEST, SIDES
from sweeps.record.trials import TrialRow
from sweeps.space.numeric_range import Range, Side, are_ordered, choices_of, range_of

EDGE = 0.1
"""Of a range, on its scale: what counts as its edge."""


@dataclass(frozen=True)
class Edge:
    """An end of a range at which the best values of a hyperparameter lie."""

    hyperparameter: str
    side: Side
    at: int
    """Of the best trials, how many lie there."""
    of: int
    """How many best trials there are."""
    old: Range | None
    """None of choices, which only the user can add to."""
    new: Range | None
    values: tuple[Any, ...] = ()
    """The choices, in their order."""

    @property
    def can_widen(self) -> bool:
        """Whether there may be values behind the end; those of choices are the user's to add."""
        return self.old is None or self.new not in (None, self.old)


def edges(
    best: Sequence[TrialRow],
    trials: Sequence[TrialRow],
    distributions: Mapping[str, Sequence[BaseDistribution]],
) -> list[Edge]:
    """Hyperparameters of which the best trial, and more of the best ones than chance would put there, lie at
    an end of the range: in its outer tenth, have the last of its values, or are those nearest to it of all
    trials."""
    found = []
    level = BY_CHANCE / max(1, len(SIDES) * len(distributions))  # Bonferroni: so many ends are tested
    for hyperparameter, drawn_from in distributions.items():
        if len(best) < LEAST_BEST or any(hyperparameter not in trial.optuna.params for trial in best):
            continue
        having = [trial for trial in trials if hyperparameter in trial.optuna.params]
        old, choices = range_of(drawn_from), choices_of(drawn_from)
        position: Callable[[Any], float]
        if old is not None and old.high > old.low:
            scale, position = old, lambda value: float(value)
        elif are_ordered(choices):
            scale, position = Range(0, len(choices) - 1, step=1), choices.index
        else:
            continue
        of_best, of_all = (
            [scale.share(position(trial.optuna.params[hyperparameter])) for trial in each]
            for each in (best, having)
        )
        for side in SIDES:
            if (at := _at_end(side, of_best, of_all, scale.count, level)) is not None:
                new = None if old is None else old.wider(side)
                found.append(Edge(hyperparameter, side, at, len(best), old, new, tuple(choices)))
    return found


def _at_end(
    side: Side, best: Sequence[float], trials: Sequence[float], count: int | None, level: float
) -> int | None:
    """How many of the best lie at an end; None where that is no pattern.

    Args:
        side: which end.
        best: where the best lie, the best one first: 0 is the low end, 1 the high end.
        trials: where all lie.
        count: of values that the range has; None where it is continuous.
        level: of significance.
    """
    if side == "low":
        best, trials = [1 - share for share in best], [1 - share for share in trials]
    at, chance = sum(share >= 1 - EDGE for share in best), max(EDGE, 1 / count) if count else EDGE
    if best[0] >= 1 - EDGE and 2 * at >= len(best) and binom.sf(at - 1, len(best), chance) <= level:
        return at
    if count is not None:
        return None
    outermost = sorted(trials)[-len(best) :]
    at = sum(share >= outermost[0] for share in best)
    ends = outermost[len(outermost) // 2 :]  # where the best is inside, those at the very end are not good
    if 2 * sum(share >= ends[0] for share in best) < len(ends):
        return None
    is_pattern = hypergeom.sf(at - 1, len(trials), len(best), len(best)) <= level
    return at if best[0] >= outermost[0] >= 1 - 3 * EDGE and 2 * at >= len(best) and is_pattern else None

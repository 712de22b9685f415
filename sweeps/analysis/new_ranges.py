"""The ranges of the next sweep, by what earlier ones showed: for `--refine`, and for the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from optuna.distributions import BaseDistribution

from sweeps.analysis.compared_trials import (
    BEST_SHARE,
    BY_CHANCE,
    LEAST_BEST,
    SIDES,
    ComparedTrials,
    compared_trials,
    distributions_of,
    newest_distributions,
    trainables,
)
from sweeps.common.formatting import short_value
from sweeps.common.param_types import shown
from sweeps.common.yaml_values import is_number
from sweeps.record.ranking import RankedTrials
from sweeps.record.record import Record
from sweeps.record.status import function_of
from sweeps.record.trials import TrialRow
from sweeps.space.numeric_range import Range, Side, are_ordered, range_of_grid
from sweeps.space.optuna_space import choices_of, range_of

EDGE = 0.1
"""Of a range, on its scale: what counts as its edge."""


@dataclass(frozen=True)
class Edge:
    """An end of a range at which the best values of a hyperparameter lie."""

    hyperparameter: str
    side: Side
    at: int
    """Of the best trials, how many lie there."""
    old: Range | None
    """None of choices, which only the user can add to."""


@dataclass(frozen=True)
class Learnt:
    """What all parents together show of one trainable."""

    seen: Sequence[ComparedTrials]
    best: Sequence[TrialRow]
    """Of each parent with enough trials to judge a range by, the best first."""
    prefix: str
    """Of its hyperparameters, in the names that Optuna has, and by which all below goes."""
    edges: Sequence[Edge]

    def edge_of(self, hyperparameter: str, side: Side) -> Edge | None:
        name = self.prefix + hyperparameter
        return next((each for each in self.edges if (each.hyperparameter, each.side) == (name, side)), None)


def learn(parents: Sequence[RankedTrials], name: str, prefix: str, keep: float = BEST_SHARE) -> Learnt:
    """What the parents show of a trainable, whose hyperparameters have a prefix in Optuna's names."""
    seen = [compared_trials(parent, name) for parent in parents]
    trials = [trial for part in seen for trial in part.trials]
    best = [trial for part in seen if part.can_judge_ranges for trial in part.best(keep)]
    return Learnt(seen, best, prefix, edges(best, trials, distributions_of(trials)))


class Change(NamedTuple):
    """A hyperparameter whose range is to be another one in the next sweep, in words."""

    hyperparameter: str
    old: str
    new: str
    why: str


def changes(record: Record) -> list[Change]:
    """The ranges that `--refine` changes, as far as the record tells: it has no Params to refuse an end.
    Choices that only the user can add to stay as they are, with the reason to do so."""
    found, names = [], trainables(record)
    is_grid = record.info.settings.searcher == "grid"
    for name in names:
        prefix = f"{name}." if len(names) > 1 else ""
        file, learnt = function_of(record, name), learn([record], name, prefix)
        given, now = record.info.settings.ranges, newest_distributions(learnt.seen[0].trials)
        for asked, drawn_from in distributions_of(learnt.seen[0].trials).items():
            if asked in given and asked not in now:
                continue  # it was fixed since
            drawn_from = [now[asked]] if asked in given else drawn_from
            old, choices = range_of(drawn_from), choices_of(drawn_from)
            new, why = new_value(asked.removeprefix(prefix), old, choices, learnt, is_grid=is_grid)
            before = in_words(old or choices, is_grid)
            after = before if new is None or new == choices else in_words(new)
            if after != before or why:
                where = f"; edit it in {file}" if file else ""
                found.append(Change(asked, before, after if after != before else "as it is", why + where))
    return found


def in_words(asked: Any, is_grid: bool = False) -> str:
    """A range, choices (of a grid) or a value, as the plan tells them."""
    if isinstance(asked, Range):
        return str(asked) if asked.low < asked.high else f"fixed at {short_value(asked.low)}"
    if isinstance(asked, list) and len(asked) > 1:
        return f"{'grid' if is_grid else 'one'} of {', '.join(map(shown, asked))}"
    return f"fixed at {short_value(asked[0] if isinstance(asked, list) else asked)}"


def new_value(
    hyperparameter: str, old: Range | None, choices: Sequence[Any], learnt: Learnt, *, is_grid: bool = False
) -> tuple[Any, str]:
    """The new value of --ranges or a Range, and why; None where nothing is known that would change it.

    Args:
        hyperparameter: its name, without that of its trainable.
        old: its range; None of choices.
        choices: those without a range.
        learnt: by the trials so far.
        is_grid: whether the choices are points of a grid that a range may replace.
    """
    values = [trial.params[hyperparameter] for trial in learnt.best if hyperparameter in trial.params]
    if old is not None:
        return _new_range(old, values, hyperparameter, learnt)
    grid = range_of_grid(choices) if is_grid else None
    if grid is not None:
        return _beside(grid, sorted(choices), values, hyperparameter, learnt)
    return _fewer(choices, values, hyperparameter, learnt)


def _new_range(
    old: Range, values: Sequence[Any], hyperparameter: str, learnt: Learnt
) -> tuple[Range | None, str]:
    # Trials from before a change of ranges may have had null, or text.
    inside = [float(value) for value in values if is_number(value) and old.low <= value <= old.high]
    new, whys = old, []
    if len(inside) > 1 and old.high > old.low:
        around = old.around(inside)
        if old.share(around.high) - old.share(around.low) < 0.9:  # one that is hardly narrower is not taken
            new = around
            whys.append(f"around the {len(inside)} best")
    for side in SIDES:
        edge = learnt.edge_of(hyperparameter, side)
        if edge is not None and edge.old is not None:
            wider = old.wider(side) if getattr(edge.old, side) == getattr(old, side) else old
            new = dataclasses.replace(new, **{side: getattr(wider, side)})
            end = "upper" if side == "high" else "lower"
            whys.append(f"{edge.at} of the {len(learnt.best)} best lie at its {end} end")
    return (None, "") if new == old else (new, ", ".join(whys))


def _beside(
    grid: Range, choices: Sequence[float], values: Sequence[Any], hyperparameter: str, learnt: Learnt
) -> tuple[Range, str]:
    """From the neighbour below the best points of a grid to the neighbour above them; beyond an end of the
    grid, where the best one lies there, by its last gap."""
    inside = [choices.index(value) for value in values if value in choices]
    if not inside:
        return grid, "a range in place of its points"
    last, gap = len(choices) - 1, 1 / (len(choices) - 1)
    low, high = choices[max(0, min(inside) - 1)], choices[min(last, max(inside) + 1)]
    if learnt.edge_of(hyperparameter, "high") or inside[0] == last:
        high = grid.beyond(1 + gap)
    if learnt.edge_of(hyperparameter, "low") or inside[0] == 0:
        low = grid.beyond(-gap)
    return dataclasses.replace(grid, low=low, high=high), f"around the {len(inside)} best of its points"


def _fewer(
    choices: Sequence[Any], values: Sequence[Any], hyperparameter: str, learnt: Learnt
) -> tuple[list[Any], str]:
    """Choices without those that were never good; choices of a grid too, where no grid is searched."""
    tried = [t.params.get(hyperparameter) for part in learnt.seen for t in part.trials]
    good = {t.params.get(hyperparameter) for part in learnt.seen for t in part.good}
    never = {choice for choice in choices if values and choice not in good and tried.count(choice) >= 4}
    kept = [choice for choice in choices if choice not in never] or list(choices)
    dropped = [short_value(choice) for choice in choices if choice not in kept]
    whys = [f"never good: {', '.join(dropped)}"] if dropped else []
    numbers = [choice for choice in choices if is_number(choice)]
    for side, end, outermost in zip(SIDES, ("larg", "small"), (max, min), strict=True):
        # The choices may be those of another space than the trials had, with more beyond the end, or null.
        if numbers and learnt.edge_of(hyperparameter, side) and outermost(numbers) in values:
            whys.append(f"the best have its {end}est: try a {end}er one")
    return kept, ", ".join(whys)


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
                found.append(Edge(hyperparameter, side, at, old))
    return found


def _at_end(
    side: Side, best: Sequence[float], trials: Sequence[float], count: int | None, level: float
) -> int | None:
    """How many of the best (the best one first) lie at an end; None where that is no pattern. Places are from
    0, the low end, to 1; a continuous range has no count of values."""
    from scipy.stats import binom, hypergeom  # seconds, which the page of all sweeps does without

    if side == "low":
        best, trials = [1 - share for share in best], [1 - share for share in trials]
    at = sum(share >= 1 - EDGE for share in best)
    chance = (int(EDGE * (count - 1) + 1e-9) + 1) / count if count else EDGE  # two of eleven values
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

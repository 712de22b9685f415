"""What the record of a sweep says to try next: ranges, knobs, pruning, and what it may bring.

from sweeps import advice, results
for line in advice.advise(results.load("results/NAME")).lines:
    print(line)
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweeps import outcome
from sweeps.fidelity import LEAST_TO_FIX, Influence, influence, trainables
from sweeps.lessons import (
    FEW,
    Edge,
    Ranked,
    edges,
    ranked,
    words_of,
)
from sweeps.outlook import Gain, RungCheck, gain, rung_checks
from sweeps.record import Record
from sweeps.regions import DeadRegion, dead_regions_of
from sweeps.results import Sweep
from training.words import command, count, place, short


@dataclass(frozen=True)
class Advice:
    """What to try next, and why."""

    epoch: int
    """At which trials are ranked; 0 where none has a score."""
    judged: int
    """Trials that have a finite score there."""
    widen: tuple[Edge, ...]
    """Knobs whose best values sit at the edge of their range."""
    fix: tuple[tuple[str, Influence], ...]
    """Knobs without influence, and how that was found."""
    cut: tuple[DeadRegion, ...]
    """Where trials fail or diverge, and none is good."""
    rungs: tuple[RungCheck, ...]
    """How well each rung foretold the end."""
    grace_epochs: int | None
    """A later first rung to try; None where there is no reason for one."""
    gain: Gain | None
    """What as many trials again may bring; None where that can't be told."""
    goes_on: bool | None
    """Whether the same space deserves more trials; None where that can't be told."""
    lines: tuple[str, ...]
    """All of it as sentences."""
    command: str
    """What to type next: to go on with a sweep that was stopped, else for one that refines it; "" where there
    is nothing to learn from."""


def advise(sweep: Sweep) -> Advice:
    """What the sweep says to try next, however few of its trials ended."""
    record = sweep.record
    seen = ranked(record)
    parts = {name: ranked(record, name) for name in trainables(record)}
    widen: list[Edge] = []
    found: list[Influence] = []
    for name, part in parts.items():
        if len(part.order) >= FEW and not _is_constant(part):
            widen += edges(part.best, part.trials, words_of(part.trials))
        if (of_part := influence(record, name)) is not None:
            found.append(of_part)
    cut = dead_regions_of(record)
    matter = {edge.knob for edge in widen} | {region.knob for region in cut}
    checks = rung_checks(record, seen)
    advice = Advice(
        epoch=seen.epoch,
        judged=len(seen.order),
        widen=tuple(widen),
        fix=tuple((knob, each) for each in found for knob in each.without if knob not in matter),
        cut=tuple(_first_per_knob(cut)),
        rungs=tuple(checks),
        grace_epochs=_grace_epochs(record, checks),
        gain=None if _is_constant(seen) else gain(seen),
        goes_on=None,
        lines=(),
        command="",
    )
    said = _command(record, seen, advice.grace_epochs)
    advice = dataclasses.replace(advice, goes_on=_goes_on(advice, seen), command=said)
    return dataclasses.replace(advice, lines=tuple(_sentences(advice, record, seen, found)))


def _is_constant(seen: Ranked) -> bool:
    return len(set(seen.values)) < 2


def _first_per_knob(regions: Sequence[DeadRegion]) -> list[DeadRegion]:
    """Of two regions that explain the same bad trials, the larger one: it comes first."""
    taken: dict[str, DeadRegion] = {}
    for region in regions:
        taken.setdefault(region.knob, region)
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
    return not _is_cut_short(advice) and advice.gain.score > 0.05 * spread


def _is_cut_short(advice: Advice) -> bool:
    """Whether the best lie at an end that can be moved; one of choices can, by the user."""
    return any(edge.old is None or edge.new not in (None, edge.old) for edge in advice.widen)


def _command(record: Record, seen: Ranked, grace_epochs: int | None) -> str:
    """To go on with the sweep, where it can; else to refine it, where that is not refused."""
    if outcome.can_go_on(record):
        return outcome.go_on(record)
    if not seen.order or not any(t.status in ("finished", "pruned") for t in record.searched):
        return ""
    more = [] if grace_epochs is None else ["--grace-epochs", str(grace_epochs)]
    return command("sweeps.run", "--refine", place(record.folder.resolve()), *more)


def _sentences(advice: Advice, record: Record, seen: Ranked, found: Sequence[Influence]) -> Iterator[str]:
    metric = str(record.about.get("metric", "the metric"))
    if outcome.can_go_on(record):
        yield _on_resuming(record)
    if not seen.trials:
        yield "No trial was begun: there is nothing to learn from."
        return
    if not seen.order:
        yield _nothing_works(seen)
    elif len(seen.order) == 1:
        yield f"One trial alone has a score: no range or knob can be judged; {FEW} trials are the least."
    elif _is_constant(seen):
        score = short(record.scores_at(seen.epoch)[seen.order[0].number])
        yield (
            f"{metric} is {score} in all {len(seen.order)} trials that reached epoch {seen.epoch}: no range "
            "or knob can be judged."
        )
    elif len(seen.order) < FEW:
        yield (
            f"{count(len(seen.order), 'trial')} with a score at epoch {seen.epoch} are too few to judge "
            f"ranges by: {FEW} are the least."
        )
    else:
        yield (
            f"Judged at epoch {seen.epoch}, which {len(seen.order)} of {count(len(seen.trials), 'trial')} "
            f"reached; the best there are {count(len(seen.best), 'trial')}."
        )
    yield from (_on_edge(edge) for edge in advice.widen)
    yield from (_on_region(region, record) for region in advice.cut)
    yield from _on_influence(advice, found, seen)
    yield from _on_pruning(advice)
    yield from _on_going_on(advice, record, seen, metric)


def _on_resuming(record: Record) -> str:
    so_far = "the search, which is through" if outcome.is_in_confirmation(record) else "the trials so far"
    return (
        f"The sweep is {outcome.status(record)}{outcome.how_far(record)}: go on with it first, by --resume. "
        f"What follows is of {so_far}."
    )


def _nothing_works(seen: Ranked) -> str:
    bad = seen.bad
    if not bad:
        return f"{count(len(seen.trials), 'trial')} begun, none has a score."
    reason, times = Counter(trial.reason for trial in bad).most_common(1)[0]
    return (
        f"No trial ended well: {len(bad)} of {len(seen.trials)} failed or diverged, most often: "
        f"{reason or 'no reason given'} ({count(times, 'time')}). Mend that before another sweep."
    )


def _on_edge(edge: Edge) -> str:
    end = {"high": "upper", "low": "lower"}[edge.side]
    sits = f"{edge.knob}: {edge.at} of the {edge.of} best trials, the best one too, "
    if edge.old is None:
        last, size = (-1, "larg") if edge.side == "high" else (0, "small")
        return f"{sits}have {short(edge.values[last])}, the {size}est of its choices: try a {size}er one."
    where = f"{sits}lie at the {end} end of {edge.old}"
    if edge.new == edge.old or edge.new is None:
        return f"{where}, which can't be moved further by itself."
    return f"{where}: widen it to {edge.new}."


def _on_region(region: DeadRegion, record: Record) -> str:
    statuses = {trial.status for trial in record.searched} & {"failed", "diverged"}
    kind = str(region.cause or " or ".join(sorted(statuses)))
    others = region.trials - region.bad
    there = "no other trial lies there" if not others else f"of {count(others, 'other')} there none is good"
    return f"{region.bad} of {region.all_bad} trials that {kind} have {region}; {there}: cut it off."


def _on_influence(advice: Advice, found: Sequence[Influence], seen: Ranked) -> Iterator[str]:
    for knob, of_knob in advice.fix:
        at, early = of_knob.at, of_knob.early
        less = "" if early.epoch == at.epoch else f", and {early.percent(knob)} by {early.words}"
        is_early = any(epoch > at.epoch for trial in seen.trials for epoch in trial.epochs)
        later = " What it does to trials that train longer is not known." if is_early else ""
        yield (
            f"{knob} decided {at.percent(knob)} of which trials came among the best {100 * at.top:.0f} % "
            f"(PED-ANOVA: {at.words}{less}), and scores differ no more by it than by chance: fix it, "
            f"unless a small effect counts, which this can't rule out.{later}"
        )
    if not found and seen.order and not _is_constant(seen) and len(words_of(seen.trials)) > 1:
        yield (
            f"Which knobs could be fixed can't be told: that takes {LEAST_TO_FIX} trials of a trainable "
            "with a score at the same epoch."
        )


def _on_pruning(advice: Advice) -> Iterator[str]:
    for check in (each for each in advice.rungs if each.of > 1):
        stood = (
            f"The best at epoch {check.end} was {_ordinal(check.rank)} of {check.of} at epoch {check.epoch}"
        )
        if check.correlation is None:
            both = count(check.trials, "trial")
            yield f"{stood}; how ranks there and at the end agree can't be told from the {both} with both."
            continue
        survivors = check.trials < check.of
        yield (
            f"{stood}; ranks there and at the end agree with {check.correlation:+.2f} (Spearman, "
            f"{check.trials} trials that reached both"
            + (", survivors of pruning, among whom ranks agree less than among all)." if survivors else ").")
        )
    if advice.grace_epochs is not None:
        yield (
            f"Pruning may be too eager: epoch {advice.rungs[0].epoch} says little of the end. "
            f"Try --grace-epochs {advice.grace_epochs}; how the pruned ones would have ended is not known."
        )


def _on_going_on(advice: Advice, record: Record, seen: Ranked, metric: str) -> Iterator[str]:
    if seen.order and (best := record.best()) is not None and len(seen.trials) > 1:
        later = len(record.searched) - record.nth(best.number) - 1
        yield f"The best is {outcome.best(record)}; {count(later, 'trial')} came after it."
    if advice.gain is None:
        if seen.order:
            yield "What more trials would bring can't be estimated from these."
        return
    if advice.goes_on:
        yield "The same space deserves more trials, or a narrower one."
    elif _is_cut_short(advice):
        yield "More trials in the same space would miss what lies behind its edge: widen it first."
    else:
        yield "More trials in the same space would hardly help: narrow it, change it, or stop."
    yield (
        f"As many trials again in the same space may bring about {short(advice.gain.score)} of {metric} at "
        f"epoch {advice.gain.epoch}, at most: as much as the second half of these {advice.gain.trials} "
        "brought, averaged over their orders. What another space would bring is not known."
    )


def _ordinal(rank: int) -> str:
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"

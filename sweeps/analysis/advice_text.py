"""The words of an advice: what the record says to try next, a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sweeps.analysis.failure_regions import DeadRegion
from sweeps.analysis.fidelity import LEAST_TO_FIX, Influence, trainables
from sweeps.analysis.top_trials import FEW, Edge, Ranked, words_of
from sweeps.common.formatting import count, short
from sweeps.record import status
from sweeps.record.record import Record

if TYPE_CHECKING:
    from sweeps.analysis.recommendation import Advice


def lines(advice: Advice, record: Record, seen: Ranked, found: Sequence[Influence]) -> Iterator[str]:
    """All sentences, the most important first."""
    metric = record.info.metric
    if status.can_go_on(record):
        yield _on_resuming(record)
    if not seen.trials:
        yield "No trial was begun: there is nothing to learn from."
        return
    if not seen.order:
        yield _nothing_works(seen)
    elif len(seen.order) == 1:
        yield (
            "One trial alone has a score: no range or hyperparameter can be judged; "
            f"{FEW} trials are the least."
        )
    elif is_constant(seen):
        score = short(record.scores_at(seen.epoch)[seen.order[0].number])
        yield (
            f"{metric} is {score} in all {len(seen.order)} trials that reached epoch {seen.epoch}: no range "
            "or hyperparameter can be judged. Take another --metric, or sweep other hyperparameters."
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
    yield from (_on_edge(edge, _place_of(edge.hyperparameter, record)) for edge in advice.widen)
    yield from (_on_region(region, record) for region in advice.cut)
    yield from _on_influence(advice, found, seen, record)
    yield from _on_pruning(advice)
    yield from _on_going_on(advice, record, seen, metric)
    if "--refine" in advice.command:
        yield from _on_functions(record)
    elif "--num-trials" in advice.command:
        yield "Give it more trials first, in this very sweep."


def _on_resuming(record: Record) -> str:
    so_far = "the search, which is through" if status.is_in_confirmation(record) else "the trials so far"
    return (
        f"The sweep is {status.status(record)}{status.how_far(record)}: go on with it first, by --resume. "
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


def _place_of(hyperparameter: str, record: Record) -> str:
    """`, in FILE` of a hyperparameter whose range stands in a function there; "" of one that has a range by
    itself."""
    names = trainables(record)
    of = [name for name in names if len(names) == 1 or hyperparameter.startswith(f"{name}.")]
    file = status.function_of(record, of[0]) if of else ""
    return f", in {file}" if file else ""


def _on_functions(record: Record) -> Iterator[str]:
    """What --refine can't do."""
    for file in dict.fromkeys(status.function_of(record, name) for name in trainables(record)):
        if file:
            yield (
                f"{file} is a function suggest(trial): --refine leaves its ranges as they are. Edit them "
                "there first; --refine then tells the searcher of the trials so far that fit."
            )


def _on_edge(edge: Edge, place: str) -> str:
    end = {"high": "upper", "low": "lower"}[edge.side]
    name = edge.hyperparameter.rpartition(".")[0]
    of = f" of {name}" if name else ""
    sits = f"{edge.hyperparameter}: {edge.at} of the {edge.of} best trials{of}, the best one too, "
    if edge.old is None:
        last, size = (-1, "larg") if edge.side == "high" else (0, "small")
        return (
            f"{sits}have {short(edge.values[last])}, the {size}est of its choices: try a {size}er one{place}."
        )
    where = f"{sits}lie at the {end} end of {edge.old}"
    if edge.new == edge.old or edge.new is None:
        return f"{where}, which can't be moved further by itself."
    return f"{where}: widen it to {edge.new}{place}."


def _on_region(region: DeadRegion, record: Record) -> str:
    statuses = {trial.status for trial in record.searched} & {"failed", "diverged"}
    kind = str(region.cause or " or ".join(sorted(statuses)))
    others = region.trials - region.bad
    there = "no other trial lies there" if not others else f"of {count(others, 'other')} there none is good"
    place = _place_of(region.hyperparameter, record)
    return f"{region.bad} of {region.all_bad} trials that {kind} have {region}; {there}: cut it off{place}."


def _on_influence(advice: Advice, found: Sequence[Influence], seen: Ranked, record: Record) -> Iterator[str]:
    for hyperparameter, of_hyperparameter in advice.fix:
        at, early = of_hyperparameter.at, of_hyperparameter.early
        less = "" if early.epoch == at.epoch else f", and {early.percent(hyperparameter)} by {early.words}"
        is_early = any(epoch > at.epoch for trial in seen.trials for epoch in trial.epochs)
        later = " What it does to trials that train longer is not known." if is_early else ""
        yield (
            f"{hyperparameter} decided {at.percent(hyperparameter)} of which trials came among the best "
            f"{100 * at.top:.0f} % "
            f"(PED-ANOVA: {at.words}{less}), and scores differ no more by it than by chance: fix it"
            f"{_place_of(hyperparameter, record)}, "
            f"unless a small effect counts, which this can't rule out.{later}"
        )
    if not found and seen.order and not is_constant(seen) and len(words_of(seen.trials)) > 1:
        yield (
            f"Which hyperparameters could be fixed can't be told: that takes {LEAST_TO_FIX} trials of a "
            "trainable with a score at the same epoch."
        )


def _on_pruning(advice: Advice) -> Iterator[str]:
    for check in (each for each in advice.rungs if each.of > 1):
        stood = (
            f"The best at epoch {check.end} was {_ordinal(check.rank)} of {check.of} at epoch {check.epoch}"
        )
        if check.tied is not None:
            yield (
                f"All {check.trials} trials that reached epochs {check.epoch} and {check.end} have the same "
                f"score at epoch {check.tied}: how ranks at the two agree can't be told."
            )
            continue
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
        after = f"{count(later, 'trial')} came after it" if later else "it was the last one"
        yield f"The best is {status.best(record)}; {after}."
    if advice.gain is None:
        if seen.order:
            yield "What more trials would bring can't be estimated from these."
        return
    if advice.goes_on:
        yield "The same space deserves more trials, or a narrower one."
    elif is_cut_short(advice):
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


def is_constant(seen: Ranked) -> bool:
    return len(set(seen.values)) < 2


def is_cut_short(advice: Advice) -> bool:
    """Whether the best lie at an end that can be moved; one of choices can, by the user."""
    return any(edge.old is None or edge.new not in (None, edge.old) for edge in advice.widen)

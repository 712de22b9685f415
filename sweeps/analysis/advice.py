"""What to try after a sweep: ranges, hyperparameters, pruning, and what it may gain.

from sweeps import results
from sweeps.analysis import advice
print(*advice.advise(results.load("results/NAME")).lines, sep="\n")
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sweeps.analysis.failure_regions import DeadRegion, by_cause, in_words
from sweeps.analysis.findings import Findings, findings
from sweeps.analysis.influence import LEAST_TO_FIX
from sweeps.analysis.new_ranges import Change, changes
from sweeps.analysis.range_edges import Edge
from sweeps.analysis.sweep import Sweep
from sweeps.analysis.top_trials import FEW, Ranked, distributions_of, trainables
from sweeps.common.formatting import command, count, short, shown_path
from sweeps.config.sweep_folder import BEST_FOLDER, PARAMS_FILE, SWEEP_FILE
from sweeps.record import status
from sweeps.record.record import Record
from sweeps.record.trials import BAD, ENDED_WELL


class Step(NamedTuple):
    """Something to do next."""

    text: str
    command: str


@dataclass(frozen=True, kw_only=True)
class Advice(Findings):
    """Findings, in sentences, with what to do next."""

    steps: tuple[Step, ...]
    """At most three, the first one first."""
    changes: tuple[Change, ...]
    """The ranges that change where a step refines the sweep."""
    lines: tuple[str, ...]
    """What the steps are based on: a sentence or more each, the most important first."""
    command: str
    """What to type next: to resume a sweep that was stopped, else to refine it; "" where there is nothing to
    learn from."""


def advise(sweep: Sweep) -> Advice:
    """What to try after a sweep, however few of its trials ended."""
    found = findings(sweep.record)
    next_command = _command(sweep.record, found)
    lines = tuple(_lines(sweep.record, found, next_command))
    changed = tuple(changes(sweep.record)) if "--refine" in next_command else ()
    steps = tuple(_steps(sweep.record, next_command))
    return Advice(**vars(found), steps=steps, changes=changed, lines=lines, command=next_command)


def _steps(record: Record, next_command: str) -> Iterator[Step]:
    """To repair what fails, then to go on; where nothing else is to do, to use the best trial."""
    failed = [trial for trial in record.searched if trial.status == "failed"]
    if failed:
        alike = max(by_cause(failed).values(), key=len)
        most = ", most often" if len(alike) < len(failed) else ""
        log = next((trial.log for trial in alike if trial.log), None)
        yield Step(
            f"Repair what {len(failed):,} of {count(len(record.searched), 'trial')} failed with{most}: "
            f"{alike[0].reason or 'no reason was recorded'}.",
            shlex.join(["cat", shown_path(record.folder.resolve() / log)]) if log else "",
        )
    folder, best = record.folder.resolve(), record.best()
    if status.status(record) in status.RUNNING:
        return
    if status.can_go_on(record):
        as_it_was = " with the code as it was" if failed else ""
        how = f"{status.status(record)}{status.how_far(record)}"
        yield Step(f"Resume the sweep{as_it_was}: it is {how}.", next_command)
    elif "--refine" in next_command:
        yield Step("Search again, in the ranges below.", next_command)
    elif next_command and failed:  # a resume refuses other code
        again = command("run", "--config", shown_path(folder / SWEEP_FILE), "--name", f"{record.name}-again")
        yield Step("Begin a new sweep with the repaired code.", again)
    elif next_command:
        yield Step(f"Add trials: to judge ranges, {FEW} with different scores are needed.", next_command)
    elif best is not None and best.status != "unfinished" and not record.objectives.are_several:
        params = shown_path(folder / BEST_FOLDER / PARAMS_FILE)
        again = command("fit", best.trainable, "--params", params)
        yield Step(f"Use the weights of trial {best.number} in {BEST_FOLDER}/, or train it again.", again)


def _command(record: Record, found: Findings) -> str:
    """To resume the sweep, where it was stopped; else to refine it, where that changes a range; else to add
    trials, where a judgement needs more of them. "" of one that runs."""
    if status.can_go_on(record):
        return status.go_on(record)
    if status.status(record) in status.RUNNING:
        return ""
    folder = shown_path(record.folder.resolve())
    if not any(trial.status in ENDED_WELL for trial in record.searched):
        return ""
    if record.objectives.are_several:  # --refine takes one
        return ""
    if found.cut or any(part.can_judge_ranges for part in found.parts):
        later = [] if found.grace_epochs is None else ["--grace-epochs", str(found.grace_epochs)]
        return command("run", "--refine", folder, *later)
    can_add = record.info.settings.searcher != "grid" and record.info.is_of_this_version
    if not can_add or not any(0 < len(part.order) < FEW for part in found.parts):
        return ""
    return command("run", "--resume", folder, "--num-trials", str(max(FEW, 2 * len(record.searched))))


def _lines(record: Record, found: Findings, next_command: str) -> Iterator[str]:
    seen = found.seen
    if status.can_go_on(record):
        basis = "the search, which has ended" if status.is_in_confirmation(record) else "the trials so far"
        how = f"{status.status(record)}{status.how_far(record)}"
        yield f"The sweep is {how}: resume it first. This advice is based on {basis}."
    if not seen.trials:
        yield "No trial was started: there is nothing to learn from."
        return
    if record.objectives.are_several:
        yield f"This advice is by {record.info.metric}, the first objective, alone."
    yield _on_comparison(record, seen)
    yield from (_on_edge(edge, record) for edge in found.widen)
    yield from (_on_region(region, record) for region in found.cut)
    yield from _on_influence(record, found)
    yield from _on_pruning(found)
    yield from _on_more_trials(record, found)
    if "--refine" in next_command:
        yield from _on_functions(record)


def _on_comparison(record: Record, seen: Ranked) -> str:
    """At which epoch trials are compared, or why they are not."""
    scored, metric = len(seen.order), record.info.metric
    if not scored and not seen.bad:
        return f"{count(len(seen.trials), 'trial')} started; none has a score."
    if not scored:
        reason, times = Counter(trial.reason for trial in seen.bad).most_common(1)[0]
        bad = f"{len(seen.bad)} of {len(seen.trials)} failed, diverged or were infeasible"
        return (
            f"No trial ended well: {bad}. The most common reason is: {reason or 'none was recorded'} "
            f"({count(times, 'time')}). Fix that before another sweep."
        )
    if scored == 1:
        return f"Only one trial has a score. To judge ranges and hyperparameters, {FEW} trials are needed."
    if seen.is_constant:
        score = short(record.scores_at(seen.epoch)[seen.order[0].number])
        return (
            f"{metric} is {score} in all {scored} trials that reached epoch {seen.epoch}: no range or "
            "hyperparameter can be judged. Use another --metric, or tune other hyperparameters."
        )
    if scored < FEW:
        few = f"Only {scored} trials have a score at epoch {seen.epoch}"
        return f"{few}. To judge ranges, {FEW} trials are needed."
    return (
        f"Trials are compared at epoch {seen.epoch}, which {scored} of {count(len(seen.trials), 'trial')} "
        f"reached. The best {len(seen.best)} of these count as the best trials."
    )


def _in_file(hyperparameter: str, record: Record) -> str:
    """`, in FILE` of a hyperparameter whose range a function there has, which --refine can't change; else
    ""."""
    names = trainables(record)
    of = [name for name in names if len(names) == 1 or hyperparameter.startswith(f"{name}.")]
    file = status.function_of(record, of[0]) if of else ""
    return f", in {file}" if file else ""


def _on_functions(record: Record) -> Iterator[str]:
    """What --refine can't do."""
    for file in dict.fromkeys(status.function_of(record, name) for name in trainables(record)):
        if file:
            yield (
                f"{file} is a function suggest(trial), whose ranges --refine does not change. Edit them "
                "there first; --refine then gives the searcher those of the trials so far that fit."
            )


def _on_edge(edge: Edge, record: Record) -> str:
    trainable, in_file = edge.hyperparameter.rpartition(".")[0], _in_file(edge.hyperparameter, record)
    of = f" of {trainable}" if trainable in trainables(record) else ""
    best = f"{edge.hyperparameter}: {edge.at} of the {edge.of} best trials{of}, including the first of them,"
    if edge.old is None:
        last, size = (-1, "larg") if edge.side == "high" else (0, "small")
        return f"{best} have {short(edge.values[last])}, the {size}est choice: try a {size}er one{in_file}."
    where = f"{best} lie at the {'upper' if edge.side == 'high' else 'lower'} end of {edge.old}"
    if not edge.can_widen:
        return f"{where}, which can't be widened further."
    return f"{where}: widen it to {edge.new}{in_file}."


def _on_region(region: DeadRegion, record: Record) -> str:
    statuses = {trial.status for trial in record.searched} & set(BAD)
    kind = str(region.cause or " or ".join(map(in_words, sorted(statuses))))
    others = region.trials - region.bad
    there = "no other trial lies there" if not others else f"no good trial is among the {others} others there"
    in_file = _in_file(region.hyperparameter, record)
    return f"{region.bad} of {region.all_bad} trials that {kind} have {region}; {there}: exclude it{in_file}."


def _on_influence(record: Record, found: Findings) -> Iterator[str]:
    seen = found.seen
    last = max((epoch for trial in seen.trials for epoch in trial.epochs), default=0)
    for name, each in found.fix:
        at, early = each.at, each.early
        also = "" if early.epoch == at.epoch else f"; {early.percent(name)} by {early.words}"
        later = " Its effect on trials that train longer is not known." if last > at.epoch else ""
        yield (
            f"{name} decided {at.percent(name)} of which trials are among the best {100 * at.top:.0f} % "
            f"(PED-ANOVA: {at.words}{also}), and scores do not differ by its value more than by chance: fix "
            f"it{_in_file(name, record)}. A small effect can't be ruled out.{later}"
        )
    if not found.influences and not seen.is_constant and len(distributions_of(seen.trials)) > 1:
        yield (
            "Hyperparameters without influence can't be found with so few trials: that needs "
            f"{LEAST_TO_FIX} trials of one trainable with a score at the same epoch."
        )


def _on_pruning(found: Findings) -> Iterator[str]:
    for check in (each for each in found.rungs if each.of > 1):
        epochs = f"epochs {check.epoch} and {check.end}"
        if check.tied is not None:
            yield (
                f"All {check.trials} trials that reached {epochs} have the same score at epoch {check.tied}: "
                "the correlation of their ranks can't be computed."
            )
            continue
        ranked = (
            f"The first trial at epoch {check.end} ranked {check.rank} of {check.of} at epoch {check.epoch}."
        )
        if check.correlation is None:
            both = f"only {count(check.trials, 'trial')} reached both"
            yield f"{ranked} The correlation of ranks at {epochs} can't be computed: {both}."
            continue
        survivors = " They survived pruning, and ranks of survivors agree less than ranks of all trials."
        yield (
            f"{ranked} Ranks at {epochs} have a correlation of {check.correlation:+.2f} (Spearman, "
            f"{check.trials} trials that reached both).{survivors if check.trials < check.of else ''}"
        )
    if found.grace_epochs is not None:
        yield (
            f"Pruning may be too early: ranks at epoch {found.rungs[0].epoch} hardly predict those at "
            f"epoch {found.rungs[0].end}. "
            f"Try --grace-epochs {found.grace_epochs}. How the pruned trials would have ended is not known."
        )


def _on_more_trials(record: Record, found: Findings) -> Iterator[str]:
    seen, gained = found.seen, found.gain
    if seen.order and (best := record.best()) is not None and len(seen.trials) > 1:
        later = len(record.searched) - record.nth(best.number) - 1
        after = count(later, "trial") if later else "no trial"
        what = "best" if record.objectives.are_several else "best score"
        yield f"The {what} is {status.best(record)}; {after} came after it."
    if gained is None:
        if seen.order:
            yield "The gain from more trials can't be estimated."
        return
    if found.more_trials_help:
        yield "More trials in the same space may help, and so may a narrower space."
    elif found.is_cut_short:
        yield "More trials in the same space would not find what lies beyond its edge: widen it first."
    else:
        yield "More trials in the same space would hardly help: narrow it, change it, or stop."
    yield (
        f"Another {gained.trials} trials in the same space may improve {record.info.metric} at epoch "
        f"{gained.epoch} by about {short(gained.score)} at most. That is what the second half of the trials "
        "gained, averaged over their orders. The gain from another space is not known."
    )

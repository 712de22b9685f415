"""What the record of a sweep says, in sentences: the words of its report."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sweeps.analysis.fidelity import fidelity
from sweeps.analysis.figures import costs
from sweeps.analysis.figures.failures import causes, words
from sweeps.analysis.figures.learning_curves import rungs
from sweeps.analysis.report import confidence
from sweeps.analysis.sweep import Sweep
from sweeps.common.formatting import count, duration, short
from sweeps.common.objective import Objective
from sweeps.record import status as record_status
from sweeps.record.trials import TrialRow

if TYPE_CHECKING:
    from sweeps.analysis.recommendation import Advice


_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(e[-+]?\d+)?(?![\w.])")


def asked(sweep: Sweep) -> list[str]:
    """What was asked for, and how far it came."""
    info, settings = sweep.record.info, sweep.record.info.settings
    size = {"max": "large", "min": "small"}[info.objective.mode]
    models = " and ".join(info.trainables) or "?"
    first = [f"It trained {models}, to make {info.metric} as {size} as it can."]
    if settings:
        pruned = "none was to be stopped early"
        if settings.get("scheduler") != "none":
            pruned = f"the scheduler {settings.get('scheduler')} stopped poor ones early"
        wanted, begun = (sweep.record.planned_trials or [0])[-1], len(sweep.record.searched)
        trials = count(begun, "trial") if begun >= wanted else f"{begun:,} of {count(wanted, 'trial')}"
        first.append(
            f"The searcher {settings.get('searcher')} proposed {trials}, of at most "
            f"{count(info.max_epochs or 0, 'epoch')}, and {pruned}; the seed was {info.seed}."
        )
    data = info.identity["data"]
    first += [f"The {name}: {text}." for name, text in data.items() if name.startswith("data") and text]
    return [" ".join([*first, *_functions(sweep)]), _progress(sweep)]


def space(sweep: Sweep) -> list[tuple[str, str]]:
    """Hyperparameter and what was tried of it, in words, its numbers as short as on the screen."""
    info = sweep.record.info
    written = [
        (str(name), _DECIMAL.sub(lambda number: short(float(number[0])), str(text)))
        for name, text in info.identity["space"].items()
    ]
    return written + [
        (f"{hyperparameter} of {name}" if info.is_of_several else hyperparameter, words)
        for name, sampled in info.sampled_space.items()
        for hyperparameter, words in sampled.items()
    ]


def _functions(sweep: Sweep) -> Iterator[str]:
    """Of each space that no table can show whole, where it stands."""
    info = sweep.record.info
    for name in info.trainables:
        if file := record_status.function_of(sweep.record, name):
            sampled = "; below is what samples of it had" if info.sampled_space else ""
            of = f" of {name}" if info.is_of_several else ""
            yield f"The space{of} is the function suggest(trial) in {file}{sampled}."


def found(sweep: Sweep) -> list[str]:
    """The best trial and its scores."""
    record = sweep.record
    best = record.best()
    if best is None:
        reasons = Counter(trial.reason for trial in record.trials if trial.reason)
        most = f" The commonest reason: {reasons.most_common(1)[0][0]}." if reasons else ""
        return [f"No trial has ended well.{most}"]
    metric = record.info.metric
    model = f" ({best.trainable})" if record.info.is_of_several else ""
    score = f"{metric} {short(best.best_score(record.objective))}"
    epoch = f"in epoch {best.best_epoch(record.objective)} of {len(best.epochs)}"
    confirmed = confidence.confirmed(sweep)
    if confirmed:
        words = (
            f"Trial {best.number}{model} is the best: {metric} {confidence.over_seeds(confirmed[0])}. "
            f"In the search it had {score}, {epoch}."
        )
    else:
        of_search = " of the search" if record.reruns.numbers else ""
        words = f"Trial {best.number}{model} is the best{of_search}: {score} {epoch}."
    return [words + _test(sweep, best)]


def _test(sweep: Sweep, best: TrialRow) -> str:
    """What the weights of the best trial, or of one of its reruns, scored on the test rows."""
    info, test = sweep.record.info, sweep.record.info.test
    reruns = {rerun.number: rerun for rerun in sweep.record.reruns.of(best.number)}
    if test is None or (test.run != best.number and test.run not in reruns):
        return ""
    run, scores = test.run, ", ".join(f"{name} {short(score)}" for name, score in test.scores.items())
    again = f" (the weights of trial {run}, its rerun with seed {reruns[run].seed})" if run in reruns else ""
    times = len(info.tests)
    often = "" if times < 2 else f" They were scored {times} times, {_of_whom(sweep, best.number)}."
    return f" On the test rows, which no trial has seen, it scored {scores}{again}.{often}"


def _of_whom(sweep: Sweep, best: int) -> str:
    """Whose weights were scored on the test rows; a rerun is its trial with another seed."""
    trials = {trial.number: trial for trial in sweep.record.trials}
    runs = [trials.get(test.run) for test in sweep.record.info.tests if test.run is not None]
    scored = {run.number if run.confirms is None else run.confirms for run in runs if run is not None}
    others = [str(number) for number in sorted(scored - {best})]
    if not others:
        return "always for this trial"
    named = f"trial {others[0]} was" if len(others) == 1 else f"trials {', '.join(others)} were"
    return f"since {named} the best before"


def pruning(sweep: Sweep) -> list[str]:
    """Where trials were stopped, and what that saved."""
    trials = sweep.record.searched
    stopped = [trial for trial in trials if trial.status == "pruned"]
    if not stopped:
        return ["No trial was stopped early."]
    at = Counter(max(trial.epochs) for trial in stopped if trial.epochs)
    where = ", ".join(f"{at[epoch]} at epoch {epoch}" for epoch in rungs(sweep))
    return [f"{len(stopped):,} of {count(len(trials), 'trial')} were stopped early: {where}."]


def compared(sweep: Sweep, advised: Advice) -> list[str]:
    """Why figures and advice look at different epochs, where they do."""
    at = fidelity(sweep.record)
    if at is None or not advised.judged or at.epoch == advised.epoch:
        return []
    if advised.epoch > at.epoch:
        why = "enough for the best values of a range, but not for a picture of all"
    else:
        why = f"at epoch {at.epoch} there are enough for a picture, but too few to judge ranges by"
    return [
        f"The figures compare trials at epoch {at.epoch}, which {len(at.scores):,} reached. What to try next "
        f"was judged at epoch {advised.epoch}, which {advised.judged:,} reached: {why}."
    ]


def cost(sweep: Sweep) -> list[str]:
    """What it took, and what pruning saved."""
    took = costs.spent(sweep)
    if not took.epochs:
        return ["Nothing was trained."]
    whole = took.device_hours + took.saved_hours
    lines = [
        f"It trained {count(took.epochs, 'epoch')} in {duration(sweep.record.elapsed_s)}; the training "
        f"itself took {_device_time(took.device_hours, took.devices)}."
    ]
    if took.saved_epochs:
        lines.append(
            f"Stopping early saved {count(took.saved_epochs, 'epoch')}: to train everything to the end would "
            f"have taken {_device_time(whole, took.devices)}, so {_share(took.saved_hours, whole)} was saved."
        )
    shares = [
        f"{words} took {_share(took.parts[part], took.seconds)} of the training"
        for part, words in (("data wait", "waiting for data"), ("checkpoint", "writing checkpoints"))
        if took.seconds and took.parts.get(part)
    ]
    if took.start_up_s:
        shares.append(f"starting trials took {duration(took.start_up_s)} more, all trials together")
    text = "; ".join(shares)
    return [" ".join([*lines, f"{text[:1].upper()}{text[1:]}."] if shares else lines)]


def troubles(sweep: Sweep) -> list[str]:
    """A line per cause of trouble, with the region where it happens."""
    return [words(cause) + (f". {cause.region.words}" if cause.region else "") for cause in causes(sweep)]


def ranking(sweep: Sweep, most: int) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table of the best trials; those that have no score come last."""
    objective = sweep.record.objective
    trials = sorted(sweep.record.searched, key=lambda trial: (_worth(trial, objective), trial.number))
    hyperparameters = list(dict.fromkeys(name for trial in trials for name in trial.params))
    several = sweep.record.info.is_of_several
    columns = [
        "trial",
        *(["trainable"] if several else []),
        "status",
        sweep.record.info.metric,
    ]
    columns += ["in epoch", "epochs", *hyperparameters]
    rows = []
    for trial in trials[:most]:
        cells: list[Any] = [trial.number, *([trial.trainable] if several else []), trial.status]
        cells += [trial.best_score(objective), trial.best_epoch(objective), len(trial.epochs)]
        rows.append([short(cell) for cell in [*cells, *(trial.params.get(name) for name in hyperparameters)]])
    return columns, rows


def _worth(trial: TrialRow, objective: Objective) -> tuple[int, float]:
    score = trial.best_score(objective)
    ended_badly = trial.status in ("failed", "diverged")
    return (2, 0.0) if score is None else (int(ended_badly), -objective.sign * score)


def _progress(sweep: Sweep) -> str:
    record = sweep.record
    stands = f"It is {record_status.status(record)}"
    if not record.trials:
        return f"{stands}; no trial has begun."
    statuses = Counter(trial.status for trial in record.searched)
    parts = ", ".join(f"{times:,} {status}" for status, times in statuses.most_common())
    began = record.info.started
    when = "" if began is None else time.strftime(" It began on %Y-%m-%d at %H:%M.", time.localtime(began))
    reruns = len(record.trials) - len(record.searched)
    again = f" and {count(reruns, 'rerun')}" if reruns else ""
    return f"{stands}: {count(len(record.searched), 'trial')} ({parts}){again}.{when}"


def _device_time(hours: float, devices: str) -> str:
    """`3.2 GPU-hours`; what is short as `42 s of GPU time`."""
    return f"{hours:,.1f} {devices}-hours" if hours >= 1 else f"{duration(3600 * hours)} of {devices} time"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"

"""What the record of a sweep says, in sentences: the words of its report."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sweeps.analysis import again, costs, trouble
from sweeps.analysis.fidelity import searched
from sweeps.analysis.pruning import rungs
from sweeps.results import Sweep
from sweeps.rows import TrialRow
from training.words import count, duration, short

OUTCOMES = {
    "finished": "It is finished",
    "out of time": "It ended when its time was used up",
    "interrupted": "It was interrupted",
    "lost": "It broke off when its record could not be written any more",
    "unfinished": "It is still running, or it broke off",
    "error": "It ended by a mistake in what was asked",
}


def asked(sweep: Sweep) -> list[str]:
    """What was asked for, and how far it came."""
    about, settings = sweep.about, _settings(sweep)
    trainable = about.get("trainable", "?")
    models = " and ".join(trainable) if isinstance(trainable, list) else str(trainable)
    metric, mode = about.get("metric", "score"), "large" if sweep.record.mode == "max" else "small"
    first = [f"It trained {models}, to make {metric} as {mode} as it can."]
    if settings:
        pruned = "none was to be stopped early"
        if settings.get("scheduler") != "none":
            pruned = f"the scheduler {settings.get('scheduler')} stopped poor ones early"
        first.append(
            f"The searcher {settings.get('searcher')} proposed "
            f"{count(settings.get('num_trials') or 0, 'trial')} of at most "
            f"{count(about.get('max_epochs', 0), 'epoch')}, and {pruned}; the seed was {about.get('seed')}."
        )
    words = about.get("identity", {}).get("data", {})
    first += [f"The data: {text}." for name, text in words.items() if name.startswith("data") and text]
    return [" ".join(first), _progress(sweep)]


def space(sweep: Sweep) -> list[tuple[str, str]]:
    """Knob and what was tried of it, in words."""
    return [(str(name), str(text)) for name, text in sweep.about.get("identity", {}).get("space", {}).items()]


def found(sweep: Sweep) -> list[str]:
    """The best trial and its scores."""
    record = sweep.record
    best = record.best()
    if best is None:
        reasons = Counter(trial.reason for trial in record.trials if trial.reason)
        most = f" The commonest reason: {reasons.most_common(1)[0][0]}." if reasons else ""
        return [f"No trial has ended well so far.{most}"]
    metric = sweep.about.get("metric", "score")
    model = f" ({best.trainable})" if isinstance(sweep.about.get("trainable"), list) else ""
    words = (
        f"Trial {best.number}{model} is the best: {metric} {short(best.best_score(record.mode))} "
        f"in epoch {best.best_epoch(record.mode)} of {len(best.epochs)}."
    )
    test = sweep.about.get("test", {})
    if test.get("trial") == best.number:
        scores = ", ".join(f"{name} {short(score)}" for name, score in test.items() if name != "trial")
        words += f" On the test rows, which no trial has seen, it scored {scores}."
    return [words]


def sureness(sweep: Sweep) -> list[str]:
    """How far the first place can be trusted."""
    if sweep.record.best() is None:
        return []
    metric = sweep.about.get("metric", "score")
    confirmed = again.confirmed(sweep)
    if not confirmed:
        scores = _best_scores(sweep)
        lead = ""
        if len(scores) > 1:
            ahead = short(abs(scores[0] - scores[1]))
            lead = (
                f" It leads the next one by {ahead}."
                if scores[0] != scores[1]
                else " The next one has the same."
            )
        return [
            f"How sure is that? One seed was seen of each trial, so how much of a lead is luck is not known."
            f"{lead} A sweep with --confirm N trains the best ones again with N new seeds."
        ]
    first = confirmed[0]
    lines = [
        f"How sure is that? Trained again with {count(len(first.scores), 'new seed')}, trial {first.number} "
        f"has {metric} {short(first.mean)} on average"
        + ("." if math.isnan(first.spread) else f", with a standard deviation of {short(first.spread)}.")
    ]
    if len(confirmed) > 1:
        second = confirmed[1]
        gap = abs(first.mean - second.mean)
        error = math.sqrt(sum(one.spread**2 / len(one.scores) for one in (first, second)))
        if not math.isnan(error):
            verdict = "more than" if gap > 2 * error else "not more than"
            either = "" if gap > 2 * error else ": either may be the better one"
            lines.append(
                f"It leads trial {second.number} by {short(gap)} on average, {verdict} twice the standard "
                f"error of that ({short(error)}){either}."
            )
    return lines


def pruning(sweep: Sweep) -> list[str]:
    """Where trials were stopped, and what that saved."""
    trials = searched(sweep)
    stopped = [trial for trial in trials if trial.status == "pruned"]
    if not stopped:
        return ["No trial was stopped early."]
    at = Counter(max(trial.epochs) for trial in stopped if trial.epochs)
    where = ", ".join(f"{at[epoch]} at epoch {epoch}" for epoch in rungs(sweep))
    return [f"{len(stopped):,} of {count(len(trials), 'trial')} were stopped early: {where}."]


def cost(sweep: Sweep) -> list[str]:
    """What it took, and what pruning saved."""
    took = costs.spent(sweep)
    if not took.epochs:
        return ["Nothing was trained yet."]
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
    return [
        trouble.words(cause) + (f". {cause.region.words}" if cause.region else "")
        for cause in trouble.causes(sweep)
    ]


def ranking(sweep: Sweep, most: int) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table of the best trials; those that have no score come last."""
    mode = sweep.record.mode
    trials = sorted(searched(sweep), key=lambda trial: (_worth(trial, mode), trial.number))
    knobs = list(dict.fromkeys(name for trial in trials for name in trial.params))
    several = isinstance(sweep.about.get("trainable"), list)
    columns = [
        "trial",
        *(["trainable"] if several else []),
        "status",
        str(sweep.about.get("metric", "score")),
    ]
    columns += ["in epoch", "epochs", *knobs]
    rows = []
    for trial in trials[:most]:
        cells: list[Any] = [trial.number, *([trial.trainable] if several else []), trial.status]
        cells += [trial.best_score(mode), trial.best_epoch(mode), len(trial.epochs)]
        rows.append([short(cell) for cell in [*cells, *(trial.params.get(name) for name in knobs)]])
    return columns, rows


def _worth(trial: TrialRow, mode: str) -> tuple[int, float]:
    score = trial.best_score(mode)
    ended_badly = trial.status in ("failed", "diverged")
    return (2, 0.0) if score is None else (int(ended_badly), -score if mode == "max" else score)


def _best_scores(sweep: Sweep) -> Sequence[float]:
    record = sweep.record
    scores = (record.trials[number].best_score(record.mode) for number in record.leaders(2))
    return [score for score in scores if score is not None]


def _progress(sweep: Sweep) -> str:
    trials = sweep.record.trials
    outcome = OUTCOMES.get(str(sweep.about.get("outcome", "unfinished")), OUTCOMES["unfinished"])
    if not trials:
        return f"{outcome}; no trial has begun."
    statuses = Counter(trial.status for trial in trials)
    parts = ", ".join(f"{times:,} {status}" for status, times in statuses.most_common())
    began = sweep.about.get("started")
    when = "" if began is None else time.strftime(" It began on %Y-%m-%d at %H:%M.", time.localtime(began))
    return f"{outcome}: {count(len(trials), 'trial')} ({parts}).{when}"


def _settings(sweep: Sweep) -> dict[str, Any]:
    return dict(sweep.about.get("identity", {}).get("settings", {}))


def _device_time(hours: float, devices: str) -> str:
    """`3.2 GPU-hours`; what is short as `42 s of GPU time`."""
    return f"{hours:,.1f} {devices}-hours" if hours >= 1 else f"{duration(3600 * hours)} of {devices} time"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"

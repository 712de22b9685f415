"""What the screen and a log say of a sweep that runs, in lines of text."""

from __future__ import annotations

import statistics
from collections import Counter

from sweeps.common.formatting import count, duration, short
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.trials import BAD, TrialRow, Waits

ENDS = ("finished", "pruned", "stopped", "failed", "diverged", "infeasible")
"""Statuses of trials that have ended, as they are listed."""


def progress(trial: TrialRow, waits: Waits | None) -> str:
    """The status of a trial while its sweep runs."""
    if trial.status != "unfinished":
        return trial.status
    return "waiting" if waits is not None and waits(trial) else "training"


def planned(record: Record, config: SweepConfig) -> int:
    """Trials of the whole search, as of now."""
    return record.planned_trials[-1] if record.planned_trials else config.num_trials or len(record.searched)


def ended(record: Record, trial: TrialRow) -> str:
    """`Trial 3 pruned after 9 epochs, val_acc 0.8`, or why it failed, and its log."""
    rerun = "" if trial.confirms is None else f" (rerun of trial {trial.confirms})"
    line = f"Trial {trial.number}{rerun} {trial.status} after {count(len(trial.epochs), 'epoch')}"
    if trial.status in BAD:
        log = f"; see {trial.log}" if trial.log else ""
        return f"{line}: {trial.reason}{log}"
    return f"{line}, {record.objective.metric} {short(trial.last_score)}"


def summary(record: Record, config: SweepConfig, left: str = "", waits: Waits | None = None) -> str:
    """Two lines on the whole sweep; `left` is its time left, in words."""
    trials, objective = record.searched, record.objective
    counts = Counter(progress(trial, waits) for trial in trials)
    live = counts["training"] + counts["waiting"]
    over = len(trials) - live
    epochs = sum(len(trial.epochs) for trial in trials)
    saved = sum(config.max_epochs - len(trial.epochs) for trial in trials if trial.status == "pruned")

    def states(*words: str) -> str:
        return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])

    ways = f" ({states(*ENDS)})" if over else ""
    running = f"; {states('training', 'waiting')}" if live else ""
    sound = (trial for trial in trials if trial.status not in BAD)
    best = objective.best(sound, lambda trial: trial.best_score(objective))
    found = "none yet"
    if best is not None:
        score, epoch = short(best.best_score(objective)), best.best_epoch(objective)
        found = f"{score} (trial {best.number}, epoch {epoch})"
    return (
        f"trials {over}/{planned(record, config)} ended{ways}{running}; best {objective.metric} {found}\n"
        f"epochs {epochs:,} trained, {saved:,} saved by pruning; {_times(record, left)}"
    )


def summary_of_reruns(record: Record, config: SweepConfig, left: str = "") -> str:
    """Two lines on the reruns of the best trials."""
    reruns = {number: record.reruns.of(number) for number in record.reruns.numbers}
    begun = [rerun for of_trial in reruns.values() for rerun in of_trial]
    over, to_come = sum(rerun.status != "unfinished" for rerun in begun), len(record.reruns_to_come())
    means = []
    for number, of_trial in reruns.items():
        scores = [rerun.best_score(record.objective) for rerun in of_trial if rerun.status == "finished"]
        if finite := [score for score in scores if score is not None]:
            means.append(f"trial {number} {short(statistics.fmean(finite))} ({count(len(finite), 'rerun')})")
    epochs = sum(len(rerun.epochs) for rerun in begun)
    return (
        f"reruns {over}/{len(begun) + to_come} ended; "
        f"mean {config.objective.metric}: {', '.join(means) or 'none yet'}\n"
        f"epochs {epochs:,} trained; {_times(record, left)}"
    )


def _times(record: Record, left: str) -> str:
    return f"{duration(record.elapsed_s)} elapsed" + (f", {left}" if left else "")

"""What the screen and a log say of a sweep that runs, in lines of text."""

from __future__ import annotations

from collections import Counter

from sweeps.common.formatting import count, duration, short
from sweeps.config.sweep_config import SweepConfig
from sweeps.record import constraints
from sweeps.record.record import Record
from sweeps.record.status import best, in_words
from sweeps.record.trials import BAD, TrialRow, Waits

ENDS = ("finished", "pruned", "stopped", "failed", "diverged", "infeasible")
"""Statuses of trials that have ended, as they are listed."""
LIVE = ("training", "starting", "waiting")
"""What the others do."""


def progress(trial: TrialRow, waits: Waits) -> str:
    """The status of a trial while its sweep runs."""
    if trial.status != "unfinished":
        return trial.status
    if not waits(trial):
        return "training"
    return "waiting" if trial.epochs else "starting"


def ended(record: Record, trial: TrialRow) -> str:
    """`Trial 3 pruned after 9 epochs, val_acc 0.8`, or why it failed, and its log."""
    rerun = "" if trial.confirms is None else f" (rerun of trial {trial.confirms})"
    line = f"Trial {trial.number}{rerun} {trial.status} after {count(len(trial.epochs), 'epoch')}"
    if trial.status in BAD:
        log = f"; see {trial.log}" if trial.log and not constraints.is_missed(trial) else ""
        return f"{line}: {trial.reason}{log}"
    last = trial.epochs[max(trial.epochs)] if trial.epochs else None
    values = None if last is None else record.objectives.values(last.score, last.metrics)
    return f"{line}, {in_words(record, values) or record.objective.metric + ' none'}"


def summary(record: Record, config: SweepConfig, left: str, waits: Waits, *, beside_bar: bool = False) -> str:
    """Two lines on the whole sweep; `left` is its time left, in words. A bar tells the epochs that are
    trained."""
    trials = record.searched
    counts = Counter(progress(trial, waits) for trial in trials)
    live = [counts[word] for word in LIVE]
    over = len(trials) - sum(live)
    epochs = sum(trial.spent_epochs for trial in trials)
    saved = sum(config.max_epochs - len(trial.epochs) for trial in trials if trial.status == "pruned")

    def states(*words: str) -> str:
        return ", ".join(f"{counts[word]} {word}" for word in words if counts[word])

    ways = f" ({states(*ENDS)})" if over else ""
    running = f"; {states(*LIVE)}" if any(live) else ""
    trained = f"{saved:,} epochs" if beside_bar else f"epochs {epochs:,} trained, {saved:,}"
    return (
        f"trials {over}/{record.most_trials} ended{ways}{running}; {_best(record)}\n"
        f"{trained} saved by pruning; {_times(record, left)}"
    )


def filled(text: str, width: int) -> str:
    """The parts of each line, between semicolons, in lines of a width that hold whole parts."""
    lines = [""]
    for line in text.splitlines():
        for number, part in enumerate(line.split("; ")):
            joined = f"{lines[-1]}; {part}"
            if number and len(joined) < width:
                lines[-1] = joined
            else:
                lines.append(part)
    return "\n".join(lines[1:])


def _best(record: Record) -> str:
    """The best trial so far, whether it has ended or not; of several objectives the knee of the front."""
    if record.best() is not None:
        return f"best {best(record)}"
    return "no front yet" if record.objectives.are_several else f"best {record.objective.metric} none yet"


def summary_of_reruns(record: Record, left: str = "") -> str:
    """Two lines on the reruns of the best trials."""
    order = record.rerun_trials
    begun = [rerun for number in order for rerun in record.reruns_of(number)]
    over, to_come = sum(rerun.status != "unfinished" for rerun in begun), len(record.reruns_to_come())
    means = [
        f"trial {trial.number} {' / '.join(map(short, trial.means))} ({count(len(trial.scores), 'rerun')})"
        for trial in sorted(record.confirmed_so_far(), key=lambda trial: order.index(trial.number))
        if trial.scores
    ]
    epochs = sum(len(rerun.epochs) for rerun in begun)
    return (
        f"reruns {over}/{len(begun) + to_come} ended; "
        f"mean {' / '.join(record.objectives.metrics)}: {', '.join(means) or 'none yet'}\n"
        f"epochs {epochs:,} trained; {_times(record, left)}"
    )


def _times(record: Record, left: str) -> str:
    return f"{duration(record.elapsed_s)} elapsed" + (f", {left}" if left else "")

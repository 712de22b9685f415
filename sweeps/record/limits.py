"""Whether a search has found enough, or tried enough: `--target`, `--patience` and `--max-gpu-hours`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from sweeps.common.formatting import count, rounded, short
from sweeps.record.trials import ENDED_WELL

if TYPE_CHECKING:
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.record.record import Record
    from sweeps.record.trials import TrialRow


class Reached(NamedTuple):
    """A limit of the search that is reached."""

    limit: str
    """As `--target 0.95`."""
    why: str


def reached(config: SweepConfig, record: Record, gpus: float) -> Reached | None:
    """The limit that ends the search before its last trial; None where it goes on.

    Args:
        gpus: GPUs of a trial, of all its workers together.
    """
    return _target(config, record) or _patience(config, record) or _gpu_hours(config, record, gpus)


def held_s(record: Record) -> float:
    """Seconds in which GPUs trained, the sum of all: one that trials share counts once."""
    spans = list[tuple[float, float, tuple[str, str]]]()
    for trial in record.trials:
        for attempt, epoch, row in trial.every_report():
            place = attempt.place_of(epoch)
            gpu = str(place.get("pc", "")), str(place.get("gpu", ""))
            spans.append((row.time - row.seconds, row.time, gpu))
    found_s, ends = 0.0, dict[tuple[str, str], float]()
    for begin, end, gpu in sorted(spans):
        found_s += max(0.0, end - max(begin, ends.get(gpu, 0.0)))
        ends[gpu] = max(end, ends.get(gpu, 0.0))
    return found_s


def described(config: SweepConfig) -> str:
    """What may end the search before its last trial; "" where nothing is asked for."""
    metric, hours = config.objective.metric, config.time_budget_hours
    found = [
        *([f"when {metric} reaches {short(config.target)}"] if config.target is not None else []),
        *([f"when {config.patience} trials in a row bring no better {metric}"] if config.patience else []),
        *([f"after {config.max_gpu_hours:g} GPU hours of training"] if config.max_gpu_hours else []),
        *([f"after {hours:g} hours"] if hours else []),
    ]
    return ", or ".join(found)


def missed_when_confirmed(config: SweepConfig, record: Record) -> str:
    """Words where a trial has reached the target, and the mean of its reruns has not; else ""."""
    confirmed = record.confirmed()
    if config.target is None or not confirmed or not confirmed[0].scores:
        return ""
    mean = confirmed[0].means[0]
    is_missed = record.objective.is_better(config.target, mean)
    return f"; its reruns miss it: {short(mean)} in the mean" if is_missed else ""


def _target(config: SweepConfig, record: Record) -> Reached | None:
    objective, best = record.objective, record.best()
    score = None if best is None else best.best_score(objective)
    if config.target is None or best is None or objective.is_better(config.target, score):
        return None
    epoch = best.best_epoch(objective)
    if epoch is None or best.epochs[epoch].time <= _last_reached(record):
        return None
    why = f"{objective.metric} {short(score)} (trial {best.number}, epoch {epoch}) reaches it"
    if best.number == 0 and epoch == 1:
        better = "a large" if objective.mode == "max" else "a small"
        why += f"; this is the first score of all: is the target right? {better} {objective.metric} is better"
    return Reached(f"--target {short(config.target)}", why)


def _patience(config: SweepConfig, record: Record) -> Reached | None:
    best = record.best()
    if config.patience is None or best is None:
        return None
    epoch = best.best_epoch(record.objective)
    found_at = max(best.start if epoch is None else best.epochs[epoch].time, _last_reached(record))
    scored = (trial for trial in record.searched if trial.status in ENDED_WELL)
    others = (trial for trial in scored if trial.number != best.number)
    since = sum(_has_ended_since(trial, found_at) for trial in others)
    if since < config.patience:
        return None
    why = f"no better {record.objective.metric} in the last {count(since, 'trial')} that ended"
    return Reached(f"--patience {config.patience}", why)


def _has_ended_since(trial: TrialRow, moment: float) -> bool:
    """Whether it has, and not only because it was opened again and trained no further."""
    last = max((row.time for row in trial.epochs.values()), default=moment)
    return trial.end is not None and trial.end > moment and (not trial.attempts or last > moment)


def _last_reached(record: Record) -> float:
    """When a limit ended the search, in seconds since 1970: who asks for more trials then wants them."""
    last = record.info.ended_by_limit
    return 0.0 if last is None else last.time


def _gpu_hours(config: SweepConfig, record: Record, gpus: float) -> Reached | None:
    if config.max_gpu_hours is None:
        return None
    # Of their epochs, without the time in which they load or wait.
    hours = gpus * math.fsum(trial.spent_seconds for trial in record.trials) / 3600
    if hours < config.max_gpu_hours:
        return None
    # Each trial was to have whole GPUs, and many share one.
    if config.trials_per_gpu == "auto" and (hours := held_s(record) / 3600) < config.max_gpu_hours:
        return None
    limit = f"--max-gpu-hours {config.max_gpu_hours:g}"
    return Reached(limit, f"the trials have trained {rounded(hours)} GPU hours")

"""The status of a sweep, in the words that every page and message uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.common.formatting import count, short
from sweeps.record import lock
from sweeps.record.sweep_info import Outcome

if TYPE_CHECKING:
    from sweeps.record.record import Record
    from sweeps.record.sweep_info import Steered
    from sweeps.record.trials import TrialRow


def status(record: Record) -> Outcome:
    """running, paused, finished, out of time or interrupted.

    The process that runs a sweep holds the lock until after its outcome is written. It knows that outcome;
    for others the outcome of an earlier run does not count meanwhile.
    """
    outcome = record.info.outcome
    has_ended = record.is_ours and outcome is not Outcome.RUNNING
    if not has_ended and lock.is_held(record.folder):
        return Outcome.RUNNING if record.info.paused_at is None else Outcome.PAUSED
    return outcome if outcome in (Outcome.FINISHED, Outcome.OUT_OF_TIME) else Outcome.INTERRUPTED


def is_running(record: Record) -> bool:
    """Whether a process runs the sweep, or holds it in a pause."""
    return status(record) in (Outcome.RUNNING, Outcome.PAUSED)


def can_go_on(record: Record) -> bool:
    """Whether `--resume` would continue the sweep."""
    is_over = is_running(record) or status(record) is Outcome.FINISHED
    return not is_over and record.info.is_of_this_version


def is_in_confirmation(record: Record) -> bool:
    """Whether the search is complete, and reruns of its best trials are left."""
    return not unfinished(record) and not _to_come(record) and record.is_to_be_confirmed


def how_far(record: Record) -> str:
    """The work left, to follow the status: `; 2 trials unfinished, 7 to come`, or ` in its confirmation; 2
    reruns unfinished, 7 to come`."""
    if not is_in_confirmation(record):
        return f"; {count(unfinished(record), 'trial')} unfinished, {_to_come(record):,} to come"
    return f" in its confirmation; {reruns_left(record)}"


def reruns_left(record: Record) -> str:
    """`2 reruns unfinished, 7 to come`."""
    reruns, to_come = len(record.unfinished_reruns), len(record.reruns_to_come())
    return f"{count(reruns, 'rerun')} unfinished, {to_come:,} to come"


def unfinished(record: Record) -> int:
    """Trials of the search that have not ended."""
    return len(record.live) - len(record.unfinished_reruns)


def is_finishing(record: Record) -> bool:
    """Whether the user has given `finish`, and asked for no more trials since."""
    asked = (each for each in reversed(record.info.steered) if each.command in ("finish", "set"))
    last = next((each for each in asked if each.command == "finish" or _sets_trials(each)), None)
    is_held = not _to_come(record) or len(record.points_to_try()) >= _to_come(record)
    return last is not None and last.command == "finish" and is_held


def _sets_trials(steered: Steered) -> bool:
    return any(word.replace("_", "-").startswith("num-trials=") for word in steered.words)


def _to_come(record: Record) -> int:
    """Trials that the search has still to propose."""
    return max(0, record.most_trials - len(record.searched))


def flags_of_resume(record: Record) -> list[str]:
    """What a resume needs besides the folder: more time, where that is over."""
    if status(record) is not Outcome.OUT_OF_TIME:
        return []
    return ["--time-budget-hours", f"{math.ceil(20 * record.elapsed_s / 3600) / 10:g}"]


def best(record: Record) -> str:
    """`val_acc 0.9 (trial 3, epoch 9)`, `val_acc 0.9 (trial 3, epoch 9, still training)`, or of a confirmed
    one `val_acc 0.87 (trial 3, mean of 2 reruns)`; with several objectives `val_acc 0.9, params_m 1.2 (trial
    3, the knee of a front of 4 trials)`."""
    leader = record.best()
    if leader is None:
        return "no trial has a score yet" if record.live else "no trial ended well"
    which = f"trial {leader.number}"
    if record.objectives.are_several:
        which += f", the knee of a front of {count(len(record.front()), 'trial')}"
    if (confirmed := record.confirmed_with_score().get(leader.number)) is not None:
        means = f"mean of {count(len(confirmed.scores), 'rerun')}"
        return f"{in_words(record, confirmed.means)} ({which}, {means})"
    if not record.objectives.are_several:
        which += f", epoch {leader.best_epoch(record.objective)}"
    if is_live := not_ended(record, leader):
        which += f", {is_live}"
    return f"{in_words(record, leader.values(record.objectives))} ({which})"


def not_ended(record: Record, trial: TrialRow) -> str:
    """`still training` of a trial of a sweep that runs, `not ended yet` where it is paused, `unfinished`
    where no process runs the sweep; "" of a trial that has ended."""
    if trial.status != "unfinished":
        return ""
    if not is_running(record) or record.is_held:
        return "unfinished"
    is_paused = trial.is_paused or status(record) is Outcome.PAUSED
    return "not ended yet" if is_paused else "still training"


def no_score(record: Record) -> str:
    """Why there is no best trial, while some have not ended."""
    if not record.has_epochs:
        return "No trial has a score: none has ended its first epoch."
    missed = "miss a constraint or " if record.objectives.constraints else ""
    return f"No trial has a score that counts: epochs that {missed}have no finite score do not count."


def in_words(record: Record, values: Sequence[float] | None) -> str:
    """`val_acc 0.9, params_m 1.2`, a value for each objective."""
    named = zip(record.objectives.metrics, values or (), strict=False)
    return ", ".join(f"{metric} {short(value)}" for metric, value in named)


def function_of(record: Record, trainable: str) -> str:
    """The file of a trainable's search space where that is a function `suggest(trial)`; "" for a SPACE, whose
    domains the record keeps."""
    info, spaces = record.info, record.info.settings.search_spaces
    named = dict(zip(info.trainables if info.is_of_several else [trainable], spaces, strict=False))
    name, written = named.get(trainable, ""), info.identity["space"]
    if not name or any(not info.is_of_several or each.endswith(f" of {trainable}") for each in written):
        return ""
    paths = (f"search_spaces/{name}.py", f"{name.replace('.', '/')}.py")
    return next((path for path in paths if path in info.identity["code"]), name)

"""The status of a sweep, in the words that every page and message uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeps.common.formatting import count, short
from sweeps.config import control_commands
from sweeps.config.sweep_folder import control_command, resume_command
from sweeps.record import lock
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import BAD

if TYPE_CHECKING:
    from sweeps.record.record import Record
    from sweeps.record.sweep_info import Steered
    from sweeps.record.trials import TrialRow


def status(record: Record) -> Outcome:
    """running, waiting, paused, finished, out of time or interrupted.

    The process that runs a sweep holds the lock until after its outcome is written. It knows that outcome;
    for others the outcome of an earlier run does not count meanwhile.
    """
    outcome = record.info.outcome
    has_ended = record.is_ours and outcome is not Outcome.RUNNING
    if not has_ended and lock.is_held(record.folder):
        if record.info.paused_at is not None:
            return Outcome.PAUSED
        return Outcome.RUNNING if record.info.waits_since is None else Outcome.WAITING
    return outcome if outcome in (Outcome.FINISHED, Outcome.OUT_OF_TIME) else Outcome.INTERRUPTED


def is_running(record: Record) -> bool:
    """Whether a process runs the sweep, or holds it in a pause or in the queue."""
    return status(record) in (Outcome.RUNNING, Outcome.PAUSED, Outcome.WAITING)


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


def enough(record: Record) -> str:
    """Which limit of the sweep ended its search, and why; "" where it has its last trial, or goes on."""
    last = record.info.ended_by_limit
    return last.answer if last is not None and is_finishing(record) else ""


def _sets_trials(steered: Steered) -> bool:
    return any(word.replace("_", "-").startswith("num-trials=") for word in steered.words)


def _to_come(record: Record) -> int:
    """Trials that the search has still to propose."""
    return max(0, record.most_trials - len(record.searched))


def no_such_trial(record: Record) -> str:
    """Of a number that is too large: `no such trial; 2 trials have begun, and the first is trial 0`."""
    begun = len(record.trials)
    have = "has" if begun == 1 else "have"
    return f"no such trial; {count(begun, 'trial')} {have} begun, and the first is trial 0"


def flags_of_resume(record: Record) -> list[str]:
    """What a resume needs besides the folder: more time, where that is over."""
    if status(record) is not Outcome.OUT_OF_TIME:
        return []
    return ["--time-budget-hours", f"{math.ceil(20 * record.elapsed_s / 3600) / 10:g}"]


def flags_for(record: Record, words: Sequence[str], *, has_ended: bool) -> list[str]:
    """What a resume needs besides, to do what a command to a running sweep asks; [] where none does it.

    Args:
        has_ended: whether its trials have all ended, so that ranges and limits are for more of them.
    """
    name, *rest = words or ("",)
    if name in ("retry", "try"):
        return [f"--{name}", *rest]
    pairs = dict(word.partition("=")[::2] for word in rest) if name == "set" else {}
    settings = {flag: text for n, text in pairs.items() if (flag := n.replace("_", "-")) in _SETTABLE}
    ranges = [f"{n}={text}" for n, text in pairs.items() if n.replace("_", "-") not in _SETTABLE]
    if has_ended and (ranges or (settings and "max-epochs" not in settings)):
        settings = {"num-trials": str(2 * len(record.searched)), **settings}
    typed = [[f"--{n}", "null" if text == "none" else text] for n, text in settings.items()]
    return [*(word for each in typed for word in each), *(["--ranges", *ranges] if ranges else [])]


_SETTABLE = [name.replace("_", "-") for name in control_commands.SETTABLE]


def retry_command(record: Record) -> str:
    """To train all trials again that failed; "" where none has, or this version can't continue the sweep."""
    if not record.info.is_of_this_version or not any(t.status == "failed" for t in record.searched):
        return ""
    if is_running(record):
        return control_command(record.folder, "retry", "failed")
    return resume_command(record.folder, *flags_of_resume(record), "--retry", "failed")


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


def baselines(record: Record) -> list[tuple[TrialRow, str]]:
    """The trial of each model's defaults, and what it reached: `val_acc 0.803 in epoch 3, rank 7 of the 24
    trials there`."""
    return [(trial, _beside_others(record, trial)) for trial in record.baselines]


def _beside_others(record: Record, trial: TrialRow) -> str:
    epoch = trial.best_epoch(record.objective)
    if epoch is None or trial.status in BAD:
        why = f": {trial.reason}" if trial.reason else ""
        return f"{trial.status}{why}" if trial.status in BAD else "no score yet"
    found = f"{in_words(record, trial.values(record.objectives))} in epoch {epoch}"
    if record.objectives.are_several:
        on = "on the front" if trial.number in record.front() else "not on the front"
        return f"{found}, {on}"
    if (leader := record.best()) is not None and leader.number == trial.number:
        return f"{found}, and no other trial is better"
    there, sign = record.scores_at(epoch), record.objective.sign
    first = 1 + sum(sign * score > sign * there[trial.number] for score in there.values())
    last = first - 1 + sum(score == there[trial.number] for score in there.values())
    rank = f"{first:,} to {last:,}" if first < last else f"{first:,}"
    return f"{found}, rank {rank} of the {count(len(there), 'trial')} there"


def not_ended(record: Record, trial: TrialRow) -> str:
    """`still training` of a trial of a sweep that runs, `not ended yet` where it is paused, `unfinished`
    where no process runs the sweep; "" of a trial that has ended."""
    if trial.status != "unfinished":
        return ""
    if not is_running(record) or record.is_held:
        return "unfinished"
    is_paused = trial.is_paused or status(record) is Outcome.PAUSED
    return "not ended yet" if is_paused else "still training"


def epoch_now(record: Record, trial: TrialRow) -> int:
    """The epoch that a trial trains now; behind its last one that one, which is being saved."""
    begun = len(trial.epochs) + 1
    return min(begun, record.info.max_epochs or begun)


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

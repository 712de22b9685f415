"""How a sweep stands, seen from outside: the words that every page and line about it uses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sweeps.common.cli import parser
from sweeps.common.formatting import command, count, place, short
from sweeps.record import lock

if TYPE_CHECKING:
    from sweeps.record.record import Record

ENDED = ("finished", "out of time", "interrupted")
"""Outcomes by which a sweep ended in order; any other broke off."""


def status(record: Record) -> str:
    """running, finished, out of time, interrupted or broken off.

    While another process runs it, its record says nothing, or what a run before has said. The process that
    runs it holds the lock until all is said, also what came of it.
    """
    said = record.info.outcome
    if not record.is_at_work and lock.is_held(record.folder):
        return "running"
    if said in ENDED:
        return said
    return "running" if record.is_at_work else "broken off"


def can_go_on(record: Record) -> bool:
    """Whether `--resume` would go on with what was asked for."""
    return status(record) not in ("running", "finished") and record.info.has_identity


def is_in_confirmation(record: Record) -> bool:
    """Whether the search is through, and reruns of its best trials are left."""
    return not unfinished(record) and not _to_come(record) and record.is_to_be_confirmed


def how_far(record: Record) -> str:
    """What is left of a sweep, behind a word for how it stands: `; 2 trials unfinished, 7 to come`, or
    ` in its confirmation; 2 reruns unfinished, 7 to come`."""
    if not is_in_confirmation(record):
        return f"; {count(unfinished(record), 'trial')} unfinished, {_to_come(record):,} to come"
    return f" in its confirmation; {reruns_left(record)}"


def reruns_left(record: Record) -> str:
    """`2 reruns unfinished, 7 to come`."""
    reruns, to_come = len(record.unfinished_reruns), len(record.reruns_to_come())
    return f"{count(reruns, 'rerun')} unfinished, {to_come:,} to come"


def unfinished(record: Record) -> int:
    """Trials of the search that were begun and have not ended."""
    return len(record.live) - len(record.unfinished_reruns)


def _to_come(record: Record) -> int:
    """Trials that the search has still to propose."""
    wanted = (record.planned_trials or [0])[-1]
    return max(0, wanted - len(record.searched))


def go_on(record: Record) -> str:
    """What goes on with it, as it is typed."""
    more = parser.machine_given()
    if status(record) == "out of time":
        more += ["--time-budget-hours", f"{math.ceil(20 * record.elapsed_s / 3600) / 10:g}"]
    return command("run", "--resume", place(record.folder.resolve()), *more)


def best(record: Record) -> str:
    """`val_acc 0.9 (trial 3)`, or of one that was confirmed `val_acc 0.87 (trial 3, mean of 2)`."""
    leader, metric = record.best(), record.info.metric
    if leader is None:
        return "no trial ended well"
    confirmed = record.confirmed()
    if confirmed and confirmed[0].scores:
        means = f"mean of {len(confirmed[0].scores)}"
        return f"{metric} {short(confirmed[0].mean)} (trial {leader.number}, {means})"
    return f"{metric} {short(leader.best_score(record.objective))} (trial {leader.number})"


def name_of(record: Record, trainable: str) -> str:
    """Of the space of a trainable, as it was named to the sweep; "" of an old record."""
    info, spaces = record.info, record.info.settings.get("search_space", "")
    if not info.is_of_several:
        return str(spaces)
    return str(dict(zip(info.trainables, spaces, strict=False)).get(trainable, ""))


def function_of(record: Record, trainable: str) -> str:
    """The file of a space that is a function `suggest(trial)`, whose ranges only its file can change; "" of
    one whose hyperparameters are written down, as the record keeps those in words."""
    info, name = record.info, name_of(record, trainable)
    written = info.identity["space"]
    if not name or any(not info.is_of_several or each.endswith(f" of {trainable}") for each in written):
        return ""
    paths = (f"search_spaces/{name}.py", f"{name.replace('.', '/')}.py")
    return next((path for path in paths if path in info.identity["code"]), name)

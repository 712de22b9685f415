"""Why the process of a trial was lost, in a few words.

Ray knows only that the connection to it has ended. More follows from what it printed last, from the kernel's
count of processes that it killed for want of memory, and from whether the PC is still there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sweeps.cluster import nodes
from sweeps.execution.trial_actors import TrialActor
from sweeps.trial import output, post_mortem
from sweeps.trial.messages import UNUSABLE

SIGNALS = {
    "Segmentation fault": "signal 11 (SIGSEGV)",
    "Aborted": "signal 6 (SIGABRT)",
    "Bus error": "signal 7 (SIGBUS)",
    "Floating-point exception": "signal 8 (SIGFPE)",
    "Illegal instruction": "signal 4 (SIGILL)",
}
"""What Python's faulthandler, which Ray turns on, prints of a signal that ends the process."""


EARLIER_ERROR = "its GPU computed no more in it after an earlier error"


@dataclass(frozen=True)
class Loss:
    """A process that was lost."""

    why: str
    last_words: str = ""
    """What it printed after its last result."""
    is_of_the_pc: bool = False
    """Whether the PC was lost with it."""


def loss_of(process: TrialActor | None, others: Iterable[TrialActor] = ()) -> Loss:
    """Why a process was lost. What the kernel has killed by then ends none of the others later."""
    if process is None or not process.locate():
        return Loss("it ended while it started")
    there = next((node for node in nodes.living() if node.id == process.node), None)
    if there is None:
        return Loss("its PC is lost", is_of_the_pc=True)
    words, oom_kills = post_mortem.examine_on(process.node, process.output_file)
    is_oom = oom_kills > process.oom_kills
    for other in others:
        if other.locate() and other.node == process.node:
            other.oom_kills = max(other.oom_kills, oom_kills)
    return Loss(_why(words, is_oom), words)


def _why(last_words: str, is_oom: bool) -> str:
    for text, name in SIGNALS.items():
        if f"Fatal Python error: {text}" in last_words:
            return name
    if status := re.search(rf"{output.EXIT}(-?\d+)", last_words):
        return EARLIER_ERROR if int(status[1]) == UNUSABLE else f"exit status {status[1]}"
    if is_oom:
        return "killed by the kernel: out of memory"
    return "it ended without a trace (most often signal 9, SIGKILL)"

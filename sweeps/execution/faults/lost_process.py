"""Why the process of a trial was lost, in a few words.

Ray knows only that the connection to it has ended. More follows from what it printed last, from the kernel's
count of processes that it killed for want of memory, and from whether the PC is still there.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweeps.execution.trial_actors import TrialActor
from sweeps.ray_cluster import nodes
from sweeps.trial import output
from sweeps.trial.messages import UNUSABLE

EARLIER_ERROR = "its GPU computed no more in it after an earlier error"
FATAL = "Fatal Python error: "
"""Python's line where a signal ends the process: its faulthandler prints it, which Ray turns on."""


@dataclass(frozen=True)
class Loss:
    """A process that was lost."""

    why: str
    last_words: str = ""
    """What it printed after its last result."""
    is_of_the_pc: bool = False
    """Whether the PC was lost with it."""


def loss_of(process: TrialActor | None) -> Loss:
    """Why a process was lost."""
    if process is None or not process.locate():
        return Loss("it ended while it started")
    if all(node.id != process.node for node in nodes.living()):
        return Loss("its PC is lost", is_of_the_pc=True)
    words, oom_kills = output.examine_on(process.node, process.output_file)
    return Loss(_why(words, is_oom=oom_kills > process.oom_kills), words)


def _why(last_words: str, *, is_oom: bool) -> str:
    for line in reversed(last_words.splitlines()):
        if line.startswith(FATAL):
            return line
        if line.startswith(output.EXIT):
            status = line.removeprefix(output.EXIT)
            return EARLIER_ERROR if status == str(UNUSABLE) else f"exit status {status}"
    if is_oom:
        return "killed by the kernel: out of memory"
    return "it ended without a trace (most often signal 9, SIGKILL)"

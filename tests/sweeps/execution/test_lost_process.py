"""Why a process was lost, by what it printed last and by what the kernel counted."""

from __future__ import annotations

import pytest

from sweeps.execution import lost_process
from sweeps.execution.lost_process import loss_of
from sweeps.trial.output import EXIT


def test_a_process_that_never_answered_ended_while_it_started() -> None:
    loss = loss_of(None)
    assert (loss.why, loss.last_words, loss.is_of_the_pc) == ("it ended while it started", "", False)


@pytest.mark.parametrize(
    ("last_words", "is_oom", "why"),
    [
        ("step 1\n", False, "signal 9 (SIGKILL)"),
        ("step 1\n", True, "killed by the kernel: out of memory"),
        (f"bye\n{EXIT}70\n", False, "exit status 70"),
        ("Fatal Python error: Segmentation fault\n\nThread 0x00", False, "signal 11 (SIGSEGV)"),
        ("Fatal Python error: Aborted\n", True, "signal 6 (SIGABRT)"),
    ],
)
def test_it_is_told_by_what_is_known(last_words: str, is_oom: bool, why: str) -> None:
    assert lost_process._why(last_words, is_oom) == why

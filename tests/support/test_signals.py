"""Tests that send Ctrl-C also hold where the shell that started them ignores it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests import ROOT

CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
TESTS = f"""
import subprocess, sys
import tests.conftest
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
"""


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL], ids=["ignored", "not_ignored"])
def test_what_a_test_starts_can_be_interrupted(handler: signal.Handlers) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TESTS],
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"

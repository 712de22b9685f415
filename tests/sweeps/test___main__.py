"""`sweeps COMMAND`: every command starts light, and one that there is not is answered with the nearest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sweeps.__main__ import COMMANDS
from tests.conftest import ROOT
from tests.test_architecture import heavy_after


def sweeps(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sweeps", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_help_lists_every_command_in_a_line() -> None:
    done = sweeps("--help")
    assert done.returncode == 0
    for name, does in COMMANDS.items():
        assert f"  {name:<10} {does}\n" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command_starts_light(name: str) -> None:
    main = f"from sweeps.__main__ import main\ntry:\n    main(['{name}', '--help'])"
    assert heavy_after(f"{main}\nexcept SystemExit:\n    pass", ROOT) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_the_same_as_a_module(name: str) -> None:
    module = [sys.executable, "-m", f"sweeps.{name}", "--help"]
    alone = subprocess.run(module, cwd=ROOT, capture_output=True, text=True, timeout=60)
    done = sweeps(name, "--help")
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    assert done.returncode == 0


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    done = sweeps("reprot")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: reprot: no such command. Did you mean 'report'? Choices: init, run, "
    )
    assert sweeps().returncode == 2

"""`sweeps COMMAND`: every command starts light, and one that there is not is answered with the nearest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sweeps.__main__ import COMMANDS
from sweeps.kinds.params_file import WEIGHTS_FILE
from tests.conftest import ROOT
from tests.test_architecture import heavy_after


def sweeps(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sweeps", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_help_lists_every_command() -> None:
    done = sweeps("--help")
    assert done.returncode == 0
    shown = " ".join(done.stdout.split())
    for name, does in COMMANDS.items():
        assert f" {name} {does}" in shown


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


WAYS = {
    "sweeps fit": [str(Path(sys.executable).with_name("sweeps")), "fit"],
    "python -m sweeps fit": [sys.executable, "-m", "sweeps", "fit"],
    "python -m sweeps.fit": [sys.executable, "-m", "sweeps.fit"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "flags"),
    [
        ("sweeps fit", ("--strategy", "ddp", "--find-batch-size")),
        *(
            pytest.param(way, ("--strategy", strategy), marks=pytest.mark.long)
            for way in WAYS
            for strategy in ("auto", "fsdp")
        ),
    ],
)
def test_each_way_to_type_fit_starts_all_its_workers(
    way: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    settings = ("--max-epochs", "2", "--devices", "2", "--threads", "1", "--checkpoint-epochs", "1")
    there = ("--results-dir", str(tmp_path), "--name", "run")
    command = [*WAYS[way], "digits_mlp", *settings, *flags, *there]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(torch.load(tmp_path / "run" / "best" / WEIGHTS_FILE, weights_only=True))


GOES_ELSEWHERE = """
import os
os.chdir(os.path.dirname(os.path.abspath(__file__)))
from trainables.digits_mlp import METRIC, MODE, Params, build_data, build_model
"""


@pytest.mark.long
@pytest.mark.parametrize("devices", ["1", "2"])
def test_paths_are_those_of_the_folder_of_the_command_wherever_the_users_file_goes(
    devices: str, tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text(GOES_ELSEWHERE)
    settings = ("--max-epochs", "1", "--devices", devices, "--threads", "1")
    command = [*WAYS["sweeps fit"], "models/net.py", *settings, "--results-dir", "out", "--name", "run"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Weights    out/run/best\n" in done.stdout
    assert (tmp_path / "out" / "run" / "best" / WEIGHTS_FILE).is_file()


def test_an_unknown_command_is_answered_with_the_nearest() -> None:
    done = sweeps("reprot")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: reprot: no such command. Did you mean 'report'? Choices: demo, init, run, "
    )

"""A sweep as it is seen on a terminal of 80 columns: to Ctrl-C, and resumed to its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.config.sweep_folder import BEST_FOLDER
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.storage import retention
from tests.conftest import ROOT, TOY
from tests.support import terminals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SWEEP = [
    *TOY,
    "--searcher",
    "random",
]
FLAGS = [
    "--num-trials",
    "6",
    "--max-epochs",
    "27",
    "--max-concurrent",
    "2",
    "--no-ray-dashboard",
    "--min-free-gb",
    "0",
]


def test_a_sweep_ends_as_any_other_where_nobody_reads_it_any_more(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    flags = ["--num-trials", "2", "--max-epochs", "2", "--no-ray-dashboard", "--min-free-gb", "0"]
    flags += [
        "--name",
        "sweep",
        "--results-dir",
        str(tmp_path),
        "--notify-command",
        "echo $SWEEP_OUTCOME >&2",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "sweeps.run", *SWEEP, *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**environment, "PYTHONUNBUFFERED": ""},  # as without it: the output keeps what it can't write
    ) as sweep:  # fmt: skip
        assert sweep.stdout is not None
        assert sweep.stderr is not None
        assert any(line.startswith("ray ") for line in sweep.stdout)
        sweep.stdout.close()
        assert sweep.stderr.read() == "finished\n"
    assert sweep.returncode == 0
    assert {"best", "report.html"} <= {path.name for path in (tmp_path / "sweep").iterdir()}
    assert Record.read(tmp_path / "sweep").info.outcome is Outcome.FINISHED


@pytest.mark.long
def test_lines_fit_and_the_leader_is_one_trial(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "a-name-that-is-long"
    settings = ["--name", folder.name, "--results-dir", str(tmp_path), "--params", "epoch_s=0.2"]

    def run(*arguments: str, keys: dict[str, str]) -> terminals.Recording:
        return terminals.record(
            [sys.executable, "-m", "sweeps.run", *arguments],
            columns=80,
            rows=24,
            keys=keys,
            folder=ROOT,
            environment=environment,
        )

    stopped = run(*SWEEP, *FLAGS, *settings, keys={" of about ": "^C"})
    assert stopped.status == 130, stopped.lines()
    leader = Record.read(folder).best()
    assert leader is not None
    last = "\n".join(stopped.lines())
    assert f"Best       trial {leader.number} (unfinished): score" in last
    assert retention.run_of_best_folder(folder / BEST_FOLDER) == leader.number
    assert "\nWeights" in last
    assert "(of trial" not in last, "the weights are those of the best trial"
    assert "\nResume" in last

    resumed = run("--resume", str(folder), keys={})
    assert resumed.status == 0, resumed.lines()
    shown = "\n".join(resumed.shown())
    assert re.search(r"^━+.* \d+ of about \d+ epochs; .* left", shown, flags=re.M)
    for line in (*stopped.printed_lines(), *resumed.printed_lines()):
        assert len(line) <= 80 or max(map(len, line.split())) > 66, line  # a path is never broken

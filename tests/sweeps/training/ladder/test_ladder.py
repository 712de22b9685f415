"""The speed ladder: what it measures, what it leaves behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeps import ladder as sweeps_ladder
from sweeps.common.errors import CannotContinue, UserError
from sweeps.training.data import preparation
from sweeps.training.ladder import rungs as ladder_rungs
from sweeps.training.ladder.rungs import RUNGS, Setup, Speed
from tests.conftest import ROOT
from tests.docs.examples import block_with
from tests.sweeps.training.ladder.measured import fake


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Samples a second by what was measured; a fake PC in place of this one's noise."""
    asked: dict[str, Any] = {"setups": []}

    def measure(trainable: str, params: Any, setup: Setup, seconds: float) -> tuple[Speed | None, str]:
        asked["setups"].append(setup)
        if asked["setups"].count(setup) == 2:  # the first one, again
            return fake(asked.get("again", 100.0)), ""
        if setup.fit.compile:
            return None, "out of memory"
        if setup.fit.devices > 1:
            return fake(asked.get("on_all", 90.0)), ""
        return fake(100.0 if setup.batch_rows is None else 150.0), ""

    monkeypatch.setattr(ladder_rungs, "measure", measure)
    monkeypatch.setattr(ladder_rungs, "busy_cores", lambda: 0.1)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    return asked


def test_a_rung_that_hurts_is_shown_and_left_out_of_those_that_follow(
    speeds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"larger batch +150 .* 1\.50x .* batch rows 256", printed)
    assert (
        re.search(r"DDP on all devices .*\(0\.90x\).*left out", printed) or "this PC has one core" in printed
    )
    assert "failed: out of memory" in printed
    last = speeds["setups"][-2]
    assert last.fit.devices == 1  # what DDP had was left out
    assert last.batch_rows == 256
    content = json.loads((tmp_path / "it/ladder.json").read_text())
    assert [rung["rung"] for rung in content["rungs"]] == list(RUNGS)
    table = (tmp_path / "it/ladder.md").read_text()
    assert table.count("\n| ") == len(RUNGS) + 2
    assert "Speed-up   1.50x, by larger batch" in printed


@pytest.mark.parametrize("again", [75.0, 130.0])
def test_a_pc_that_became_faster_or_slower_gives_no_verdict(
    again: float, speeds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speeds["again"] = again
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    printed = capsys.readouterr().out
    found = f"the first rung, measured again at the end, was {again / 100:.2f}x as fast as at the start"
    assert f"\nVerdict    none: {found}. Measure again while " in printed
    assert "\nSpeed-up " not in printed
    assert json.loads((tmp_path / "it/ladder.json").read_text())["doubt"] == found


@pytest.mark.parametrize(("on_all", "is_kept"), [(599.0, True), (601.0, False)])
def test_more_than_n_times_by_n_devices_is_not_believed(
    on_all: float, is_kept: bool, speeds: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the four cores trains 150 rows a second."""
    speeds["on_all"] = on_all
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    printed = capsys.readouterr().out
    assert ("left out: over 4x by 4 devices can't be: strategy ddp" in printed) is not is_kept
    assert (speeds["setups"][-2].fit.devices == 4) is is_kept
    assert f"\nSpeed-up   {'5.99x, by larger batch, DDP' if is_kept else '1.50x, by larger batch'}" in printed


@pytest.mark.parametrize(("busy_cores", "is_said"), [(0.7, False), (1.3, True)])
def test_where_other_programs_are_busy_there_is_no_verdict(
    busy_cores: float,
    is_said: bool,
    speeds: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ladder_rungs, "busy_cores", lambda: busy_cores)
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    said = "other programs keep 1.3 of 4 cores busy"
    printed = capsys.readouterr().out
    assert (f"\nNotice     {said}: the figures may allow no verdict\n\nrung " in printed) is is_said
    for text in (printed, (tmp_path / "it/ladder.md").read_text()):
        assert (
            f"\nVerdict    none: {said}. Measure again while the PC does nothing else\n" in text
        ) is is_said
        assert ("\nSpeed-up " in text) is not is_said
    content = json.loads((tmp_path / "it/ladder.json").read_text())
    assert content["doubt"] == (said if is_said else "")
    assert content["rungs"][0]["busy_cores"] == busy_cores


BROKEN = """
from trainables.digits_mlp import METRIC, MODE, Params, build_data

def build_model(params):
    raise ValueError("no such net")
"""


@pytest.mark.slow
def test_a_first_rung_that_fails_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_net.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the process that measures
    assert sweeps_ladder.main(["broken_net", "--results-dir", str(tmp_path)]) == 1
    assert "failed: ValueError: no such net" in capsys.readouterr().out


@pytest.mark.slow
def test_a_ladder_that_is_ended_leaves_nothing_that_trains(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [
        sys.executable,
        "-m",
        "sweeps.ladder",
        "digits_mlp",
        "--seconds",
        "60",
        "--name",
        "it",
    ]
    ended = psutil.Popen(
        [*command, "--results-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def is_measuring(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            loaded = process.memory_info().rss > 100 * 10**6  # it has torch
            return loaded and "sweeps.training.distributed.launch" in process.cmdline()
        return False

    measuring: list[psutil.Process] = []
    while not measuring:
        assert ended.poll() is None, ended.communicate()
        time.sleep(0.1)
        measuring = [process for process in ended.children() if is_measuring(process)]
    group = measuring[0].pid  # it leads a session of its own
    assert list((tmp_path / "tmp").glob("sweeps-try-*"))
    ended.send_signal(signal.SIGTERM)
    _, errors = ended.communicate(timeout=60)
    assert (ended.returncode, errors) == (130, "\nInterrupted.\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    assert not measuring[0].is_running()
    assert not list((tmp_path / "tmp").glob("sweeps-try-*"))


@pytest.mark.slow
def test_where_the_data_does_not_say_its_batch_the_other_rungs_are_measured(
    speeds: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "of_readme.py").write_text(block_with("README", "METRIC"))
    monkeypatch.chdir(tmp_path)
    assert sweeps_ladder.main(["of_readme.py", "--results-dir", str(tmp_path)]) == 0
    skipped = "skipped: the data module has no attribute batch_size"
    assert capsys.readouterr().out.count(skipped) == 3
    assert [setup.fit.precision for setup in speeds["setups"]] == ["32", "bf16-mixed", "32", "32"]


def test_raw_data_that_is_missing_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data-dir", str(tmp_path), "--results-dir", str(tmp_path / "results"))
    assert sweeps_ladder.main(["fashion_cnn", *where]) == 2
    assert capsys.readouterr().err.startswith(f"error: Fashion-MNIST is not in {tmp_path} (--data-dir or ")
    assert not (tmp_path / "results").exists()


def test_a_place_that_can_not_be_made_is_known_before_anything_is_prepared(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--results-dir \S+/file: \S+/file is not a writable folder"):
        sweeps_ladder.parse(["digits_mlp", "--results-dir", str(tmp_path / "file")])


def test_a_place_that_can_not_be_made_after_all_is_a_mistake(
    speeds: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", "/proc/nowhere", "--name", "it"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_preparation_that_fails_comes_once_below_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepare_for_run(*_: Any) -> None:
        print("Preparing")
        raise CannotContinue("the disk is full")

    monkeypatch.setattr(preparation, "prepare_for_run", prepare_for_run)
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert re.fullmatch(r"Ladder of digits_mlp, .*\nPreparing\n", captured.out)
    assert captured.err == "error: the disk is full\n"


@pytest.mark.slow
def test_what_is_prepared_is_asked_for_once(
    speeds: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(preparation, "prepare_for_run", lambda trainable, *_: asked.append(trainable.name))
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    assert asked == ["digits_mlp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "trainable: this project has several; give one of "),
        (["digits_mpl"], "no such trainable. Did you mean 'digits_mlp'"),
        (["digits_mlp", "--second", "3"], "--second: no such flag. Did you mean '--seconds'"),
        (["digits_mlp", "--seconds", "0"], "--seconds 0: must be above 0"),
        (["digits_mlp", "--hidden", "big"], "--hidden big: must be a whole number"),
    ],
)
def test_a_mistake_is_answered(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        sweeps_ladder.parse(arguments)

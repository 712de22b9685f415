"""The speed ladder: its rungs, what it measures, what it leaves behind."""

from __future__ import annotations

import dataclasses
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
import torch

from sweeps import ladder as sweeps_ladder
from sweeps.common.errors import CannotPrepare, UserError
from sweeps.training.data import build
from sweeps.training.ladder import measure as ladder_measure
from sweeps.training.ladder import report, rungs
from sweeps.training.ladder.measure import Result, Speed
from sweeps.training.ladder.rungs import RUNGS, Capabilities, LadderConfig, Setup
from tests.conftest import ROOT

CPU = Capabilities(
    gpus=0, cores=4, batch_rows=64, has_raw=True, has_prepared=True, has_loader_hyperparameter=True
)
PLAIN = Capabilities(
    gpus=0, cores=1, batch_rows=64, has_raw=False, has_prepared=False, has_loader_hyperparameter=False
)


def set_up(name: str, has: Capabilities) -> Setup | str:
    return RUNGS[name](rungs.start(has), has)


def test_each_rung_adds_one_thing_to_the_one_before() -> None:
    setup = rungs.start(CPU)
    said = []
    for name, change in RUNGS.items():
        changed = change(setup, CPU)
        assert isinstance(changed, Setup), name
        said.append(rungs.changes(setup, changed))
        setup = changed
    assert said == [
        "raw data",
        "loader workers 4",
        "prepared rows",
        "batch rows 256",
        "precision bf16-mixed",
        "strategy ddp, devices 4, threads 1",
        "strategy deepspeed_stage_2",
        "torch.compile",
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "more loader workers",
            "the trainable defines neither build_raw_data nor the hyperparameter loader_workers",
        ),
        ("prepared Parquet", "the trainable defines no prepare"),
        ("DDP on all devices", "this PC has one core"),
        ("ZeRO 2 on all devices", "this PC has one core"),
    ],
)
def test_a_rung_that_can_not_be_here_says_why(name: str, reason: str) -> None:
    assert set_up(name, PLAIN) == reason


def test_on_a_gpu_the_lower_precision_is_fp16() -> None:
    has = Capabilities(
        gpus=2, cores=8, batch_rows=64, has_raw=False, has_prepared=False, has_loader_hyperparameter=False
    )
    found = set_up("lower precision", has)
    assert isinstance(found, Setup)
    assert found.fit.precision == "16-mixed"
    shared = set_up("ZeRO 2 on all devices", has)
    assert isinstance(shared, Setup)
    assert (shared.fit.devices, shared.fit.threads) == (2, 4)


def fake(
    samples_s: float,
    loader_rows_s: float | None = None,
    data_wait_pct: float = 5.0,
    gpu_util_pct: float | None = None,
    cores_busy_pct: float = 90.0,
) -> Speed:
    return Speed(
        samples_s=samples_s,
        blocks=[samples_s],
        epoch_rows=1000,
        batch_rows=64,
        data_wait_pct=data_wait_pct,
        gpu_util_pct=gpu_util_pct,
        cores_busy_pct=cores_busy_pct,
        loader_rows_s=loader_rows_s,
    )


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Samples a second by what was measured; a fake PC in place of this one's noise."""
    asked: dict[str, Any] = {"setups": []}

    def measure(trainable: str, params: Any, setup: Setup, seconds: float) -> tuple[Speed | None, str]:
        asked["setups"].append(setup)
        if setup.fit.compile:
            return None, "out of memory"
        if setup.fit.devices > 1:
            return fake(90.0), ""
        return fake(100.0 if setup.batch_rows is None else 150.0), ""

    monkeypatch.setattr(ladder_measure, "measure", measure)
    monkeypatch.setattr(ladder_measure, "busy_cores", lambda: 0.1)
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
    last = speeds["setups"][-1]
    assert last.fit.devices == 1  # what DDP had was left out
    assert last.batch_rows == 256
    content = json.loads((tmp_path / "it/ladder.json").read_text())
    assert [rung["rung"] for rung in content["rungs"]] == list(RUNGS)
    assert (tmp_path / "it/ladder.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "it/ladder.md").read_text()
    assert table.count("\n| ") == len(RUNGS) + 2
    assert "| 13.29x | 70 % |" in table


@pytest.mark.parametrize(("busy_cores", "is_said"), [(0.7, False), (1.3, True)])
def test_that_other_programs_are_busy_is_said_and_kept(
    busy_cores: float,
    is_said: bool,
    speeds: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ladder_measure, "busy_cores", lambda: busy_cores)
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    said = "other programs keep 1.3 of 4 cores busy: the PC alone is faster than measured"
    printed = capsys.readouterr().out
    assert (f"\nNotice     {said}\n\nrung " in printed) is is_said
    assert (f"\nNotice: {said}\n\n| rung " in (tmp_path / "it/ladder.md").read_text()) is is_said
    content = json.loads((tmp_path / "it/ladder.json").read_text())
    assert (content["busy_cores_before"], content["notice"]) == (busy_cores, said if is_said else "")


def rung(name: str, speed: Speed, setup: Setup, *, is_kept: bool = True) -> Result:
    return Result(name, speed, 1.0, "", is_kept, setup)


RAW = Setup(is_raw=True, loader_workers=0)


@pytest.mark.parametrize(
    ("value", "digits", "said"),
    [
        (17583.2, 4, "17,580"),
        (1141.4, 4, "1,141"),
        (20.756, 4, "20.76"),
        (150.0, 4, "150"),
        (1230.0, 3, "1,230"),
        (0.0000123, 3, "0.0000123"),
        (2_345_678.0, 4, "2,346,000"),
        (0.0, 4, "0"),
    ],
)
def test_a_figure_has_commas_and_no_exponent(value: float, digits: int, said: str) -> None:
    assert report.number(value, digits) == said


def test_figures_are_the_same_on_the_screen_in_what_is_left_and_in_the_chart(tmp_path: Path) -> None:
    fast = Result("larger batch", fake(17583.2, 31234.0), 1758.32, "", True, Setup())
    slow = Result("as given", fake(0.5, 0.002), 1.0, "", True, RAW)
    parquet = Result("prepared Parquet", fake(900.0, 45678.0), 90.0, "", True, Setup())
    results = [slow, parquet, fast]
    report.write(LadderConfig("toy", torch, {}, 1.0, tmp_path), results, 0.0)
    axes = report.chart("toy", results).axes[0]
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    bars = [text.get_text() for text in axes.texts]
    assert bars[2] == " 17,580/s, 1,758.32x"
    assert "10,000" in ticks
    left = (tmp_path / "ladder.md").read_text()
    assert "| 17,580 |" in left
    assert "| 1,758.32x |" in left
    screen = [report.line(fast), report.summary(results)]
    assert screen[0].split()[2] == "17,580"
    for text in (*screen, *ticks, *bars, left):
        assert not re.search(r"\de[+-]?\d|mathdefault", text), text


@pytest.mark.parametrize(
    ("is_kept", "said"),
    [
        (
            True,
            "80 -> 5,000 rows/s, 62.5x, measured alone: "
            "raw data by 4 loader workers -> prepared rows by 4 loader workers",
        ),
        (
            False,
            "20 -> 5,000 rows/s, 250x, measured alone: "
            "raw data by 0 loader workers -> prepared rows by 0 loader workers",
        ),
    ],
)
def test_data_alone_is_compared_with_as_many_loader_workers(is_kept: bool, said: str) -> None:
    more = dataclasses.replace(RAW, loader_workers=4)
    prepared = dataclasses.replace(more if is_kept else RAW, is_raw=False)
    results = [
        rung("as given", fake(10, 20.0), RAW),
        rung("more loader workers", fake(40, 80.0), more, is_kept=is_kept),
        rung("prepared Parquet", fake(90, 5000.0), prepared),
    ]
    assert f"Loader     {said}\n" in report.summary(results)


@pytest.mark.parametrize(
    ("wait_pct", "gpu_pct", "said"),
    [
        (
            10.0,
            None,
            "Limit      compute-bound: training waits 10 % of the time for data\n"
            "Each row   waiting 80 -> 1 ms, computing 20 -> 9 ms\n",
        ),
        (
            60.0,
            None,
            "Limit      data-bound: training waits 60 % of the time for data\n"
            "Each row   waiting 80 -> 6 ms, computing 20 -> 4 ms\n",
        ),
        (75.0, 97.0, "Limit      compute-bound: the GPU is busy 97 % of the time\n"),
        (
            5.0,
            35.0,
            "Limit      host-bound: training waits 5 % of the time for data, the GPU is busy 35 %",
        ),
    ],
)
def test_what_holds_it_back_is_said_with_its_figures(
    wait_pct: float, gpu_pct: float | None, said: str
) -> None:
    results = [
        rung("as given", fake(10, data_wait_pct=80.0), RAW),
        rung("larger batch", fake(100, data_wait_pct=wait_pct, gpu_util_pct=gpu_pct), RAW),
        rung("compile", fake(50, data_wait_pct=0.0), RAW, is_kept=False),
    ]
    assert said in report.summary(results)


def test_a_gpu_whose_util_is_unknown_is_not_called_by_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # and no NVML
    only = rung("as given", fake(10, cores_busy_pct=7.0), RAW)
    assert "compute-bound: training waits 5 % of the time" in report.summary([only])
    assert "GPU is busy" not in report.summary([only])


def test_how_busy_it_was_is_told_of_the_gpu_where_that_is_known() -> None:
    found = [fake(10, cores_busy_pct=7.0), fake(10, gpu_util_pct=0.0, cores_busy_pct=7.0)]
    assert [report.cells(rung("as given", speed, RAW))[4] for speed in found] == ["7 %", "0 %"]


def test_the_published_figure_of_shuffling_is_in_the_summary() -> None:
    assert "shuffling brought GPU-Util to 95 %" in report.summary([rung("as given", fake(10), RAW)])


BROKEN = """
from trainables.digits_mlp import METRIC, MODE, Params, build_data

def build_model(params):
    raise ValueError("no such net")
"""


def test_a_first_rung_that_fails_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_net.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the process that measures
    assert sweeps_ladder.main(["broken_net", "--results-dir", str(tmp_path)]) == 1
    assert "failed: ValueError: no such net" in capsys.readouterr().out


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
        loaded = process.memory_info().rss > 100 * 10**6  # it has torch
        return loaded and "sweeps.training.ladder.measure" in process.cmdline()

    measuring: list[psutil.Process] = []
    while not measuring:
        assert ended.poll() is None, ended.communicate()
        time.sleep(0.1)
        measuring = [process for process in ended.children() if is_measuring(process)]
    group = measuring[0].pid  # it leads a session of its own
    assert list((tmp_path / "tmp").glob("sweeps-speed-*"))
    ended.send_signal(signal.SIGTERM)
    _, errors = ended.communicate(timeout=60)
    assert (ended.returncode, errors) == (130, "\nInterrupted.\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)
    assert not measuring[0].is_running()
    assert not list((tmp_path / "tmp").glob("sweeps-speed-*"))


NO_BATCH_SIZE = """
import lightning.pytorch as pl
from trainables.digits_mlp import METRIC, MODE, Params, build_model

def build_data(params):
    return pl.LightningDataModule()
"""


def test_data_that_does_not_say_its_batch_is_a_mistake_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no_batch.py").write_text(NO_BATCH_SIZE)
    monkeypatch.chdir(tmp_path)
    assert sweeps_ladder.main(["no_batch", "--results-dir", str(tmp_path / "results")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert errors[0].startswith("error: LightningDataModule has no attribute batch_size")
    assert not (tmp_path / "results").exists()


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
    def of_trial(*_: Any) -> None:
        print("Preparing")
        raise CannotPrepare("the disk is full")

    monkeypatch.setattr(build, "of_trial", of_trial)
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert re.fullmatch(r"Ladder of digits_mlp, .*\nPreparing\n", captured.out)
    assert captured.err == "error: the disk is full\n"


def test_what_is_prepared_is_asked_for_once(
    speeds: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(build, "of_trial", lambda name, *_: asked.append(name))
    assert sweeps_ladder.main(["digits_mlp", "--results-dir", str(tmp_path), "--name", "it"]) == 0
    assert asked == ["digits_mlp"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "trainable: this project has several; give one of "),
        (["digits_mpl"], "no such trainable. Did you mean 'digits_mlp'"),
        (["digits_mlp", "--second", "3"], "--second: no such flag. Did you mean '--seconds'"),
        (["digits_mlp", "--seconds", "0"], "--seconds 0: must be above 0"),
        (["digits_mlp", "--hidden", "big"], "--params hidden=big: must be int"),
    ],
)
def test_a_mistake_is_answered(arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        sweeps_ladder.parse(arguments)

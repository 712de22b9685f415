"""`--profile`: the trace, the most expensive operations, and the timeline."""

from __future__ import annotations

import gzip
import itertools
import json
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.autograd.profiler_util import EventList, FunctionEvent, Kernel

from sweeps import fit
from sweeps.training.single_run import torch_trace
from sweeps.training.single_run.torch_trace import (
    MOST_EXPENSIVE,
    RECORDED,
    TIMELINE_FILE,
    TRACE_FILE,
    most_expensive,
)

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("results")
    status = fit.main(
        ["digits_mlp", "--max-epochs", "3", "--profile", "--results-dir", str(results), "--name", "it"]
    )
    assert status == 0
    return results / "it"


def test_the_trace_names_the_parts_of_each_step(run: Path) -> None:
    with gzip.open(run / "profile" / TRACE_FILE) as file:
        events = json.load(file)["traceEvents"]
    labels = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    for part in ("data_wait", "forward", "backward", "step"):
        assert labels.count(part) >= RECORDED - 1, part
    assert any(event["name"] == "aten::addmm" for event in events)


def test_the_picture_is_one(run: Path) -> None:
    assert (run / "profile" / TIMELINE_FILE).read_bytes().startswith(PNG)


def test_the_most_expensive_operations_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--max-epochs", "1", "--profile", "--results-dir", str(tmp_path))
    assert fit.main(["digits_mlp", *arguments]) == 0
    printed = capsys.readouterr().out.splitlines()
    start = printed.index(f"Most expensive operations of {RECORDED} steps, by self CPU time:")
    shares = [float(line.split("%")[0]) for line in printed[start + 2 : start + 2 + MOST_EXPENSIVE]]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 100.5
    assert any(line.startswith("Timeline   the loader prepares") for line in printed)


def printed_by(steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """By a run of so many steps."""
    return printed_with(f"--max-epochs 1 --steps-per-epoch {steps}", tmp_path, capsys)


def printed_with(flags: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """By a run with these flags."""
    flags += f" --profile --results-dir {tmp_path}"
    assert fit.main(["digits_mlp", *flags.split()]) == 0
    return capsys.readouterr().out.splitlines()


def calls_a_step(steps: str, printed: list[str]) -> dict[str, float]:
    """Of the most expensive operations of so many steps."""
    start = printed.index(f"Most expensive operations of {steps}, by self CPU time:")
    lines = itertools.takewhile(lambda line: not line.startswith("Trace"), printed[start + 2 :])
    return {line.split()[3]: float(line.split()[2]) for line in lines}


@pytest.mark.parametrize("steps", [4, 5])
def test_too_few_steps_for_a_trace_are_said(
    steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = printed_by(steps, tmp_path, capsys)
    assert f"Profile    no trace: it needs 6 steps, and the run had {steps}" in printed
    assert not list(tmp_path.rglob(TRACE_FILE))


def test_a_step_counts_as_one_where_fewer_are_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = calls_a_step("4 steps", printed_by(9, tmp_path, capsys))
    assert calls["aten::addmm"] == 2.0  # its two layers


@pytest.mark.parametrize(
    ("epoch_steps", "epochs", "recorded"),
    [(1, 7, "1 step"), (5, 3, "5 steps"), (6, 2, "1 step"), (13, 2, "8 steps")],
)
def test_validation_is_not_recorded_wherever_an_epoch_ends(
    epoch_steps: int,
    epochs: int,
    recorded: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_trace, "MOST_EXPENSIVE", 1000)  # all of them
    flags = f"--max-epochs {epochs} --steps-per-epoch {epoch_steps}"
    calls = calls_a_step(recorded, printed_with(flags, tmp_path, capsys))
    assert calls["aten::addmm"] == 2.0
    assert "aten::argmax" not in calls  # of the accuracy in validation alone


AS_LABEL = {"is_user_annotation": True} if "is_user_annotation" in signature(FunctionEvent).parameters else {}
"""PyTorch before 2.5 does not say so."""


def an_event(key: int, name: str, device: DeviceType, end_us: float, **more: Any) -> Any:
    known: dict[str, Any] = {"device_type": device, "use_device": "cuda", "stack": (), **more}
    return FunctionEvent(id=key, name=name, thread=0, start_us=0.0, end_us=end_us, **known)  # type: ignore[no-untyped-call]


def test_a_kernel_counts_once_by_the_name_of_the_operation_that_launched_it() -> None:
    mm, relu = an_event(1, "aten::mm", DeviceType.CPU, 9.0), an_event(2, "aten::relu", DeviceType.CPU, 5.0)
    mm.kernels.append(Kernel("gemm", 0, 600))
    relu.kernels.append(Kernel("elementwise", 0, 200))
    found: Any = EventList(  # type: ignore[no-untyped-call]
        [
            mm,
            relu,
            an_event(1, "gemm", DeviceType.CUDA, 600.0),
            an_event(2, "elementwise", DeviceType.CUDA, 200.0),
            an_event(3, "of no operation", DeviceType.CUDA, 200.0),
            an_event(4, "forward", DeviceType.CUDA, 1000.0, **AS_LABEL),
        ],
        use_device="cuda",
    )
    found._tree_built = True  # nothing nests here, and else the operations would lie in one another
    lines = most_expensive(found.key_averages(), 2, on_gpu=True).splitlines()
    assert lines[0] == "Most expensive operations of 2 steps, by self GPU time:"
    assert [line.split() for line in lines[2:]] == [
        ["60.0%", "0.300", "0.5", "aten::mm"],
        ["20.0%", "0.100", "0.5", "aten::relu"],
    ]


@pytest.mark.parametrize(
    ("loader_s", "words"), [(0.02, "training waits for data"), (0.002, "batches are ready in time")]
)
def test_it_is_said_who_waits_for_whom(loader_s: float, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = itertools.count(0.0, loader_s)
    monkeypatch.setattr(torch_trace, "time", SimpleNamespace(perf_counter=lambda: next(passed_s)))
    prepared_s = torch_trace.seconds_of_loader(itertools.repeat(object()), 10)
    assert len(prepared_s) == 10
    assert torch_trace.compared_rates(prepared_s, [0.008] * 10).endswith(words)

"""`--profile`: the trace, the dearest operations, and batches against steps."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from training import fit
from training.timeline import TIMELINE_FILE, Step, Timeline
from training.trace import DEAREST, RECORDED, TRACE_FILE

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


def test_the_dearest_operations_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--max-epochs", "1", "--profile", "--results-dir", str(tmp_path))
    assert fit.main(["digits_mlp", *arguments]) == 0
    printed = capsys.readouterr().out.splitlines()
    start = printed.index("The dearest operations, CPU time by themselves:")
    shares = [float(line.split("%")[0]) for line in printed[start + 2 : start + 2 + DEAREST]]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 100.5
    assert any(line.startswith("Timeline   the loader prepares") for line in printed)


def test_too_few_steps_for_a_trace_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--max-epochs", "1", "--steps-per-epoch", "4", "--profile", "--results-dir", str(tmp_path))
    assert fit.main(["digits_mlp", *arguments]) == 0
    assert "no trace: that takes 13 steps, there were 4" in capsys.readouterr().out


def slow_batches(seconds: float) -> Iterator[Any]:
    while True:
        time.sleep(seconds)
        yield object()


@pytest.mark.parametrize(
    ("loader_s", "words"), [(0.02, "batches arrive later than steps end"), (0.0, "batches arrive in time")]
)
def test_it_says_who_waits_for_whom(loader_s: float, words: str) -> None:
    timeline = Timeline()
    timeline.steps = [Step(0.01 * n, 0.01 * n + 0.001, 0.01 * n + 0.009) for n in range(10)]
    timeline.run_loader_alone(slow_batches(loader_s))
    assert len(timeline.prepared) == 10
    assert timeline.in_words.endswith(words)

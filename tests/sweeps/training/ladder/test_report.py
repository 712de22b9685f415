"""What the ladder says of its figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from sweeps.training.config import LadderConfig
from sweeps.training.ladder import ladder
from sweeps.training.ladder.ladder import Result
from sweeps.training.ladder.rungs import Speed
from tests.support.trainables import as_trainable
from tests.sweeps.training.ladder.measured import fake
from trainables import digits_mlp


def rung(name: str, speed: Speed, *, is_kept: bool = True) -> Result:
    return Result(name, speed, 1.0, "", is_kept)


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
    assert ladder.number(value, digits) == said


def test_figures_are_the_same_on_the_screen_and_in_what_is_left(tmp_path: Path) -> None:
    fast = Result("larger batch", fake(17583.2), 1758.32, "", True)
    slow = Result("as given", fake(0.5), 1.0, "", True)
    parquet = Result("prepared Parquet", fake(900.0), 90.0, "", True)
    results = [slow, parquet, fast]
    config = LadderConfig(
        trainable=as_trainable(digits_mlp), params={}, name=tmp_path.name, results_dir=str(tmp_path.parent)
    )
    ladder.write_results(config, results)
    left = (tmp_path / "ladder.md").read_text()
    assert "| 17,580 |" in left
    assert "| 1,758.32x |" in left
    screen = [ladder.table_line(fast), ladder.summary(results)]
    assert screen[0].split()[2] == "17,580"
    for text in (*screen, left):
        assert not re.search(r"\de[+-]?\d", text), text


@pytest.mark.parametrize(
    ("wait_pct", "gpu_pct", "said"),
    [
        (
            10.0,
            None,
            "Limit      compute-bound: training waits 10 % of the time for data",
        ),
        (
            60.0,
            None,
            "Limit      data-bound: training waits 60 % of the time for data",
        ),
        (75.0, 97.0, "Limit      compute-bound: the GPU is busy 97 % of the time"),
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
        rung("as given", fake(10, data_wait_pct=80.0)),
        rung("larger batch", fake(100, data_wait_pct=wait_pct, gpu_util_pct=gpu_pct)),
        rung("compile", fake(50, data_wait_pct=0.0), is_kept=False),
    ]
    assert said in ladder.summary(results)


def test_a_gpu_whose_util_is_unknown_is_not_called_by_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # and no NVML
    only = rung("as given", fake(10, cores_busy_pct=7.0))
    assert "compute-bound: training waits 5 % of the time" in ladder.summary([only])
    assert "GPU is busy" not in ladder.summary([only])


def test_how_busy_it_was_is_told_of_the_gpu_where_that_is_known() -> None:
    found = [fake(10, cores_busy_pct=7.0), fake(10, gpu_util_pct=0.0, cores_busy_pct=7.0)]
    assert [ladder.cells(rung("as given", speed))[4] for speed in found] == ["7 %", "0 %"]

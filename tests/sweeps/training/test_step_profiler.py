"""What a run costs: its parts add up, and a slow loader shows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.step_profiler import Meter, StepTimes
from sweeps.training.time_breakdown import COSTS, PARTS
from tests.support.trainables import as_trainable, run_through
from trainables import digits_mlp

WAIT_S = 0.02
STEPS = 19


class Slowly:
    """A loader that keeps the step waiting."""

    def __init__(self, loader: Any, wait_s: float) -> None:
        self.loader, self.wait_s = loader, wait_s

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            time.sleep(self.wait_s)
            yield batch


class SlowData(pl.LightningDataModule):
    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.inner, self.wait_s = digits_mlp.build_data(digits_mlp.Params()), wait_s

    def train_dataloader(self) -> Any:
        return Slowly(self.inner.train_dataloader(), self.wait_s)

    def val_dataloader(self) -> Any:
        return self.inner.val_dataloader()


def second_epoch(wait_s: float) -> Report:
    class Trainable:
        METRIC, MODE, Params = "val_acc", "max", digits_mlp.Params
        build_model = staticmethod(digits_mlp.build_model)

        @staticmethod
        def build_data(params: Any) -> Any:
            return SlowData(wait_s)

    epochs: list[Report] = []
    config = FitConfig(max_epochs=2, metric="val_acc", mode="max")
    fit = Fit(as_trainable(Trainable()), digits_mlp.Params(), config)
    run_through(fit, lambda epoch: epochs.append(epoch) or True)
    return epochs[1]


@pytest.mark.slow
def test_parts_are_shares_of_the_epoch_and_a_slow_loader_shows() -> None:
    slow, quick = second_epoch(WAIT_S), second_epoch(0.0)
    for epoch in (slow, quick):
        assert set(epoch.costs) <= set(COSTS)
        shares = {part: epoch.costs[f"{part}_pct"] for part in PARTS}
        assert min(shares.values()) >= 0
        assert sum(shares.values()) <= 100
        assert min(shares[part] for part in ("data_wait", "forward", "backward", "optimizer")) > 0
        assert 0.05 < epoch.costs["memory_gb"] < 50
        assert epoch.costs["cpu_busy_pct"] > 0
    assert slow.costs["data_wait_pct"] * slow.seconds / 100 >= STEPS * WAIT_S
    awake_s = slow.seconds - STEPS * WAIT_S
    most_pct = 100 * torch.get_num_threads() * awake_s / slow.seconds
    assert slow.costs["cpu_busy_pct"] <= most_pct, "a process that sleeps is not busy"


def test_the_optimizer_takes_what_is_left_of_its_step() -> None:
    """Forward and backward run inside the optimizer's step."""
    now_s = 0.0
    times = StepTimes(lambda: now_s)
    step, forward = "[LightningModule]Net.optimizer_step", "[Strategy]SingleDeviceStrategy.training_step"
    backward = "[Strategy]SingleDeviceStrategy.backward"
    for action, is_start, seconds in (
        (step, True, 1.0), (forward, True, 2.0), (forward, False, 0.5), (backward, True, 4.0),
        (backward, False, 0.25), (step, False, 8.0),
    ):  # fmt: skip
        (times.start if is_start else times.stop)(action)
        now_s += seconds
    found = times.take()
    assert (found["forward"], found["backward"], found["optimizer"]) == (2.0, 4.0, 1.75)
    assert set(times.take().values()) == {0.0}, "since the last call"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_is_watched_too() -> None:
    costs = second_epoch(0.0).costs
    assert 0 <= costs["gpu_util_pct"] <= 100
    assert costs["gpu_memory_gb"] > 0


def test_the_utilization_of_a_gpu_is_the_mean_of_an_epochs_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, busy = 100.0, [10]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", lambda: busy[-1])
    for name in ("reset_peak_memory_stats", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    monkeypatch.setattr(time, "perf_counter", lambda: now_s)
    meter = Meter(threads=1)
    for busy_pct, seconds, mean_pct in ((90, 60, 90.0), (20, 30, 20.0), (70, 0.25, 70.0)):
        busy.append(busy_pct)
        meter.begin()
        for _ in range(int(4 * seconds)):
            now_s += 0.25
            meter.look()
        assert meter.end()[1]["gpu_util_pct"] == mean_pct


def test_without_nvml_the_utilization_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def utilization() -> int:
        raise ModuleNotFoundError("nvidia-ml-py does not seem to be installed")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    for name in ("reset_peak_memory_stats", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda: 0)
    meter = Meter(threads=1)
    meter.begin()
    assert "gpu_util_pct" not in meter.end()[1]


def test_an_epoch_is_looked_at_behind_each_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    monkeypatch.setattr(Meter, "look", lambda meter: looks.append(None))
    second_epoch(0.0)
    data = digits_mlp.build_data(digits_mlp.Params())
    assert len(looks) == 2 * (len(data.train_dataloader()) + len(data.val_dataloader()))

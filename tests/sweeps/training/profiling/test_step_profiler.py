"""What a run costs: its parts add up, and a slow loader shows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sweeps.training.config import FitConfig
from sweeps.training.fit_loop import Fit
from sweeps.training.profiling.step_profiler import LOOK_EVERY_S, GpuUtil, Meter
from sweeps.training.profiling.time_breakdown import COSTS, PARTS
from sweeps.training.report import Report
from tests.support.trainables import as_trainable
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
    Fit(as_trainable(Trainable()), digits_mlp.Params(), config).run(
        lambda epoch: epochs.append(epoch) or True
    )
    return epochs[1]


def test_parts_are_shares_of_the_epoch_and_a_slow_loader_shows() -> None:
    slow, quick = second_epoch(WAIT_S), second_epoch(0.0)
    for epoch in (slow, quick):
        assert set(epoch.costs) <= set(COSTS)
        shares = {part: epoch.costs[f"{part}_pct"] for part in PARTS}
        assert min(shares.values()) >= 0
        assert sum(shares.values()) <= 100
        assert min(shares[part] for part in ("data_wait", "forward", "backward", "optimizer")) > 0
        assert 0.05 < epoch.costs["memory_gb"] < 50
    assert slow.costs["data_wait_pct"] * slow.seconds / 100 >= STEPS * WAIT_S
    assert slow.costs["data_wait_pct"] > quick.costs["data_wait_pct"]
    assert 0 < slow.costs["cpu_busy_pct"] < quick.costs["cpu_busy_pct"], "a process that sleeps is not busy"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_is_watched_too() -> None:
    costs = second_epoch(0.0).costs
    assert 0 <= costs["gpu_util_pct"] <= 100
    assert costs["gpu_memory_gb"] > 0


class FakeNvml:
    """Has a sample of each second, and forgets those older than its buffer; on a clock of its own."""

    NVMLError = RuntimeError
    NVML_GPU_UTILIZATION_SAMPLES = 1
    BUFFER_S = 14

    def __init__(self, has_samples: bool = True) -> None:
        self.now_s, self.has_samples, self.calls = 1000.0, has_samples, 0
        self.samples: list[Any] = []

    def run(self, seconds: int, busy_pct: int) -> Iterator[None]:
        """As many seconds of so much work; a batch is half a second."""
        for half in range(2 * seconds):
            self.now_s += 0.5
            if half % 2:
                value = SimpleNamespace(uiVal=busy_pct)
                sample = SimpleNamespace(timeStamp=int(self.now_s * 1e6), sampleValue=value)
                self.samples = [*self.samples, sample][-self.BUFFER_S :]
            yield

    def nvmlDeviceGetSamples(self, gpu: Any, kind: int, since_us: int) -> tuple[int, list[Any]]:
        self.calls += 1
        found = [sample for sample in self.samples if sample.timeStamp > since_us]
        if not self.has_samples or not found:
            raise self.NVMLError("not found")
        return 1, [*found, SimpleNamespace(timeStamp=0, sampleValue=SimpleNamespace(uiVal=99))]

    def nvmlDeviceGetUtilizationRates(self, gpu: Any) -> Any:
        return SimpleNamespace(gpu=7)


def test_gpu_util_is_of_the_whole_epoch_and_not_of_what_nvml_still_remembers() -> None:
    nvml = FakeNvml()
    util = GpuUtil(nvml, "gpu", lambda: nvml.now_s)
    for _ in nvml.run(60, busy_pct=10):
        util.look()
    util.begin()  # what was before does not count
    calls = nvml.calls
    for busy_pct, seconds in ((90, 60), (20, 30), (100, 10)):
        for _ in nvml.run(seconds, busy_pct):
            util.look()
    assert nvml.calls - calls <= 100 / LOOK_EVERY_S
    assert util.mean_pct() == pytest.approx((90 * 60 + 20 * 30 + 100 * 10) / 100)


def test_a_card_without_samples_tells_what_it_does_just_now() -> None:
    nvml = FakeNvml(has_samples=False)
    util = GpuUtil(nvml, "gpu", lambda: nvml.now_s)
    for _ in nvml.run(10, busy_pct=50):
        util.look()
    assert util.mean_pct() == 7.0


def test_an_epoch_is_looked_at_behind_each_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []
    monkeypatch.setattr(Meter, "look", lambda meter: looks.append(None))
    second_epoch(0.0)
    data = digits_mlp.build_data(digits_mlp.Params())
    assert len(looks) == 2 * (len(data.train_dataloader()) + len(data.val_dataloader()))

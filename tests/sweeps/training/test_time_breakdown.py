"""The time breakdown of an epoch, in figures and in words."""

from __future__ import annotations

import pytest

from sweeps.training.time_breakdown import mean_costs, verdict


def test_shares_of_several_epochs_are_weighed_by_time_and_memory_is_its_peak() -> None:
    first, second = {"data_wait_pct": 10.0, "memory_gb": 2.0}, {"data_wait_pct": 50.0, "memory_gb": 1.0}
    assert mean_costs([(1.0, first), (3.0, second)]) == {"data_wait_pct": 40.0, "memory_gb": 2.0}
    assert mean_costs([]) == {}


WAITS = "training waits {} % of the time for data"


@pytest.mark.parametrize(
    ("waits", "gpu", "expected"),
    [
        (61.4, None, f"data-bound: {WAITS.format(61)}; prepare the data or add loader workers"),
        (3.0, None, f"compute-bound: {WAITS.format(3)}"),
        (60.0, 35.0, f"data-bound: {WAITS.format(60)}, the GPU is busy 35 % of it; prepare the data"),
        (3.0, 20.0, f"host-bound: {WAITS.format(3)}, the GPU is busy 20 % of it; the GPU waits for the CPU"),
        (75.0, 97.0, "compute-bound: the GPU is busy 97 % of the time"),
    ],
)
def test_the_verdict_is_in_words(waits: float, gpu: float | None, expected: str) -> None:
    costs = {"data_wait_pct": waits} | ({} if gpu is None else {"gpu_util_pct": gpu})
    assert verdict(costs).startswith(expected)


def test_data_that_is_prepared_is_not_to_be_prepared() -> None:
    assert verdict({"data_wait_pct": 61.0}).endswith("; prepare the data or add loader workers")
    assert verdict({"data_wait_pct": 61.0}, is_prepared=True).endswith("for data; add loader workers")

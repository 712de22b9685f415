"""Who waits for whom, by what each step took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from sweeps.training.profiling.timeline import Step, Timeline


def slow_batches(seconds: float) -> Iterator[Any]:
    while True:
        time.sleep(seconds)
        yield object()


@pytest.mark.parametrize(
    ("loader_s", "words"), [(0.02, "training waits for data"), (0.0, "batches are ready in time")]
)
def test_it_says_who_waits_for_whom(loader_s: float, words: str) -> None:
    timeline = Timeline()
    timeline.steps = [Step(0.01 * n, 0.01 * n + 0.001, 0.01 * n + 0.009) for n in range(10)]
    timeline.run_loader_alone(slow_batches(loader_s))
    assert len(timeline.prepared) == 10
    assert timeline.in_words.endswith(words)

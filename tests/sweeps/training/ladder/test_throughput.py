"""How many steps a stopwatch measures, with a fake clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sweeps.training.ladder.throughput import ENOUGH, steps_to_go


def block(step_s: Callable[[int], float], block_s: float) -> tuple[int, float, int]:
    """Steps, seconds and looks at the clock of a block whose steps take so long."""
    steps, looks, to_go = 0, 0, 1
    while to_go:
        steps, looks = steps + to_go, looks + 1
        time_s = sum(map(step_s, range(steps)))
        to_go = steps_to_go(steps, time_s, block_s)
    return steps, time_s, looks


@pytest.mark.parametrize("step", [0.0007, 0.002, 0.03, 0.4])
def test_steps_of_one_length_fill_the_time_in_few_looks(step: float) -> None:
    steps, time_s, looks = block(lambda number: step, 4.0)
    assert ENOUGH * 4.0 <= time_s <= 4.0 + step
    assert looks <= steps.bit_length() + 3


def test_a_first_step_that_compiles_does_not_end_the_block() -> None:
    steps, time_s, _ = block(lambda number: 0.002 if number else 1.2, 4.0)
    assert ENOUGH * 4.0 <= time_s <= 4.2
    assert steps > 1000


def test_batches_that_were_ready_do_not_draw_the_block_out() -> None:
    _, time_s, _ = block(lambda number: 0.002 if number < 10 else 0.5, 4.0)
    assert ENOUGH * 4.0 <= time_s <= 2 * 4.0


def test_a_step_longer_than_the_block_is_enough() -> None:
    assert block(lambda number: 9.0, 4.0) == (1, 9.0, 1)

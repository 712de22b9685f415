"""Work that takes a share of the time."""

from __future__ import annotations

import itertools

import pytest

from sweeps.storage.disk_guard import TimeShare


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("cost_s", "every_s"), [(0.01, 10.01), (0.5, 50.5), (3.0, 303.0)])
def test_work_is_due_as_rarely_as_its_share_of_the_time_needs(cost_s: float, every_s: float) -> None:
    clock = Clock()
    work = TimeShare(0.01, 10, clock=clock)
    turns: list[float] = []
    spent_s = 0.0
    while clock.now < 1000:
        if work.is_due():
            turns.append(clock.now)
            with work.taken():
                clock.now += cost_s
            spent_s += cost_s
        clock.now += 0.001
    assert [later - turn for turn, later in itertools.pairwise(turns)] == pytest.approx(
        [every_s] * (len(turns) - 1), abs=0.002
    )
    assert spent_s - cost_s <= 0.01 * clock.now, "all but the last, of which the time is still to come"


def test_work_that_raises_has_taken_its_time_too() -> None:
    clock = Clock()
    work = TimeShare(0.1, 1, clock=clock)

    def fail() -> None:
        with work.taken():
            clock.now = 5
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    clock.now = 54
    assert not work.is_due()
    clock.now = 55
    assert work.is_due()


def test_the_first_turn_may_wait() -> None:
    clock = Clock()
    work = TimeShare(0.1, 1, first_s=60, clock=clock)
    assert not work.is_due()
    clock.now = 60
    assert work.is_due()

"""Sweeps on the same PCs share fairly, whatever their trials take."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from sweeps.ray_cluster.places.place_division import Demand, PlaceDivision, Resources, divide
from tests.sweeps.ray_cluster.places.sharing import ALL, Played, cpus, play

ONE_PC = {"pc0": cpus(4)}
WINDOW_S = 600
TOLERANCE = 0.1


def places(demands: Sequence[Demand], pcs: Mapping[str, Resources]) -> list[int]:
    """How many workers each sweep is given."""
    return [sum(given.values()) for given in divide(demands, pcs).values()]


def demand(name: str, cpu: float = 1, *, wanted: int = ALL, share: float = 1.0, late: float = 0.0) -> Demand:
    return Demand(sweep=name, worker=cpus(cpu), wanted=wanted, share=share, lead_s=-late)


def test_a_share_counts_as_often_as_it_says() -> None:
    assert places([demand("a"), demand("b")], ONE_PC) == [2, 2]
    assert places([demand("a", share=3), demand("b")], ONE_PC) == [3, 1]
    assert places([demand("a", share=2), demand("b"), demand("c")], ONE_PC) == [2, 1, 1]


def test_places_that_a_sweep_does_not_use_go_to_the_others() -> None:
    assert places([demand("a", wanted=1), demand("b")], ONE_PC) == [1, 3]
    assert places([demand("a", wanted=0), demand("b")], ONE_PC) == [0, 4]


def test_one_that_is_behind_comes_first() -> None:
    assert places([demand("a"), demand("b", late=60)], {"pc0": cpus(1)}) == [0, 1]


def test_a_large_trial_finds_room_where_small_ones_lead() -> None:
    pcs = {"pc0": cpus(2), "pc1": cpus(2)}
    small = Demand(sweep="small", worker=cpus(1), wanted=ALL, kept={"pc0": 2, "pc1": 2})
    large = demand("large", 2, wanted=1, late=60)
    given = divide([small, large], pcs)
    assert sorted(given["large"].values()) == [1]
    assert given["small"] == {pc: 2 for pc in pcs if pc not in given["large"]}


def test_trials_stay_where_they_are_while_nobody_is_behind() -> None:
    pcs = {f"pc{number}": cpus(2) for number in range(3)}
    kept = {"a": {"pc0": 2, "pc1": 1}, "b": {"pc1": 1, "pc2": 2}}
    demands = [Demand(sweep=name, worker=cpus(1), wanted=ALL, kept=there) for name, there in kept.items()]
    assert divide(demands, pcs) == kept
    demands[0] = dataclasses.replace(demands[0], lead_s=0.5 * 20 / 6)
    assert divide(demands, pcs) == kept, "it leads by half a quantum"


def test_a_closed_pc_gets_none_of_a_sweep() -> None:
    pcs = {"pc0": cpus(2), "pc1": cpus(2)}
    shut = Demand(sweep="a", worker=cpus(1), wanted=ALL, kept={"pc0": 2, "pc1": 1}, closed=frozenset({"pc0"}))
    assert divide([shut], pcs) == {"a": {"pc1": 2}}


def test_the_workers_of_a_trial_are_placed_all_or_none() -> None:
    pcs = {f"pc{number}": cpus(1) for number in range(5)}
    several = Demand(sweep="a", worker=cpus(1), workers=2, wanted=ALL)
    assert places([several], pcs) == [4], "half a trial is none"
    assert places([several, demand("b")], pcs) == [2, 3]


def test_trials_that_no_pc_holds_take_nothing_from_others() -> None:
    assert places([demand("a", 8), demand("b")], ONE_PC) == [0, 4]
    nowhere = Demand(sweep="a", worker={"GPU": 1.0}, wanted=ALL)
    assert places([nowhere, demand("b")], ONE_PC) == [0, 4]


def test_shares_of_a_gpu_fill_it() -> None:
    third = Demand(sweep="a", worker={"CPU": 1.0, "GPU": 1 / 3}, wanted=ALL)
    whole = Demand(sweep="b", worker={"CPU": 1.0, "GPU": 1.0}, wanted=ALL)
    assert places([third, whole], {"pc0": {"CPU": 16.0, "GPU": 2.0}}) == [3, 1]


def test_a_sweep_that_is_alone_is_not_bound() -> None:
    division, one, two = PlaceDivision(), Played("a", cpus(1)), Played("b", cpus(1))
    assert division.renew([one.claim], ONE_PC, 0.0)["a"].places is None
    both = division.renew([one.claim, two.claim], ONE_PC, 1.0)
    assert (both["a"].places, both["b"].places) == ({"pc0": 2}, {"pc0": 2})
    assert (both["a"].others, both["b"].others) == (("b",), ("a",))
    two.wanted = 0
    assert division.renew([one.claim, two.claim], ONE_PC, 2.0)["a"].places is None
    assert division.renew([one.claim], ONE_PC, 3.0)["a"].places is None


def test_what_trains_goes_on_where_a_division_begins_anew() -> None:
    pcs = {"pc0": cpus(2), "pc1": cpus(2)}
    one, two = (Played(name, cpus(1), held=Counter({pc: 2})) for name, pc in (("a", "pc1"), ("b", "pc0")))
    found = PlaceDivision().renew([one.claim, two.claim], pcs, 0.0)
    assert [found[each.name].places for each in (one, two)] == [one.held, two.held]


def test_a_sweep_of_the_queue_waits_for_those_before_it_and_shares_with_those_behind() -> None:
    division = PlaceDivision()
    running = Played("a", cpus(1), held=Counter({"pc0": 4})).claim
    first, second = (
        dataclasses.replace(Played(name, cpus(1), began_s=began).claim, is_queued=True)
        for name, began in (("b", 1.0), ("c", 2.0))
    )
    later = Played("d", cpus(1), began_s=3.0).claim
    found = division.renew([running, first, second], ONE_PC, 3.0)
    assert found["a"].places is None, "those that wait take nothing"
    assert (found["b"].places, found["b"].waits_for) == ({}, ("a",))
    assert (found["c"].places, found["c"].waits_for) == ({}, ("a", "b"))
    urgent = dataclasses.replace(second, priority=10)
    found = division.renew([first, urgent, later], ONE_PC, 4.0)
    assert (found["c"].places, found["d"].places) == ({"pc0": 2}, {"pc0": 2})
    assert found["b"].waits_for == ("c",), "not for the one that came behind it and does not wait"
    assert division.renew([first, urgent], ONE_PC, 5.0)["c"].places is None, "what has begun goes on"


@pytest.mark.parametrize(
    ("sweeps", "due"),
    [
        ([Played(name, cpus(1)) for name in "abc"], [4 / 3] * 3),
        ([Played("a", cpus(1)), Played("b", cpus(2)), Played("c", cpus(1))], [4 / 3, 2 / 3, 4 / 3]),
        (
            [Played("a", cpus(1), share=2), Played("b", cpus(1), leaves_s=20), Played("c", cpus(2))],
            [2, 1, 0.5],
        ),
        ([Played("a", cpus(1), wanted=1), Played("b", cpus(1)), Played("c", cpus(1))], [1, 1.5, 1.5]),
        ([Played("a", cpus(1)), Played("b", cpus(1), workers=2)], [2, 2]),
    ],
)
def test_over_any_ten_minutes_each_sweep_has_its_share(sweeps: list[Played], due: list[float]) -> None:
    play(sweeps, ONE_PC, 5 * WINDOW_S, step_s=2)
    for sweep, places in zip(sweeps, due, strict=True):
        for start_s in range(WINDOW_S, 4 * WINDOW_S, 10):
            assert sweep.within(start_s, start_s + WINDOW_S) == pytest.approx(places, rel=TOLERANCE)
    assert sum(sweep.moved for sweep in sweeps) <= 4 * 5 * WINDOW_S / 60, "a move takes a while"


@pytest.mark.parametrize(
    ("sweeps", "cpu", "tolerance", "moves_per_hour"),
    [
        ([Played(name, cpus(1)) for name in "abcde"], 1, 0.1, 360),
        (
            [*(Played(name, cpus(1)) for name in "abc"), Played("w", cpus(2)), Played("d", cpus(1), share=2)],
            2,
            0.12,
            320,
        ),
        ([Played("whole", cpus(8), share=0.5), Played("small", cpus(1), share=5)], 8, 0.25, 320),
    ],
)
def test_few_places_go_round_fast_enough(
    sweeps: list[Played], cpu: int, tolerance: float, moves_per_hour: int
) -> None:
    play(sweeps, {"pc0": cpus(cpu)}, 5 * WINDOW_S)
    for sweep in sweeps:
        due = cpu * sweep.share / sum(each.share for each in sweeps) / sweep.worker["CPU"]
        for start_s in range(WINDOW_S, 4 * WINDOW_S, 10):
            assert sweep.within(start_s, start_s + WINDOW_S) == pytest.approx(due, rel=tolerance)
    assert sum(sweep.moved for sweep in sweeps) <= moves_per_hour * 5 * WINDOW_S / 3600


def test_a_sweep_that_joins_or_ends_is_obeyed_within_a_minute() -> None:
    first, second = Played("a", cpus(1), leaves_s=20), Played("b", cpus(1), began_s=300)
    play([first, second], ONE_PC, 600)
    assert first.within(60, 300) == 4
    assert [each.within(360, 600) for each in (first, second)] == [2, 2]
    second.wanted = 0
    division = PlaceDivision()
    division.renew([first.claim, second.claim], ONE_PC, 0.0)
    assert division.renew([first.claim], ONE_PC, 1.0)["a"].places is None


def test_one_that_could_not_be_placed_gets_no_hour_of_all_places_afterwards() -> None:
    large = Played("large", cpus(8), began_s=0)
    sweeps, division = [large, *(Played(name, cpus(1)) for name in "ab")], PlaceDivision()
    play(sweeps, ONE_PC, 3600, 4, division)
    large.worker = cpus(1)
    for sweep in sweeps:
        sweep.received, sweep.leaving = [0.0], []
        sweep.held.clear()
    play(sweeps, ONE_PC, WINDOW_S + 300, 2, division)
    for sweep in sweeps:
        assert sweep.within(300, 300 + WINDOW_S) == pytest.approx(4 / 3, rel=TOLERANCE)


@pytest.mark.long
def test_fifty_sweeps_of_unequal_trials_share_a_hundred_pcs() -> None:
    draw = random.Random(3)
    pcs: dict[str, Resources] = {
        f"pc{number:02}": {"CPU": draw.choice([8.0, 16.0]), "GPU": draw.choice([1.0, 1.0, 2.0, 4.0])}
        for number in range(100)
    }
    sweeps = [
        Played(
            f"sweep{number}",
            {"CPU": 1.0, "GPU": draw.choice([1.0, 1.0, 1.0, 2.0, 0.5])},
            workers=2 if number % 17 == 5 else 1,
            wanted=draw.choice([1, 2, ALL, ALL, ALL]),
            share=draw.choice([1.0, 1.0, 2.0]),
            leaves_s=draw.choice([2.0, 10.0, 30.0]),
        )
        for number in range(50)
    ]
    play(sweeps, pcs, 1400, step_s=2)
    due = _due_gpus(sweeps, sum(pc["GPU"] for pc in pcs.values()))
    for sweep in sweeps:
        for start_s in range(WINDOW_S, 1400 - WINDOW_S, 10):
            got = sweep.within(start_s, start_s + WINDOW_S) * sweep.worker["GPU"]
            assert got == pytest.approx(due[sweep.name], rel=TOLERANCE), sweep


def _due_gpus(sweeps: Sequence[Played], left: float) -> dict[str, float]:
    """GPUs by shares; what a sweep does not want goes to the others."""
    due: dict[str, float] = {}
    for sweep in sorted(sweeps, key=lambda each: _wanted_gpus(each) / each.share):
        shares = sum(each.share for each in sweeps if each.name not in due)
        due[sweep.name] = min(_wanted_gpus(sweep), left * sweep.share / shares)
        left -= due[sweep.name]
    return due


def _wanted_gpus(sweep: Played) -> float:
    return sweep.wanted * sweep.workers * sweep.worker["GPU"]

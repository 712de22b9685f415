"""Where a trial is placed while other sweeps train on the same PCs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.shared_places import NOWHERE, SharedPlaces
from sweeps.execution.trial_actors import TrialActors
from sweeps.ray_cluster.places.place_claims import PlaceClaims
from sweeps.ray_cluster.places.place_division import Allotment
from sweeps.record.record import Record
from sweeps.search.search_method import RecordSearcher
from tests.support.contexts import cluster_of, context_of


def places_of(folder: Path, *, gpus: int = 0, closed: int = 0, **given: int) -> SharedPlaces:
    """The places of a sweep that was given so many by PC; without any it is alone.

    Args:
        folder: of the sweep.
        gpus: of its only PC; each trial takes one, where there are any.
        closed: places on GPUs that other programs fill.
        given: places by PC.
    """
    record, config = Record.create(folder, "s", "max", {"metric": "m"}), SweepConfig()
    no_space: Any = None
    searcher = RecordSearcher(record, no_space, lambda nth: iter(()), config)
    context = context_of(folder, record, config, cluster_of((8, gpus)))
    context.places = Claimed(folder, is_on_this_pc=True)
    (pc,) = context.cluster.there
    context.places.allotment = Allotment(
        {pc.id if name == "here" else name: n for name, n in given.items()} or None
    )
    gpus_per_trial = float(bool(gpus))
    return SharedPlaces(context, searcher, TrialActors(), lambda: gpus_per_trial, lambda gpus: closed)


class Claimed(PlaceClaims):
    """The claims of a sweep that has just claimed."""

    def is_due(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("closed", "given", "slots"),
    [(0, {}, 2), (1, {}, 1), (2, {}, 0), (0, {"here": 1}, 1), (1, {"here": 1}, 1), (2, {"here": 1}, 0)],
)
def test_a_full_gpu_is_taken_off_once(tmp_path: Path, closed: int, given: dict[str, int], slots: int) -> None:
    """Of two GPUs, where another sweep has one, or none."""
    places = places_of(tmp_path, gpus=2, closed=closed, **given)
    places.renew()
    assert places._searcher.slots == slots


def test_a_sweep_that_is_alone_places_its_trials_anywhere(tmp_path: Path) -> None:
    places = places_of(tmp_path)
    assert places.choose(2) is None
    assert places.slots() == float("inf")


def test_each_trial_is_placed_where_there_is_most_room_and_none_beyond_it(tmp_path: Path) -> None:
    places, chosen = places_of(tmp_path, pc0=1, pc1=2), list[str]()
    group: Any = "a placement group"
    for _ in range(4):
        found = places.choose(1)
        assert found is not None
        chosen += found
        places.note(group, found)
    assert (chosen[0], sorted(chosen[:3]), chosen[3]) == ("pc1", ["pc0", "pc1", "pc1"], NOWHERE)


def test_the_workers_of_a_trial_are_placed_one_by_one(tmp_path: Path) -> None:
    places = places_of(tmp_path, pc0=1, pc1=2)
    assert sorted(places.choose(3) or ()) == ["pc0", "pc1", "pc1"]


def test_trials_that_give_up_their_places_are_proposed_again(tmp_path: Path) -> None:
    places = places_of(tmp_path, pc0=1)
    pending: Any = [SimpleNamespace(config={"number": number}) for number in range(3)]
    places._surplus = 2
    assert places.to_give_up(pending) == pending[1:]
    assert [places._searcher.is_requeued(number) for number in range(3)] == [False, True, True]
    assert places.to_give_up(pending[:1]) == []

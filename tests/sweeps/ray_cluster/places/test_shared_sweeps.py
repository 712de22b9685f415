"""Who shares a Ray, and for whom a sweep waits, in the words and the JSON of `sweeps queue`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sweeps.queue import _row
from sweeps.ray_cluster.places.place_division import AnsweredClaim, Claim, PlaceDivision
from sweeps.ray_cluster.places.shared_sweeps import (
    SharedSweep,
    ahead,
    in_order,
    note_of,
    noted,
    this_user,
)
from sweeps.ray_start.ray_folder import User
from tests import ROOT

PCS = {"id1": "pc1", "id2": "pc2"}
HAS = {"id1": {"CPU": 4.0, "GPU": 2.0}, "id2": {"CPU": 4.0, "GPU": 2.0}}


def claim(name: str, since_s: float, user: str | None = None, **more: Any) -> Claim:
    given: dict[str, Any] = {"wanted": 4, "held": {}, "trial": ({"CPU": 1.0, "GPU": 1.0},), **more}
    whose: dict[str, Any] = {"user": user or this_user(), "pc": "pc1", "pid": 7}
    return Claim(
        sweep=f"{name}/{since_s}",
        name=name,
        folder=f"/r/{name}",
        since_s=since_s,
        **whose,
        **given,
    )


def answers(*claims: Claim) -> Sequence[AnsweredClaim]:
    """As the divider has them 100 s after the first clock."""
    found = PlaceDivision().renew(claims, HAS, 100.0)
    return [AnsweredClaim(each, found[each.sweep], 100.0 - each.since_s) for each in claims]


SHARED = answers(
    claim("first", 0.0, held={"id1": 2, "id2": 1}, left_s=700.0, share=2.0),
    claim("second", 10.0, is_queued=True),
    claim("third", 20.0, "ann", is_queued=True, priority=10),
)


def test_those_that_run_come_first_then_those_that_wait_in_their_order() -> None:
    first, third, second = in_order(SHARED, PCS, 1_000.0)
    assert vars(first) == {
        **{"name": "first", "folder": "/r/first", "user": this_user(), "pc": "pc1", "pid": 7},
        **{"status": "running", "place": None, "waits_for": [], "waits_on": "", "waits_since": None},
        **{"priority": 0, "share": 2.0},
        **{"since": 900.0, "left_s": 700.0, "trials": {"pc1": 2, "pc2": 1}, "cpus": 3.0, "gpus": 3.0},
    }
    assert (third.name, third.status, third.place, third.waits_for) == ("third", "waiting", 1, ["first"])
    assert (second.name, second.place, sorted(second.waits_for)) == ("second", 2, ["first", "third"])
    assert (second.since, second.waits_since) == (910.0, 910.0)


def test_a_trial_of_two_workers_counts_once() -> None:
    two = claim("wide", 0.0, trial=({"CPU": 1.0},) * 2, held={"id1": 1, "id2": 3})
    (wide,) = in_order(answers(two), PCS, 0.0)
    assert (sum(wide.trials.values()), wide.cpus) == (2.0, 4.0)


def test_for_whom_a_sweep_waits_in_words() -> None:
    assert ahead(["first/0.0", "third/20.0"], SHARED).in_words() == (
        "first runs, about 12 min left; third of ann waits before it"
    )
    assert ahead(["first/0.0"], SHARED).who == (("first",), (), (), ())
    assert ahead([], SHARED, ["slow (process 7)"]).in_words() == (
        "slow (process 7), started before it, still prepares"
    )


def test_two_sweeps_of_one_name_are_told_apart() -> None:
    mine, other = claim("first", 0.0, held={"id1": 1}), claim("first", 10.0, is_queued=True)
    both = answers(mine, dataclasses.replace(other, folder="/other/first"))
    assert both[1].allotment.waits_for == (mine.sweep,)
    assert ahead([mine.sweep], both).in_words() == "first in /r/first runs"
    _, waiting = in_order(both, PCS, 0.0)
    assert waiting.waits_for == ["first in /r/first"]


GAME = "GPU 0 is used by user 1003 (pid 4711, game, 9.1 of 25.8 GB)"


def test_one_whose_turn_has_come_waits_for_a_game_and_others_for_it() -> None:
    waits = claim("second", 50.0, is_queued=True, wanted=0, waits_on=GAME, waits_s=30.0)
    second, third = in_order(answers(waits, claim("third", 60.0, is_queued=True)), PCS, 1_000.0)
    assert (second.status, second.place, second.waits_for, second.waits_on) == ("waiting", None, [], GAME)
    assert (second.since, second.waits_since) == (950.0, 970.0)
    assert (third.status, third.place, third.waits_for) == ("waiting", 1, ["second"])
    assert _row(second)[1:3] + _row(second)[-1:] == ["waits", "none", GAME]


def test_what_sweeps_note_is_read_as_they_claimed_it_as_long_ago_as_it_is() -> None:
    game = claim(
        "second", 50.0, is_queued=True, wanted=0, waits_on=GAME, waits_s=30.0, closed=frozenset({"id2"})
    )
    first = claim("first", 0.0, held=Counter({"id1": 1}), left_s=700.0)
    assert in_order(noted([User(pid=7, name="", claim=note_of(answers(first)[0], 1.0))], 1.0), PCS, 0.0) == (
        in_order(answers(first), PCS, 0.0)
    )
    known = answers(game, claim("third", 60.0, is_queued=True))
    users = [User(pid=7, name="old", claim=note_of(each, 1.0)) for each in reversed(known)]
    second, third = in_order(noted([User(pid=8, name="starts"), *users], 6.0), PCS, 1_000.0)
    before = in_order(known, PCS, 1_000.0)
    assert vars(second) == {**vars(before[0]), "since": 945.0, "waits_since": 965.0}
    assert vars(third) == {**vars(before[1]), "since": 955.0, "waits_since": 955.0}


def test_what_another_version_notes_is_read_as_far_as_it_is_known() -> None:
    def user(**changed: Any) -> User:
        content = json.loads(note_of(SHARED[0], 0.0))
        content["claim"] = {**content["claim"], **changed}
        return User(pid=7, name="first", claim=json.dumps(content))

    older, newer = user(version="0.1.0"), user()
    newer = dataclasses.replace(newer, claim=newer.claim.replace('"wanted"', '"wished"'))
    assert in_order(noted([older], 0.0), PCS, 0.0) == in_order(SHARED[:1], PCS, 0.0)
    assert noted([newer], 0.0) == []


def test_the_rows_of_the_table() -> None:
    first, third, _ = map(_row, in_order(SHARED, PCS, 0.0))
    runs = ["first", "runs", "2 on pc1, 1 on pc2 (3 GPUs)", "about 12 min", "2", "0", ""]
    waits = ["third of ann", "waits, 1st in the queue", "none", "", "1", "10", "first"]
    assert [[*each[:3], *each[4:]] for each in (first, third)] == [runs, waits]


def test_the_docs_have_each_key_of_the_json() -> None:
    page = (ROOT / "docs" / "several-sweeps.md").read_text()
    table = page.partition("| key | value |")[2].partition("\n\n")[0]
    keys = [
        key
        for row in re.findall(r"^\| (`[^|]*) \|", table, flags=re.M)
        for key in re.findall(r"`(\w+)`", row)
    ]
    assert sorted(keys) == sorted(field.name for field in dataclasses.fields(SharedSweep))

"""Who of a cluster's PCs trains, and which PC a drain means."""

from __future__ import annotations

from typing import Any

import pytest

from sweeps.cluster.membership import LOOK_EVERY_S, Membership
from sweeps.cluster.nodes import HEAD, PC, Node
from sweeps.common.errors import UserError
from sweeps.pcs.drain import choose


def node(number: int, is_head: bool = False, **more: Any) -> Node:
    """As Ray lists it."""
    has = {"CPU": 2.0, "GPU": 1.0, **({HEAD: 1.0} if is_head else {})}
    about = {"id": f"id{number}", "hostname": f"pc{number}", "address": f"10.0.0.{number}", "has": has}
    return Node(**{**about, **more})


class Cluster:
    """A cluster that answers as Ray does, and a clock."""

    def __init__(self) -> None:
        self.nodes = [node(0, is_head=True), node(1), node(2)]
        self.leaving: dict[str, float] = {}
        self.now = 0.0
        self.faults: dict[str, str | None] = {}
        self.membership = Membership(
            self.nodes,
            lambda: self.nodes,
            None,
            lambda: self.leaving,
            lambda: self.now,
            lambda node: self.faults.get(node.id, ""),
        )

    def look(self) -> list[str]:
        self.now += LOOK_EVERY_S
        return self.membership.news()


def test_a_pc_that_joins_leaves_or_is_gone_changes_what_there_is() -> None:
    cluster = Cluster()
    assert not cluster.look()
    assert cluster.membership.pcs == [PC(2, 1)] * 3
    cluster.nodes.append(node(3))
    assert not cluster.membership.news(), "it was just asked"
    assert cluster.look() == ["pc3 (10.0.0.3) has joined"]
    assert len(cluster.membership.pcs) == 4
    cluster.leaving = {"id1": 17.0, "id2": 17.0}
    assert cluster.look() == [
        f"pc{number} (10.0.0.{number}) is about to leave: its trials move to other PCs" for number in (1, 2)
    ]
    assert (len(cluster.membership.pcs), len(cluster.membership.staying())) == (2, 4)
    del cluster.nodes[1], cluster.nodes[2]
    cluster.leaving = {}
    assert cluster.look() == [
        "pc1 (10.0.0.1) has left",
        "pc2 (10.0.0.2) stays",
        "pc3 (10.0.0.3) is lost",
    ]
    assert (len(cluster.membership.pcs), cluster.membership.away) == (2, frozenset())


def test_a_pc_that_is_left_out_stays_out_when_it_joins_again() -> None:
    cluster = Cluster()
    said = cluster.membership.leave_out("id2", "no room")
    assert said == "pc2 (10.0.0.2) gets no more trials in this run: no room"
    assert cluster.membership.away == {"id2"}
    cluster.nodes[2] = node(2, id="new")
    assert cluster.look() == [
        "pc2 (10.0.0.2) is lost",
        "pc2 (10.0.0.2) has joined, and gets no trials in this run: no room",
    ]
    assert cluster.membership.away == {"new"}
    assert cluster.membership.is_left_out("new")
    assert len(cluster.membership.staying()) == 2


def test_a_pc_that_joins_gets_trials_when_it_is_known_that_it_can_train() -> None:
    cluster = Cluster()
    cluster.faults = {"id3": None, "id4": "its card is too small"}
    cluster.nodes += [node(3), node(4)]
    assert cluster.look() == [
        "pc4 (10.0.0.4) has joined, and gets no trials in this run: its card is too small"
    ]
    assert (cluster.membership.closed, cluster.membership.away) == ({"id3", "id4"}, {"id4"})
    assert not cluster.look()
    cluster.faults["id3"] = ""
    assert cluster.look() == ["pc3 (10.0.0.3) has joined"]
    assert cluster.membership.closed == {"id4"}
    assert len(cluster.membership.pcs) == 4


def test_a_pc_that_was_let_in_is_not_asked_again_when_it_starts_anew() -> None:
    cluster = Cluster()
    cluster.faults = {"new": None}
    cluster.nodes[2] = node(2, id="new")
    assert cluster.look() == ["pc2 (10.0.0.2) is lost", "pc2 (10.0.0.2) has joined"]
    assert not cluster.membership.closed


def test_a_pc_that_joins_while_the_others_are_asked_is_checked_too() -> None:
    there = [node(0, is_head=True)]
    membership = Membership(there, lambda: [*there, node(1)], leaving=dict, check=lambda _: "too small")
    assert membership.closed == {"id1"}
    assert membership.news() == ["pc1 (10.0.0.1) has joined, and gets no trials in this run: too small"]


def test_a_pc_that_ends_while_the_cluster_is_asked_has_left() -> None:
    cluster = Cluster()
    cluster.leaving = {"id1": 17.0}
    assert len(cluster.look()) == 1
    del cluster.nodes[1]  # and still listed as one that leaves
    assert cluster.look() == ["pc1 (10.0.0.1) has left"]


def test_the_head_is_never_left_out_nor_who_is_not_known() -> None:
    membership = Cluster().membership
    assert membership.leave_out("id0", "no room") is None
    assert membership.leave_out("", "no room") is None
    assert not membership.away


@pytest.mark.parametrize(("given", "found"), [("pc1", "id1"), ("10.0.0.2", "id2"), (None, "id2")])
def test_a_drain_finds_the_pc_by_name_by_address_or_as_this_one(given: str | None, found: str) -> None:
    assert choose([node(0, is_head=True), node(1), node(2)], given, here="id2").id == found


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("pc0", "pc0 is the head, and the cluster ends with it"),
        ("pcl1", "pcl1: no PC of the cluster. Choices: pc0, pc1, twin, twin.*pc1"),
        ("twin", r"twin: 2 PCs have that name; give an address of 10\.0\.0\.4, 10\.0\.0\.5"),
    ],
)
def test_a_drain_refuses_the_head_and_who_is_not_one_pc(given: str, why: str) -> None:
    twins = [node(number, hostname="twin") for number in (4, 5)]
    with pytest.raises(UserError, match=why):
        choose([node(0, is_head=True), node(1), *twins], given, here="id1")

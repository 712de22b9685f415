"""Who of the PCs of a cluster trains."""

from __future__ import annotations

from sweeps.ray_cluster.membership import LOOK_EVERY_S, Membership
from sweeps.ray_cluster.nodes import PC
from tests.support.nodes import node


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


def test_a_pc_that_joins_gets_trials_where_it_can_train() -> None:
    cluster = Cluster()
    cluster.faults = {"id3": None, "id4": "its card is too small"}
    cluster.nodes += [node(3), node(4), node(5)]
    assert cluster.look() == [
        "pc4 (10.0.0.4) has joined, and gets no trials in this run: its card is too small",
        "pc5 (10.0.0.5) has joined",
    ]
    assert cluster.membership.away == {"id4"}
    assert cluster.membership.closed == {"id3", "id4"}, "one has not answered yet"
    cluster.leaving = {"id1": 17.0}
    assert cluster.look() == ["pc1 (10.0.0.1) is about to leave: its trials move to other PCs"]
    assert cluster.membership.away == {"id1", "id4"}
    cluster.faults["id3"], cluster.leaving = "", {}
    assert cluster.look() == ["pc1 (10.0.0.1) stays", "pc3 (10.0.0.3) has joined"]
    assert cluster.membership.away == {"id4"}


def test_a_pc_that_leaves_while_it_is_asked_is_asked_anew_when_it_is_back() -> None:
    cluster = Cluster()
    cluster.faults = {"id3": None}
    cluster.nodes.append(node(3))
    assert not cluster.look()
    assert cluster.membership.closed == {"id3"}
    del cluster.nodes[3]
    cluster.look()
    cluster.nodes.append(node(3, id="again"))
    cluster.faults["again"] = "its card is too small, too"
    assert cluster.look() == [
        "pc3 (10.0.0.3) has joined, and gets no trials in this run: its card is too small, too"
    ]
    assert cluster.membership.away == {"again"}


def test_a_pc_that_was_let_in_is_not_asked_again_when_it_starts_anew() -> None:
    cluster = Cluster()
    cluster.faults = {"new": "its card is too small"}
    cluster.nodes[2] = node(2, id="new")
    assert cluster.look() == ["pc2 (10.0.0.2) is lost", "pc2 (10.0.0.2) has joined"]
    assert not cluster.membership.away


def test_a_pc_that_joins_while_the_others_are_asked_is_checked_too() -> None:
    there = [node(0, is_head=True)]
    membership = Membership(there, lambda: [*there, node(1)], leaving=dict, check=lambda _: "too small")
    assert membership.away == {"id1"}
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

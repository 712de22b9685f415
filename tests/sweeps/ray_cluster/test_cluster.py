"""Who of the PCs of a cluster trains."""

from __future__ import annotations

from sweeps.ray_cluster.cluster import LOOK_EVERY_S, Cluster
from sweeps.ray_cluster.nodes import PC
from tests.support.nodes import node


class Answers:
    """A cluster whose Ray answers as it is told to, and a clock."""

    def __init__(self) -> None:
        self.nodes = [node(0, is_head=True), node(1), node(2)]
        self.leaving: dict[str, float] = {}
        self.now = 0.0
        self.faults: dict[str, str | None] = {}
        self.cluster = Cluster(
            self.nodes,
            lambda: self.nodes,
            None,
            lambda: self.leaving,
            lambda: self.now,
            lambda node, card_bytes: self.faults.get(node.id, ""),
        )

    def look(self) -> list[str]:
        self.now += LOOK_EVERY_S
        return self.cluster.news()


def test_a_pc_that_joins_leaves_or_is_gone_changes_what_there_is() -> None:
    ray = Answers()
    assert not ray.look()
    assert ray.cluster.pcs == [PC(2, 1)] * 3
    ray.nodes.append(node(3))
    assert not ray.cluster.news(), "it was just asked"
    assert ray.look() == ["pc3 (10.0.0.3) has joined"]
    assert len(ray.cluster.pcs) == 4
    ray.leaving = {"id1": 17.0, "id2": 17.0}
    assert ray.look() == [
        f"pc{number} (10.0.0.{number}) is about to leave: its trials move to other PCs" for number in (1, 2)
    ]
    assert (len(ray.cluster.pcs), len(ray.cluster.staying())) == (2, 4)
    del ray.nodes[1], ray.nodes[2]
    ray.leaving = {}
    assert ray.look() == [
        "pc1 (10.0.0.1) has left",
        "pc2 (10.0.0.2) stays",
        "pc3 (10.0.0.3) is lost",
    ]
    assert (len(ray.cluster.pcs), ray.cluster.away) == (2, frozenset())


def test_a_pc_that_is_left_out_stays_out_when_it_joins_again() -> None:
    ray = Answers()
    said = ray.cluster.leave_out("id2", "no room")
    assert said == "pc2 (10.0.0.2) gets no more trials in this run: no room"
    assert ray.cluster.away == {"id2"}
    ray.nodes[2] = node(2, id="new")
    assert ray.look() == [
        "pc2 (10.0.0.2) is lost",
        "pc2 (10.0.0.2) has joined, and gets no trials in this run: no room",
    ]
    assert ray.cluster.away == {"new"}
    assert ray.cluster.is_left_out("new")
    assert len(ray.cluster.staying()) == 2


def test_a_pc_that_joins_gets_trials_where_it_can_train() -> None:
    ray = Answers()
    ray.faults = {"id3": None, "id4": "its card is too small"}
    ray.nodes += [node(3), node(4), node(5)]
    assert ray.look() == [
        "pc4 (10.0.0.4) has joined, and gets no trials in this run: its card is too small",
        "pc5 (10.0.0.5) has joined",
    ]
    assert ray.cluster.away == {"id4"}
    assert ray.cluster.closed == {"id3", "id4"}, "one has not answered yet"
    ray.leaving = {"id1": 17.0}
    assert ray.look() == ["pc1 (10.0.0.1) is about to leave: its trials move to other PCs"]
    assert ray.cluster.away == {"id1", "id4"}
    ray.faults["id3"], ray.leaving = "", {}
    assert ray.look() == ["pc1 (10.0.0.1) stays", "pc3 (10.0.0.3) has joined"]
    assert ray.cluster.away == {"id4"}


def test_a_pc_that_leaves_while_it_is_asked_is_asked_anew_when_it_is_back() -> None:
    ray = Answers()
    ray.faults = {"id3": None}
    ray.nodes.append(node(3))
    assert not ray.look()
    assert ray.cluster.closed == {"id3"}
    del ray.nodes[3]
    ray.look()
    ray.nodes.append(node(3, id="again"))
    ray.faults["again"] = "its card is too small, too"
    assert ray.look() == [
        "pc3 (10.0.0.3) has joined, and gets no trials in this run: its card is too small, too"
    ]
    assert ray.cluster.away == {"again"}


def test_a_pc_that_was_let_in_is_not_asked_again_when_it_starts_anew() -> None:
    ray = Answers()
    ray.faults = {"new": "its card is too small"}
    ray.nodes[2] = node(2, id="new")
    assert ray.look() == ["pc2 (10.0.0.2) is lost", "pc2 (10.0.0.2) has joined"]
    assert not ray.cluster.away


def test_pcs_that_others_use_when_a_turn_comes_are_left_out_until_the_next_one() -> None:
    ray = Answers()
    used = ray.cluster.there[1]
    ray.cluster.leave_out_used({used: "GPU 0 is used by a game"}, 8e9)
    assert (ray.cluster.card_bytes, len(ray.cluster.pcs), len(ray.cluster.pcs_at_start)) == (8e9, 2, 2)
    assert ray.cluster.is_left_out(used.id)
    ray.cluster.take_back_used()
    assert len(ray.cluster.pcs) == 3
    ray.cluster.leave_out_used({}, 24e9)
    assert (ray.cluster.card_bytes, len(ray.cluster.pcs_at_start)) == (24e9, 3)


def test_a_pc_that_joins_while_the_others_are_asked_is_checked_too() -> None:
    there = [node(0, is_head=True)]
    cluster = Cluster(there, lambda: [*there, node(1)], leaving=dict, check=lambda *_: "too small")
    assert cluster.away == {"id1"}
    assert cluster.news() == ["pc1 (10.0.0.1) has joined, and gets no trials in this run: too small"]


def test_a_pc_that_ends_while_the_cluster_is_asked_has_left() -> None:
    ray = Answers()
    ray.leaving = {"id1": 17.0}
    assert len(ray.look()) == 1
    del ray.nodes[1]  # and still listed as one that leaves
    assert ray.look() == ["pc1 (10.0.0.1) has left"]


def test_the_head_is_never_left_out_nor_who_is_not_known() -> None:
    cluster = Answers().cluster
    assert cluster.leave_out("id0", "no room") == ""
    assert cluster.leave_out("", "no room") == ""
    assert not cluster.away

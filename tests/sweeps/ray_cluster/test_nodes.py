"""The PCs of a cluster as Ray lists them."""

from __future__ import annotations

import math

from sweeps.ray_cluster.nodes import PC
from tests.support.nodes import node


def test_what_a_pc_offers_to_trials_is_whole_and_in_gb() -> None:
    there = node(1, has={"CPU": 7.5, "GPU": 2.0, "memory": 16e9, "object_store_memory": 4e9})
    assert there.offer == PC(cpus=7, gpus=2, memory_gb=16.0)


def test_a_pc_that_names_no_resources_offers_none_and_all_memory() -> None:
    assert node(1, has={}).offer == PC(0, 0, math.inf)


def test_the_head_is_known_by_what_it_alone_has() -> None:
    assert [node(0, is_head=True).is_head, node(1).is_head] == [True, False]


def test_a_pc_is_the_same_whatever_it_has_at_the_moment() -> None:
    assert node(1) == node(1, has={})
    assert node(1) != node(2)
    assert node(1).name == "pc1 (10.0.0.1)"

"""Which PC a drain means."""

from __future__ import annotations

import pytest

from sweeps.common.errors import UserError
from sweeps.pcs.drain import choose
from tests.support.nodes import node


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

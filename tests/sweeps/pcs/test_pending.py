"""Why something waits: the constraint that blocks it, and the PC that comes nearest."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sweeps.pcs.pending import Offer, why

SMALL = Offer("small", {"CPU": 4, "GPU": 1}, {"CPU": 1, "GPU": 1})
LARGE = Offer("large", {"CPU": 8, "GPU": 2}, {"CPU": 2, "GPU": 1.5})
NO_GPU = Offer("cpus", {"CPU": 16, "memory": 8e9}, {})


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"CPU": 1, "GPU": 0.5}, ""),
        (
            {"CPU": 1, "GPU": 1},
            "1 CPU, 1 GPU: no PC has that free now; the best match is large with 0.5 of 2 GPU",
        ),
        ({"CPU": 1, "GPU": 4}, "1 CPU, 4 GPU: no PC has that; the best match is large with 2 GPU"),
        ({"CPU": 7, "GPU": 1}, "the best match is large with 6 of 8 CPU, 0.5 of 2 GPU"),
        ({"CPU": 32}, "32 CPU: no PC has that; the best match is cpus with 16 CPU"),
        (
            {"CPU": 1, "memory": 2e10},
            "1 CPU, 20 GB memory: no PC has that; the best match is cpus with 8 GB",
        ),
        (
            {"CPU": 1, "my_card": 1},
            "1 CPU, 1 my_card: no PC has that; the best match is small with 0 my_card",
        ),
    ],
)
def test_the_constraint_and_the_nearest(needs: Mapping[str, float], reason: str) -> None:
    assert (reason in why([needs], [SMALL, LARGE, NO_GPU])) if reason else why([needs], [LARGE, NO_GPU]) == ""


def test_one_that_has_enough_later_is_nearer_than_one_that_never_has() -> None:
    busy = Offer("busy", {"CPU": 8, "GPU": 1}, {"CPU": 8, "GPU": 1})
    idle = Offer("idle", {"CPU": 8}, {})
    assert "the best match is busy with 0 of 8 CPU, 0 of 1 GPU" in why([{"CPU": 4, "GPU": 1}], [idle, busy])


def test_bundles_must_have_a_place_all_at_a_time() -> None:
    one = {"CPU": 3}
    assert why([one], [SMALL]) == ""
    assert "the best match is small with 0 of 4 CPU" in why([one, one], [SMALL])
    assert why([one, one], [SMALL, LARGE]) == ""


def test_a_share_of_a_gpu_is_counted_as_ray_does() -> None:
    third = Offer("pc", {"GPU": 1}, {"GPU": 0.3333 * 2})
    assert why([{"GPU": 0.3333}], [third]) == ""


def test_nobody_is_there() -> None:
    assert why([{"CPU": 1}], []) == "a PC: the cluster has none"

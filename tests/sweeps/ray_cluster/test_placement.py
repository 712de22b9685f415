"""How many trials run at a time on which PCs."""

from __future__ import annotations

import pytest

from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.nodes import PC


def test_slots_are_what_the_pcs_hold_each_by_itself() -> None:
    config = cli.parse(["--cpus-per-trial", "2", "--gpus-per-trial", "0.5"])
    assert placement.slots(config, [PC(16, 2)]) == 4
    assert placement.slots(config, [PC(6, 2)]) == 3
    assert placement.slots(config, [PC(16, 2), PC(2, 1)]) == 5
    assert placement.slots(cli.parse(["--gpus-per-trial", "0.4"]), [PC(16, 2)]) == 4
    assert placement.slots(cli.parse(["--max-concurrent", "3"]), [PC(16, 0)]) == 3


def test_a_trial_that_fits_on_no_pc_is_refused() -> None:
    config = cli.parse(["--cpus-per-trial", "3"])
    with pytest.raises(UserError, match=r"3 CPUs and 0 GPUs .* no PC has that: 2 CPUs, 0 GPUs; 2 CPUs"):
        placement.slots(config, [PC(2, 0), PC(2, 0)])


def test_memory_of_a_gpu_is_asked_for_where_there_is_one() -> None:
    config = cli.parse(["--gpu-memory-gb-per-trial", "8"])
    assert placement.slots(config, [PC(4, 1)]) == 1
    with pytest.raises(UserError, match="--gpu-memory-gb-per-trial 8: no trial takes a GPU here"):
        placement.slots(config, [PC(4, 0)])


def test_the_memory_of_a_pc_bounds_its_trials() -> None:
    config = cli.parse(["--memory-gb-per-trial", "6"])
    assert placement.slots(config, [PC(8, 0, 20.0), PC(8, 0, 5.0), PC(1, 0, 64.0)]) == 4
    assert placement.trial_resources(config, 0).bundles == [{"CPU": 1, "memory": 6e9}]
    assert placement.task_resources(config, 0)["memory"] == 6_000_000_000
    named = r"6 GB \(--memory-gb-per-trial\); no PC has that: 8 CPUs, 0 GPUs, 5 GB"
    with pytest.raises(UserError, match=named):
        placement.slots(config, [PC(8, 0, 5.0)])


def test_trials_share_a_gpu() -> None:
    config = cli.parse(["--trials-per-gpu", "3"])
    assert placement.gpus_per_trial(config, [PC(16, 2)]) == pytest.approx(1 / 3)
    assert placement.slots(config, [PC(16, 2), PC(4, 1)]) == 9
    with pytest.raises(UserError, match="--trials-per-gpu 3: contradicts --gpus-per-trial 1; give"):
        cli.parse(["--trials-per-gpu", "3", "--gpus-per-trial", "1"])


def test_pcs_that_may_have_no_trial_are_named_to_ray() -> None:
    config = cli.parse([])
    assert placement.task_resources(config, 0, {"b2", "a1"})["label_selector"] == {
        "ray.io/node-id": "!in(a1,b2)"
    }


def test_a_gpu_is_taken_where_there_is_one() -> None:
    config = cli.parse([])
    assert placement.gpus_per_trial(config, [PC(16, 0)]) == 0
    assert placement.gpus_per_trial(config, [PC(4, 0), PC(16, 2)]) == 1
    assert placement.slots(config, [PC(16, 2)]) == 2


def test_the_resources_of_a_trial_are_one_bundle() -> None:
    config = cli.parse(["--cpus-per-trial", "2"])
    assert placement.trial_resources(config, 1).bundles == [{"CPU": 2, "GPU": 1}]
    assert placement.trial_resources(config, 0).bundles == [{"CPU": 2}]


def test_each_worker_of_a_trial_is_a_bundle_of_one_group() -> None:
    config = cli.parse(["--workers-per-trial", "3"])
    assert placement.trial_resources(config, 1).bundles == [{"CPU": 1, "GPU": 1}] * 3


def test_workers_of_a_trial_stand_wherever_there_is_room() -> None:
    config = cli.parse(["--workers-per-trial", "2"])
    assert placement.slots(config, [PC(1, 0)] * 4) == 2
    assert placement.slots(config, [PC(1, 0)] * 3) == 1, "half a trial is none"
    assert placement.slots(config, [PC(8, 1), PC(8, 2), PC(8, 0)]) == 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ((), r"--workers-per-trial 4: each takes 1 CPU and 0 GPUs .*; there is room for 3: 2 CPUs.*; 1 CPU"),
        (("--cpus-per-trial", "2"), "there is room for 1"),
        (("--gpus-per-trial", "0.5"), r"--gpus-per-trial 0.5: each of 4 workers .* one GPU of its own"),
    ],
)
def test_more_workers_than_there_is_room_for_are_refused(asked: tuple[str, ...], words: str) -> None:
    config = cli.parse(["--workers-per-trial", "4", *asked])
    with pytest.raises(UserError, match=words):
        placement.slots(config, [PC(2, 0), PC(1, 0)])

"""Cards of several PCs, as their driver would tell of them; and Ray keeps trials off the small ones.

No GPU was asked here: `nvidia-smi` is a program of the test's, which prints what NVIDIA's does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps.cluster import gpus as cluster_gpus
from sweeps.cluster.broadcast import Answer
from sweeps.cluster.gpus import Card
from sweeps.cluster.nodes import Node
from sweeps.common.errors import UserError
from sweeps.config import cli
from tests.support.cluster_of_pcs import PYTHON, RAY, give_token
from tests.support.lab import PC, Lab

SAYS = "NVIDIA GeForce RTX 3090, 570.86, 24576\nNVIDIA GeForce GTX 1070, 570.86, 8192\n"
LARGE = Card("NVIDIA GeForce RTX 3090", "570.86", 24576 * 2**20)
SMALL = Card("NVIDIA GeForce GTX 1070", "570.86", 8192 * 2**20)
ODD = Card("NVIDIA Odd", "580.65", None)
PCS = [Node(str(number), f"pc{number}", f"10.0.0.{number}", {"CPU": 8, "GPU": 1}) for number in range(3)]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is found as `nvidia-smi`."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "nvidia-smi"


def write(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_cards_are_read_as_the_driver_lists_them(driver: Path) -> None:
    write(driver, f"printf '{SAYS}'")
    assert cluster_gpus.of_this_pc() == [LARGE, SMALL]
    write(driver, "echo 'no devices were found'; exit 6")
    assert cluster_gpus.of_this_pc() == []
    write(driver, "echo 'NVIDIA Odd, 580.65, [N/A]'")
    assert cluster_gpus.of_this_pc() == [ODD]


@pytest.mark.parametrize(
    ("given", "gpus", "needed_gb"),
    [
        ("--gpu-memory-gb-per-trial 20", 1, 20),
        ("--gpu-memory-gb-per-trial 6 --trials-per-gpu 3", 1 / 3, 18),
        ("--gpu-memory-gb-per-trial 6 --gpus-per-trial 2", 2, 6),
        ("--gpu-memory-gb-per-trial 6 --gpus-per-trial 0.4", 0.4, 12),
        ("--trials-per-gpu 3", 1 / 3, 0),
        ("--gpu-memory-gb-per-trial 6", 0, 0),
    ],
)
def test_a_card_must_hold_all_trials_that_share_it(given: str, gpus: float, needed_gb: float) -> None:
    assert cluster_gpus.needed_bytes(cli.parse(given.split()), gpus) == pytest.approx(needed_gb * 1e9)


def said(*cards: Any) -> dict[Node, Answer]:
    """What the PCs answer, one after the other."""
    return {pc: Answer(each) for pc, each in zip(PCS, cards, strict=False)}


def test_a_pc_that_does_not_say_what_it_has_is_not_blamed_for_its_card() -> None:
    answers = {**said([LARGE]), PCS[1]: Answer(fault="no answer within 60 s")}
    why = "it does not say which GPUs it has: no answer within 60 s"
    assert cluster_gpus.too_small(8e9, answers) == {PCS[1]: why}
    assert cluster_gpus.smallest_bytes(answers, []) == LARGE.memory_bytes


def test_a_pc_is_as_good_as_its_smallest_card() -> None:
    found = cluster_gpus.too_small(20e9, said([LARGE], [LARGE, SMALL], [ODD]))
    assert found == {
        PCS[1]: "its NVIDIA GeForce GTX 1070 of 8.59 GB, and 20 GB are needed",
        PCS[2]: "no GPU whose memory is known (nvidia-smi lists none)",
    }
    assert cluster_gpus.too_small(8e9, said([LARGE], [LARGE, SMALL])) == {}
    assert cluster_gpus.too_small(0, said([])) == {}


def test_where_no_pc_is_left_each_is_named_with_what_it_has() -> None:
    with pytest.raises(UserError) as told:
        cluster_gpus.too_small(30e9, said([LARGE], [SMALL]))
    assert str(told.value) == (
        "--gpu-memory-gb-per-trial: no PC has a GPU of 30 GB:\n"
        "  pc0 (10.0.0.0): its NVIDIA GeForce RTX 3090 of 25.8 GB, and 30 GB are needed\n"
        "  pc1 (10.0.0.1): its NVIDIA GeForce GTX 1070 of 8.59 GB, and 30 GB are needed"
    )


PLACES = """
import ray, time
from sweeps.cluster import placement
from sweeps.config import cli
from sweeps.cluster.session import connect
from ray.util import placement_group_table
config = cli.parse("--address auto --gpu-memory-gb-per-trial 20 --trials-per-gpu 2".split())
with connect(config) as offered:
    print(offered.describe())
    away = {node.id for node in offered.too_small}
    factory = placement.of_trial(config, 0.5, lambda: away)
    groups = [factory.to_placement_group() for _ in range(placement.slots(config, offered.pcs) + 1)]
    ready, waiting = ray.wait([group.ready() for group in groups], num_returns=len(groups), timeout=15)
    stand = [node for group in groups for node in placement_group_table(group)["bundles_to_node_id"].values()]
    wrong = sum(node in away for node in stand)
    print("ready", len(ready), "waiting", len(waiting), "away", wrong, flush=True)
    while not (news := offered.membership.news()):
        time.sleep(0.2)
    print(*news, offered.membership.pcs)
"""


@pytest.mark.slow
def test_ray_places_no_trial_on_a_pc_whose_card_is_too_small(
    lab_of: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Resources called GPU, without a card behind them: it is about where Ray places, not what runs there."""
    head, worker, late = lab_of(3).pcs
    for pc, memory in ((head, 49140), (worker, 8192), (late, 6144)):
        write(pc.path("/tmp/nvidia-smi"), f"echo 'NVIDIA Card, 570.86, {memory}'")
    path = {"PATH": f"/tmp:{os.environ['PATH']}"}
    gpus = ("--num-cpus=4", "--num-gpus=1", "--object-store-memory=100000000", "--disable-usage-stats")

    def start(pc: PC, how: str) -> None:
        give_token(pc)
        pc.run(RAY, "start", how, *gpus, env={"RAY_AUTH_MODE": "token", **path}, timeout_s=120)

    start(head, "--head")
    start(worker, joins := f"--address={head.address}:6379")
    driver = head.start(PYTHON, "-c", PLACES, env={"RAY_AUTH_MODE": "token"})
    assert driver.stdout is not None
    said = ""
    while "ready " not in said and (line := driver.stdout.readline()):
        said += line
    assert "left out   pc1 (10.77.0.11): its NVIDIA Card of 8.59 GB, and 40 GB are needed" in said
    assert "ready 2 waiting 1 away 0" in said, said
    start(late, joins)
    said, _ = driver.communicate(timeout=120)
    why = "its NVIDIA Card of 6.44 GB, and 40 GB are needed"
    assert f"pc2 (10.77.0.12) has joined, and gets no trials in this run: {why} [PC(cpus=4, gpus=1," in said
    assert said.count("PC(cpus") == 1

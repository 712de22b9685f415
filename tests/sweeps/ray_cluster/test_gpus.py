"""GPUs of several PCs, as NVIDIA's driver lists them; and Ray places no trial on a PC whose GPU is too small.

There is no GPU here: NVIDIA's library is `tests/faulty/nvml/pynvml.py`, which lists those of a file.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.ray_cluster import gpus as cluster_gpus
from sweeps.ray_cluster.gpus import Card
from sweeps.ray_cluster.nodes import Answer, Node
from tests.conftest import ROOT
from tests.support.cluster_of_pcs import PYTHON, RAY, give_token
from tests.support.lab import PC, Lab

SAYS = "NVIDIA GeForce RTX 3090, 570.86, 24576\nNVIDIA GeForce GTX 1070, 570.86, 8192\n"
LARGE = Card("NVIDIA GeForce RTX 3090", "570.86", 24576 * 2**20, uuid="GPU-0")
SMALL = Card("NVIDIA GeForce GTX 1070", "570.86", 8192 * 2**20, index=1, uuid="GPU-1")
ODD = Card("NVIDIA Odd", "580.65", None, uuid="GPU-0")
PCS = [Node(str(number), f"pc{number}", f"10.0.0.{number}", {"CPU": 8, "GPU": 1}) for number in range(3)]


FAKE = ROOT / "tests" / "faulty" / "nvml"


def fake_nvml() -> Any:
    """The library that lists the GPUs of the file $GPUS."""
    spec = importlib.util.spec_from_file_location("fake_pynvml", FAKE / "pynvml.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    return module


def test_gpus_are_read_as_the_driver_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml, listed = fake_nvml(), tmp_path / "gpus"
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("GPUS", str(listed))
    assert cluster_gpus.list_gpus() == [], "no driver"
    listed.write_text(SAYS)
    assert cluster_gpus.list_gpus() == [
        replace(card, load_percent=nvml.LOAD_PERCENT) for card in (LARGE, SMALL)
    ]
    listed.write_text("")
    assert cluster_gpus.list_gpus() == [], "the driver fails"
    listed.write_text("NVIDIA Odd, 580.65, [N/A]\n")
    assert cluster_gpus.list_gpus() == [replace(ODD, load_percent=nvml.LOAD_PERCENT)]


THREE = (
    "GT 1030, 580.65, 2048, 300, 384, GPU-aa1\n"  # by their place in the PC; CUDA counts from the fastest
    "RTX 3090, 580.65, 24576, 1800, 10496, GPU-bb2\n"
    "RTX 2080 Ti, 580.65, 11264, 0, 4352, GPU-cc3\n"
)
SLICED = (
    "A30, 580.65, 24576, 0, 3584, GPU-d4\n"
    "MIG 1g.6gb, 580.65, 6144, 0, 896, MIG-e5\n"
    "MIG 2g.12gb, 580.65, 12288, 0, 1792, MIG-f6\n"
)


@pytest.mark.parametrize(
    ("gpus", "variables", "names"),
    [
        (THREE, {}, ["RTX 3090", "RTX 2080 Ti", "GT 1030"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": "0"}, ["RTX 3090"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": "0, 2"}, ["RTX 3090", "GT 1030"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ["GT 1030"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": "GPU-cc,GPU-bb2"}, ["RTX 2080 Ti", "RTX 3090"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": "1,-1,0"}, ["RTX 2080 Ti"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": "1,7,0"}, ["RTX 2080 Ti"]),
        (THREE, {"CUDA_VISIBLE_DEVICES": ""}, []),
        (SLICED, {}, ["MIG 1g.6gb"]),
        (SLICED, {"CUDA_VISIBLE_DEVICES": "MIG-f6"}, ["MIG 2g.12gb"]),
        (SLICED, {"CUDA_VISIBLE_DEVICES": "MIG-none"}, []),
        ("hidden, 580.65, 8192\nRTX 3090, 580.65, 24576\n", {}, ["RTX 3090"]),
    ],
)
def test_only_gpus_that_cuda_shows_count(
    gpus: str, variables: dict[str, str], names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpus").write_text(gpus)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"GPUS": str(tmp_path / "gpus"), **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    assert [card.name for card in cluster_gpus.list_gpus()] == names


def test_in_a_task_they_are_those_that_ray_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray empties the variable of a task that takes no GPU."""
    (tmp_path / "gpus").write_text(THREE)
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "CUDA_VISIBLE_DEVICES": "1"}) as raylet:
        monkeypatch.setenv("RAY_RAYLET_PID", str(raylet.pid))
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
        assert [card.name for card in cluster_gpus.list_gpus()] == ["RTX 2080 Ti"]
        raylet.kill()


def test_memory_that_others_take_is_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpus").write_text(THREE)
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    fast, middle, slow = cluster_gpus.list_gpus()
    assert cluster_gpus.least_free_bytes(said([fast]), []) == (24576 - 1800) * 2**20
    assert cluster_gpus.least_free_bytes(said([fast, middle], [slow]), [PCS[1]]) == 11264 * 2**20


HIDES = """
from sweeps.ray_start import ray_environment
ray_environment.set_environment()
import os, psutil, ray

@ray.remote
def visible():
    raylet = psutil.Process(int(os.environ["RAY_RAYLET_PID"]))
    return raylet.environ()["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_VISIBLE_DEVICES"]

ray.init(num_cpus=1, num_gpus=2, include_dashboard=False, log_to_driver=False)
print(ray.get([visible.options(num_gpus=gpus).remote() for gpus in (0, 1)]))
"""


@pytest.mark.slow
def test_who_takes_no_gpu_sees_none() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "4,5"}
    done = subprocess.run([PYTHON, "-c", HIDES], env=environment, capture_output=True, text=True, timeout=120)
    none, one = ast.literal_eval(done.stdout.splitlines()[-1])
    assert none == ("4,5", ""), done.stderr
    assert one in (("4,5", "4"), ("4,5", "5"))


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this PC may have a GPU")
def test_a_pc_without_nvidias_driver_has_no_gpus() -> None:
    assert cluster_gpus.list_gpus() == []


@pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="this PC has no driver of NVIDIA")
def test_they_are_those_that_nvidia_smi_lists() -> None:
    asked = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [f"{card.name}, {card.driver}" for card in cluster_gpus.list_gpus()] == listed


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
    why = "its GPUs are not known: no answer within 60 s"
    assert cluster_gpus.too_small(8e9, answers) == {PCS[1]: why}
    assert cluster_gpus.least_free_bytes(answers, []) == LARGE.memory_bytes


def test_a_pc_is_as_good_as_its_smallest_card() -> None:
    found = cluster_gpus.too_small(20e9, said([LARGE], [LARGE, SMALL], [ODD]))
    assert found == {
        PCS[1]: "its NVIDIA GeForce GTX 1070 of 8.59 GB is too small: 20 GB needed",
        PCS[2]: "NVIDIA's driver lists no GPU whose memory is known",
    }
    assert cluster_gpus.too_small(8e9, said([LARGE], [LARGE, SMALL])) == {}
    assert cluster_gpus.too_small(0, {}) == {}


def test_where_no_pc_is_left_each_is_named_with_what_it_has() -> None:
    with pytest.raises(UserError) as told:
        cluster_gpus.too_small(30e9, said([LARGE], [SMALL]))
    assert str(told.value) == (
        "--gpu-memory-gb-per-trial: no PC has a GPU of 30 GB:\n"
        "  pc0 (10.0.0.0): its NVIDIA GeForce RTX 3090 of 25.8 GB is too small: 30 GB needed\n"
        "  pc1 (10.0.0.1): its NVIDIA GeForce GTX 1070 of 8.59 GB is too small: 30 GB needed"
    )


PLACES = """
import ray, time
from pathlib import Path
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.session import connect
from sweeps.config import cli
from ray.util import placement_group_table
config = cli.parse("--address auto --gpu-memory-gb-per-trial 20 --trials-per-gpu 2".split())
with connect(config, Path("s"), (), None) as offered:
    away = offered.away
    factory = placement.trial_resources(config, 0.5, lambda: away)
    groups = [factory.to_placement_group() for _ in range(placement.slots(config, offered.pcs) + 1)]
    ready, waiting = ray.wait([group.ready() for group in groups], num_returns=len(groups), timeout=15)
    stand = [node for group in groups for node in placement_group_table(group)["bundles_to_node_id"].values()]
    wrong = sum(node in away for node in stand)
    print("ready", len(ready), "waiting", len(waiting), "away", wrong, flush=True)
    while not (news := offered.news()):
        time.sleep(0.2)
    print(*news, offered.pcs)
"""


@pytest.mark.long
def test_ray_places_no_trial_on_a_pc_whose_card_is_too_small(
    lab_of: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Resources called GPU, without a card behind them: it is about where Ray places, not what runs there."""
    head, worker, late = lab_of(3).pcs
    for pc, memory in ((head, 49140), (worker, 8192), (late, 6144)):
        pc.path("/tmp/gpus").write_text(f"NVIDIA Card, 570.86, {memory}\n")
    gpu = {"GPUS": "/tmp/gpus", "PYTHONPATH": str(FAKE)}
    gives = ("--num-cpus=4", "--num-gpus=1", "--object-store-memory=100000000", "--disable-usage-stats")

    def start(pc: PC, how: str) -> None:
        give_token(pc)
        pc.run(RAY, "start", how, *gives, env={"RAY_AUTH_MODE": "token", **gpu}, timeout_s=120)

    start(head, "--head")
    start(worker, joins := f"--address={head.address}:6379")
    driver = head.start(PYTHON, "-c", PLACES, env={"RAY_AUTH_MODE": "token"})
    assert driver.stdout is not None
    said = ""
    while "ready " not in said and (line := driver.stdout.readline()):
        said += line
    assert "left out   pc1 (10.77.0.11): its NVIDIA Card of 8.59 GB is too small: 40 GB needed" in said
    assert "ready 2 waiting 1 away 0" in said, said
    start(late, joins)
    said, _ = driver.communicate(timeout=120)
    why = "its NVIDIA Card of 6.44 GB is too small: 40 GB needed"
    assert f"pc2 (10.77.0.12) has joined, and gets no trials in this run: {why} [PC(cpus=4, gpus=1," in said
    assert said.count("PC(cpus") == 1


def test_what_ones_own_sweeps_hold_of_a_gpu_is_there_for_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpus").write_text("RTX 3090, 580.65, 24576, 1000\n")
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setenv("GPUS", str(tmp_path / "gpus"))
    monkeypatch.setenv("GPU_PROCESSES", str(tmp_path / "processes"))
    with subprocess.Popen(["sleep", "60"]) as trial, subprocess.Popen(["sleep", "60"]) as other:
        (tmp_path / "processes").write_text(f"0, C, {trial.pid}, 6000\n0, C, {other.pid}, 2000\n")
        assert [each.used_bytes for each in cluster_gpus.gpus_for_trials()] == [9000 * 2**20]
        assert [each.used_bytes for each in cluster_gpus.gpus_for_trials({trial.pid})] == [3000 * 2**20]
        for each in (trial, other):
            each.kill()

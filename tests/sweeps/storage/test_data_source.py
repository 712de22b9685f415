"""Prepared data on the PCs of a cluster: pulled over real cables, which are cut, onto disks of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.support.clips import Clips
from tests.support.cluster_of_pcs import PYTHON, RAY, give_token, nodes, start_head
from tests.support.lab import HOME, PC, Lab, wait_until

CACHE = f"{HOME}/.cache/sweeps"
PIXELS = 500_000
ROWS = 120
VAL_ROWS = 8
DATA_MB = PIXELS * (ROWS + VAL_ROWS) / 10**6
"""Of two files, one of each split."""
pytestmark = pytest.mark.long


class Cluster:
    """A head, where sweeps are started, and workers; a project and its raw files in a folder that all see."""

    def __init__(self, pcs: list[PC], shared: Path) -> None:
        self.head, *self.workers = pcs
        self.shared = shared
        self.clips = Clips(shared)
        self.clips.add("a", ROWS)
        self.clips.add("v", VAL_ROWS, split="val")
        self.clips.code("space.py", "from ray import tune\n\nSPACE = {'lr': tune.loguniform(1e-9, 1e-8)}\n")
        self.address = start_head(self.head)
        for worker in self.workers:
            give_token(worker)
            self.join(worker)

    def join(self, worker: PC) -> None:
        small = ("--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats")
        worker.run(RAY, "start", f"--address={self.address}", *small, env={"RAY_AUTH_MODE": "token"})

    def begin(self, name: str, *more: str) -> subprocess.Popen[str]:
        project = ("--trainable", self.clips.model, "--search-space", f"{self.clips.package}.space")
        where = ("--address", "auto", "--name", name, "--results-dir", str(self.shared / "results"))
        plain = ("--scheduler", "none", "--searcher", "random", "--no-baseline")
        short = ("--max-epochs", "1", "--grace-epochs", "1", *plain)
        small = (*short, "--params", f"pixels={PIXELS}", "--gpus-per-trial", "0", "--min-free-gb", "0")
        env = {"PYTHONPATH": f"{self.shared}:{ROOT}", "SWEEPS_DATA_DIR": str(self.clips.raw)}
        return self.head.start(PYTHON, "-m", "sweeps.run", *project, *where, *small, *more, env=env)

    def sweep(self, name: str, *more: str, status: int = 0) -> str:
        begun = self.begin(name, *more)
        said, _ = begun.communicate(timeout=300)
        assert begun.returncode == status, said
        assert "Traceback" not in said, said
        return said

    def record(self, name: str) -> Record:
        return Record.read(self.shared / "results" / name)


@pytest.fixture(scope="module")
def cluster(lab_of: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    shared = tmp_path_factory.mktemp("shared")
    return Cluster(lab_of(3, shared=[shared]).pcs, shared)


@pytest.fixture
def slow_cable(cluster: Cluster) -> Iterator[None]:
    """The head sends at most 5 MB/s."""
    tc = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf"]
    tc += ["rate", "40mbit", "burst", "64kb", "latency", "1s"]
    if (done := cluster.head.run(*tc, check=False)).returncode:
        pytest.skip(f"no cable can be made slow here: {done.stdout.strip()}")
    yield
    cluster.head.run("tc", "qdisc", "del", "dev", "eth0", "root")


def copy_on(pc: PC) -> Path:
    """The folder of the data there."""
    (folder,) = pc.path(f"{CACHE}/prepared").glob("model-[0-9a-f]*")
    return folder


def copied(said: str) -> dict[str, float]:
    """PC to megabytes that were copied to it before the sweep."""
    found = re.findall(r"^data +([\d.]+) MB copied to (pc\d) \(.* in .*/s$", said, flags=re.M)
    return {pc: float(megabytes) for megabytes, pc in found}


def test_a_pc_whose_disk_is_full_is_named_before_anything_is_copied(cluster: Cluster) -> None:
    _, full = cluster.workers
    full.run("sh", "-c", f"mkdir -p {CACHE} && mount -t tmpfs -o size=3m tmpfs {CACHE}")
    said = cluster.sweep("full", "--num-trials", "3", status=2)
    full.run("umount", CACHE)
    assert "1 PC of 3 can't have the data:\n  pc2 (10.77.0.12): the disk of " in said
    assert re.search(r"/.cache/sweeps/prepared has no room: 6\d(\.\d)? MB needed, 3.\d+ MB free\n", said)
    assert not cluster.workers[0].path(f"{CACHE}/prepared").exists()


def test_all_pull_a_cable_is_cut_and_the_pc_copies_later(cluster: Cluster, slow_cable: None) -> None:
    cut, other = cluster.workers
    process = cluster.begin("cut", "--num-trials", "400")

    def begun() -> Path | None:
        return next(cut.path(f"{CACHE}/prepared").glob("model-*/.train-*.part"), None)

    def is_third_there() -> bool:
        return (found := begun()) is not None and found.stat().st_size > DATA_MB * 10**6 / 3

    wait_until(is_third_there, "a third of the data", timeout_s=120)
    cut.unplug()
    wait_until(lambda: nodes(cluster.head) == [cluster.head.address, other.address], "the loss of a PC")
    cut.run(RAY, "stop", "--force", check=False)
    cut.plug_in()
    journal = cluster.shared / "results" / "cut" / JOURNAL
    wait_until(journal.is_file, "the sweep to begin without it", timeout_s=120)
    cluster.join(cut)

    def notices() -> list[str]:
        return [notice for trial in cluster.record("cut").trials for notice in trial.notices]

    wait_until(lambda: bool(notices()), "a trial on the PC that is back", timeout_s=120)
    cluster.head.signal(process, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert "Traceback" not in said, said
    assert "data       pc1 (10.77.0.11) has left meanwhile\n" in said
    assert set(copied(said)) == {"pc2"}, said
    assert copied(said)["pc2"] == pytest.approx(DATA_MB, rel=0.02)
    (notice,) = notices()
    told = re.fullmatch(r"([\d.]+) MB of prepared data copied to pc1 first, in .* s", notice)
    assert told is not None, notice
    assert float(told[1]) == pytest.approx(DATA_MB, rel=0.02), "one file: it is begun again"
    assert any(trial.place.get("pc") == "pc1" for trial in cluster.record("cut").trials)


def test_a_flipped_byte_is_found_and_its_file_alone_is_fetched(cluster: Cluster) -> None:
    shard = copy_on(cluster.workers[1]) / "val-00000.parquet"
    content = bytearray(shard.read_bytes())
    whole = bytes(content)
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    said = cluster.sweep("flipped", "--num-trials", "3")
    assert copied(said) == {"pc2": pytest.approx(len(whole) / 10**6, rel=0.01)}
    assert shard.read_bytes() == whole


def test_what_is_whole_everywhere_is_not_copied_again(cluster: Cluster) -> None:
    said = cluster.sweep("again", "--num-trials", "3")
    assert "Looking for the prepared data on 3 PCs ...\n" in said
    assert copied(said) == {}
    assert {trial.status for trial in cluster.record("again").trials} == {"finished"}


CUT_OFF = """
import ray
from sweeps.common.errors import PCUnfit
from sweeps.ray_cluster import nodes
from sweeps.storage.data_source import PreparedData
from sweeps.storage.data_source import File
files = (File("train-0.parquet", 5, 5, "0"), File("manifest.json", 5, 5, "0"))
ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
for node in ("0" * 56, nodes.here()):
    try:
        PreparedData("/nowhere/mine", files, "pc7", is_copied=True, node=node).bring()
    except PCUnfit as error:
        print("said", error)
"""


def test_a_pc_that_does_not_hand_out_its_data_is_blamed_and_not_the_disk_of_this_one(tmp_path: Path) -> None:
    environment = {**os.environ, "SWEEPS_PREPARED_DIR": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(
        [PYTHON, "-c", CUT_OFF], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("said")]
    assert len(said) == 2, done.stderr
    assert all(line.startswith("said pc7, which has the prepared data, does not answer: ") for line in said)
    assert said[1].endswith("No such file or directory: '/nowhere/mine/train-0.parquet'")


def test_data_that_is_said_to_be_shared_and_is_not_is_refused(cluster: Cluster) -> None:
    for worker in cluster.workers:
        copy_on(worker).rename(copy_on(worker).with_name("gone"))
    said = cluster.sweep("shared", "--data", "shared", "--num-trials", "3", status=2)
    assert "2 PCs of 3 can't have the data:\n  pc1 (10.77.0.11): " in said
    assert "is not the same as on pc0: share it, or give --data copy" in said

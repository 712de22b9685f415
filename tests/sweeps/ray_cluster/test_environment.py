"""environment.txt: what each PC runs trials with, and a warning where PCs differ."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from sweeps.common.errors import CannotContinue
from sweeps.ray_cluster import environment
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.environment import (
    MAX_SKEW_S,
    PACKAGES,
    clock_fault,
    clock_skew_s,
    differences,
    versions,
)
from tests.conftest import TOY
from tests.support.cluster_of_pcs import PYTHON, RAY, TOKEN, give_token, nodes, start_head
from tests.support.lab import ROOT, Lab, wait_until
from tests.sweeps.ray_cluster.test_gpus import FAKE, LARGE, SAYS, SMALL

ALIKE = {"python": "3.11.7", "torch": "2.13.0", "hardware": "8 CPUs, 31.2 GiB"}


def test_pcs_that_are_alike_need_no_word() -> None:
    assert differences({}) == []
    assert differences({"pc1": ALIKE, "pc2": ALIKE}) == []
    assert differences({"pc1": ALIKE, "pc2": {**ALIKE, "hardware": "64 CPUs, 128 GiB"}}) == []


def test_what_differs_is_named_with_who_has_it() -> None:
    old, other = {**ALIKE, "torch": "2.12.1"}, {**ALIKE, "torch": "2.11.0", "python": "3.11.2"}
    assert differences({"pc1": ALIKE, "pc2": ALIKE, "pc3": old}) == ["torch 2.13.0 (2 PCs), 2.12.1 (pc3)"]
    assert differences({"pc1": old, "pc2": ALIKE}) == ["torch 2.12.1 (pc1), 2.13.0 (pc2)"]
    assert differences({"pc1": ALIKE, "pc2": old, "pc3": ALIKE, "pc4": old, "pc5": other}) == [
        "python 3.11.7 (4 PCs), 3.11.2 (pc5)",
        "torch 2.13.0 (2 PCs), 2.12.1 (pc2, pc4), 2.11.0 (pc5)",
    ]


def test_a_pc_without_a_gpu_has_no_driver_to_differ_by() -> None:
    new, old = {**ALIKE, "gpu driver": "570.86"}, {**ALIKE, "gpu driver": "535.54"}
    assert differences({"pc1": ALIKE, "pc2": new}) == []
    assert differences({"pc1": ALIKE, "pc2": new, "pc3": old}) == ["gpu driver 570.86 (pc2), 535.54 (pc3)"]


def test_a_pc_with_another_release_of_this_program_is_named_where_it_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "__file__", "/home/me/a/sweeps/ray_cluster/environment.py")
    assert "sweeps" not in environment.facts_of_this_pc()  # a checkout, which is sent
    installed = "/env/lib/python3.12/site-packages/sweeps/ray_cluster/environment.py"
    monkeypatch.setattr(environment, "__file__", installed)
    found = {}
    for pc, release in {"pc1": "1.0", "pc2": "1.1"}.items():
        monkeypatch.setattr(
            environment, "release_of", lambda package, own=release: own if package == "raysweeps" else "2"
        )
        found[pc] = environment.facts_of_this_pc()
    assert differences(found) == ["sweeps 1.0 (pc1), 1.1 (pc2)"]


def test_a_pc_that_is_silent_is_named() -> None:
    assert differences({"pc1": ALIKE, "pc2": None}) == ["pc2 did not answer"]


def test_a_name_that_is_no_utf_8_is_noted_and_a_folder_that_is_gone_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", "--results-dir", os.fsdecode(b"caf\xe9")])
    environment.note(tmp_path, Cluster([]))
    assert "caf\\udce9" in (tmp_path / "environment.txt").read_text()
    with pytest.raises(CannotContinue, match="can't be written: No such file or directory"):
        environment.note(tmp_path / "gone", Cluster([]))


def test_this_pc_says_what_it_has() -> None:
    has = environment.facts_of_this_pc()
    assert versions().items() <= has.items()
    assert re.match(r"\d+ CPUs?, \d+\.\d GiB", has["hardware"])


@pytest.mark.slow
def test_the_gpus_and_their_driver_are_those_that_it_lists(tmp_path: Path) -> None:
    (tmp_path / "gpus").write_text(SAYS)
    code = """
from sweeps.ray_cluster import environment
from sweeps.ray_cluster.cluster import Cluster
has = environment.facts_of_this_pc()
print(has["gpu driver"], has["hardware"], environment.describe(Cluster([])), sep="\\n")
"""
    settings = {**os.environ, "PYTHONPATH": str(FAKE), "GPUS": str(tmp_path / "gpus")}
    said = subprocess.run([PYTHON, "-c", code], cwd=ROOT, env=settings, capture_output=True, text=True)
    driver, hardware, described = said.stdout.split("\n", 2)
    assert driver == "570.86"
    assert hardware.endswith(f", {SMALL.name}, {LARGE.name}")
    assert f"gpu        {LARGE.words}, driver 570.86\n" in described


@pytest.mark.long
def test_a_pc_of_a_cluster_with_another_package_is_named_before_the_start(
    lab_of: Callable[..., Lab], tmp_path: Path
) -> None:
    """And one whose clock is wrong."""
    head, odd = lab_of(2, shared=[tmp_path]).pcs
    metadata = importlib.metadata.files("greenlet") or []
    file = next(str(one.locate()) for one in metadata if one.name == "METADATA")
    other = tmp_path / "METADATA"
    other.write_text(re.sub(r"(?m)^Version: .*$", "Version: 2.9.9", Path(file).read_text(), count=1))
    odd.run("mount", "--bind", str(other), file)
    env = {"TOY_ATTEMPTS": str(tmp_path)}
    address = start_head(head, **env)
    give_token(odd)
    token = {"RAY_AUTH_MODE": "token"}
    small = ("--num-cpus=1", "--object-store-memory=100000000", "--disable-usage-stats")
    clock = {"PYTHONPATH": str(ROOT / "tests" / "faulty" / "clock")}
    odd.run(RAY, "start", f"--address={address}", *small, env={**token, **env, **clock})
    wait_until(lambda: len(nodes(head)) == 2, "both PCs", 120)
    flags = (
        *TOY,
        "--num-trials",
        "1",
    )
    where = ("--address", address, "--results-dir", str(tmp_path), "--name", "mixed", "--max-epochs", "3")
    done = head.run(PYTHON, "-m", "sweeps.run", *flags, *where, check=False, timeout_s=400, env=env)
    assert done.returncode == 0, done.stdout
    ours = importlib.metadata.version("greenlet")
    said = f"greenlet {ours} (pc0 ({head.address})), 2.9.9 (pc1 ({odd.address}))"
    assert done.stdout.count("warning    PCs differ") == 1
    wrong = rf"warning    the clock of pc1 \({odd.address}\) is 1 min \d+ s ahead of this PC: timedatectl"
    assert re.search(wrong, done.stdout)
    assert said in done.stdout.partition("trials 0/")[0]
    text = (tmp_path / "mixed" / "environment.txt").read_text()
    lines = [line for line in text.splitlines() if line.startswith("pc         ")]
    assert [line.split()[1] for line in lines] == ["pc0", "pc1"]
    assert all(f"greenlet {one}" in line for one, line in zip((ours, "2.9.9"), lines, strict=True))
    assert TOKEN not in text


def test_python_comes_first_and_then_each_package_with_its_own_version() -> None:
    found = versions()
    assert list(found) == ["python", *PACKAGES]
    assert (found["python"], found["ray"]) == (platform.python_version(), version("ray"))


def test_a_package_of_a_searcher_that_is_missing_is_said_to_be() -> None:
    found = versions(["no-such-package", "pytest"])
    assert (found["no-such-package"], found["pytest"]) == ("not installed", version("pytest"))


@pytest.mark.parametrize(
    ("clock", "seconds"), [(100.0, 0.0), (102.0, 0.0), (104.0, 0.0), (109.0, 5.0), (70.0, -30.0)]
)
def test_a_clock_is_off_by_what_the_time_of_the_question_does_not_explain(
    clock: float, seconds: float
) -> None:
    assert clock_skew_s(clock, (100.0, 104.0)) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (MAX_SKEW_S, ""),
        (-MAX_SKEW_S, ""),
        (90.0, "1 min 30 s ahead of this PC"),
        (-3.0, "3 s behind this PC"),
    ],
)
def test_one_that_is_off_too_far_is_said_in_words(seconds: float, words: str) -> None:
    assert clock_fault(seconds) == words

"""`deploy/slurm/sweep.sbatch`: what it refuses; jobs of a real Slurm share nodes, return, end."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.support import slurm_of_pcs
from tests.support.killing import check_whole
from tests.support.lab import Lab, wait_until
from tests.support.slurm_of_pcs import Slurm

SCRIPT = ROOT / "deploy" / "slurm" / "sweep.sbatch"
TOY = ("--no-baseline", "--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes")
LONG_S = 400.0
"""For what takes a minute on a PC that does nothing else."""
SHORT = (*TOY, "--max-epochs", "9", "--checkpoint-epochs", "1")


def run(*flags: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script by itself, without Slurm."""
    return subprocess.run(
        ["bash", str(SCRIPT), *flags],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_it_says_in_one_line_what_it_lacks(tmp_path: Path) -> None:
    done = run(*TOY)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "error: this script is a Slurm job: sbatch deploy/slurm/sweep.sbatch [flags of sweeps run]\n"
    )
    done = run(*TOY, folder=tmp_path, SLURM_JOB_ID="7")
    assert (done.returncode, done.stdout) == (2, "")
    no_packages = f"error: {tmp_path} has no .venv/bin/python: type make there, then sbatch there\n"
    assert done.stderr == no_packages


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--address=pc1:6379",), "--address: the job starts its own Ray"),
        (("--submit",), "--submit: the job starts its own Ray"),
        (("--num-trails", "4"), "Did you mean '--num-trials'?"),
        (("--resume", "results/nowhere"), "results/nowhere"),
    ],
)
def test_a_mistake_in_the_flags_ends_it_before_ray_starts(flags: tuple[str, ...], error: str) -> None:
    done = run(*flags, SLURM_JOB_ID="7", SLURM_JOB_NAME="sweep")
    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert "Traceback" not in done.stderr


PYTHON = """#!/bin/bash
case "$*" in
  *--print-config) ;;
  "-m sweeps.run "*) echo "typed ${*:3}" ;;
  "-m ray.scripts.scripts "*)
    for word in "$@"; do case $word in --temp-dir=*) folder=${word#*=} ;; esac; done
    mkdir -p "$folder"
    echo 127.0.0.1:6379 > "$folder/ray_current_cluster"
    exec sleep 60 ;;
  *) echo 1 ;;
esac
"""
"""In place of Python: Ray is there at once, and a sweep prints its flags."""


@pytest.mark.parametrize(
    ("restarts", "flags", "typed"),
    [
        ("0", "--retry 7 12 --force", "--retry 7 12 --force"),
        ("1", "--retry 7 12 --force", "--force"),
        ("1", "--num-trials 48 --retry=failed", "--num-trials 48"),
    ],
)
def test_a_job_that_comes_back_asks_for_no_retry_again(
    restarts: str, flags: str, typed: str, tmp_path: Path
) -> None:
    """By its number, a trial that trains by then or has ended well would be refused, and the job with it."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    of_job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "sweep", "SLURM_JOB_NODELIST": "pc1"}
    of_job |= {"SLURM_JOB_NUM_NODES": "1", "SLURM_CPUS_ON_NODE": "1", "SLURM_RESTART_COUNT": restarts}
    done = run("--resume", "results/NAME", *flags.split(), folder=tmp_path, **of_job)
    told = "The job has come back: --retry is not asked for again.\n" if restarts == "1" else ""
    assert (done.returncode, done.stdout) == (
        0,
        f"{told}typed --resume results/NAME {typed} --address 127.0.0.1:6379\n",
    )


def test_its_settings_are_what_a_job_needs_to_come_back() -> None:
    settings = re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", SCRIPT.read_text(), flags=re.M)
    assert {"requeue": "", "open-mode": "append", "signal": "B:USR1@120"}.items() <= dict(settings).items()


class Bed(NamedTuple):
    """A Slurm cluster and the folder that its nodes share."""

    slurm: Slurm
    folder: Path

    def submit(self, *flags: str, sbatch: tuple[str, ...] = ("--nodes=2",)) -> str:
        """A job; its id."""
        results = ("--results-dir", str(self.folder / "results"))
        where = () if "--resume" in flags else results
        words = ("--cpus-per-task=1", *sbatch, str(SCRIPT), *flags, *where)
        return self.slurm.submit(*words, env={"TOY_ATTEMPTS": str(self.folder)})

    def sweep(self, job: str) -> Path:
        """The folder of a job's sweep."""
        return self.folder / "results" / f"sweep-{job}"

    def wait_for_epochs(self, job: str, count: int) -> dict[int, dict[int, float]]:
        """Wait until the record has so many; each trial's."""

        def has() -> bool:
            assert not self.slurm.is_over(job), self.slurm.said(job)
            return sum(map(len, self.epochs(job).values())) >= count

        wait_until(has, f"{count} epochs", LONG_S)
        return self.epochs(job)

    def epochs(self, job: str) -> dict[int, dict[int, float]]:
        """Of each trial in the record, its epochs."""
        folder = self.sweep(job)
        if not (folder / JOURNAL).is_file():
            return {}
        return {trial.number: dict(trial.epochs) for trial in Record.read(folder).trials}

    def left(self) -> list[str]:
        """What is left of Ray, or of a sweep, on any node."""
        found = []
        for pc in self.slurm.pcs:
            processes = pc.run("ps", "-A", "-o", "args").stdout.splitlines()
            found += [f"{pc.name}: {args}" for args in processes if re.search(r"ray|sweeps[. ]run", args)]
            found += [f"{pc.name}: {path}" for path in pc.path("/tmp").glob("ray*")]
        return found


@pytest.fixture(scope="module")
def bed(lab_of: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> Bed:
    if (why := slurm_of_pcs.why_not()) is not None:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("shared")
    (folder / "slurm").mkdir()
    return Bed(Slurm(lab_of(3, shared=[folder]), folder / "slurm"), folder)


@pytest.mark.long
def test_two_jobs_at_a_time_on_the_same_node(bed: Bed) -> None:
    there = ("--nodelist=pc1", "--nodes=1")
    flags = (*SHORT, "--num-trials", "4", "--params", "epoch_s=0.5")
    jobs = [bed.submit(*flags, sbatch=there) for _ in range(2)]
    for job in jobs:
        bed.wait_for_epochs(job, 1)
    assert [bed.slurm.state(job) for job in jobs] == ["RUNNING", "RUNNING"]
    tokens = secrets_of(bed)
    assert len(tokens) == 2
    for job in jobs:
        assert bed.slurm.end_of(job) == "COMPLETED", bed.slurm.said(job)
        record = Record.read(bed.sweep(job))
        check_whole(record, 4, [3], max_epochs=9, halving=True)
        assert {trial.place["pc"] for trial in record.trials} == {"pc1"}
        assert "ray        1 PC, 1 CPU, 0 GPUs" in bed.slurm.said(job)
        assert "requires no token" not in bed.slurm.said(job)
    assert bed.left() == []
    written = [path for path in bed.folder.rglob("*") if path.is_file()]
    assert [path for path in written for token in tokens if token in path.read_bytes()] == []


def secrets_of(bed: Bed) -> set[bytes]:
    """The tokens of the sweeps that run, as only their user and root can see them."""
    found = set()
    for pc in bed.slurm.pcs:
        for pid in pc.run("pgrep", "-f", "sweeps[. ]run", check=False).stdout.split():
            variables = pc.path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            found |= {word.partition(b"=")[2] for word in variables if word.startswith(b"RAY_AUTH_TOKEN=")}
    return found


@pytest.mark.long
def test_a_job_that_is_requeued_goes_on_exactly(bed: Bed) -> None:
    job = bed.submit(*SHORT, "--num-trials", "8", "--params", "epoch_s=0.5")
    before = bed.wait_for_epochs(job, 8)
    bed.slurm.run("scontrol", "requeue", job)
    assert_goes_on(bed, job, before)


@pytest.mark.long
def test_a_job_whose_time_is_up_puts_itself_back_into_the_queue(bed: Bed) -> None:
    """Slurm sends the signal up to a minute early: after 140 to 200 s, where the sweep takes 240 and more."""
    limit = ("--nodes=2", "--time=5", "--signal=B:USR1@100")
    job = bed.submit(*SHORT, "--num-trials", "24", "--params", "epoch_s=4", sbatch=limit)
    bed.wait_for_epochs(job, 4)
    wait_until(lambda: "It is requeued" in bed.slurm.said(job), "the signal", LONG_S)
    bed.slurm.run("scontrol", "update", f"JobId={job}", "TimeLimit=60")
    assert_goes_on(bed, job, bed.epochs(job))


def assert_goes_on(bed: Bed, job: str, before: dict[int, dict[int, float]]) -> None:
    """It runs again by itself, and its sweep is whole in the end: nothing lost, nothing twice."""
    assert bed.slurm.end_of(job, LONG_S) == "COMPLETED", bed.slurm.said(job)
    assert int(bed.slurm.shown(job)["Restarts"]) >= 1
    assert "continues after epoch" in bed.slurm.said(job)
    record = Record.read(bed.sweep(job))
    check_whole(record, len(record.trials), [3], max_epochs=9, halving=True)
    assert {trial.place["pc"] for trial in record.trials} == {"pc0", "pc1"}
    assert "ray        2 PCs, 2 CPUs, 0 GPUs" in bed.slurm.said(job)
    assert len(record.about["runs"]) == int(bed.slurm.shown(job)["Restarts"]) + 1
    for number, there in before.items():
        assert {epoch: record.trials[number].epochs[epoch] for epoch in there} == there
    assert bed.left() == []


@pytest.mark.long
def test_a_job_that_is_cancelled_leaves_a_sweep_to_go_on_with_and_no_process(bed: Bed) -> None:
    job = bed.submit(*SHORT, "--num-trials", "8", "--params", "epoch_s=0.5")
    before = bed.wait_for_epochs(job, 6)
    bed.slurm.run("scancel", job)
    assert bed.slurm.end_of(job) == "CANCELLED"
    wait_until(lambda: bed.left() == [], "the end of all processes")
    assert "Resume " in bed.slurm.said(job)
    again = bed.submit("--resume", str(bed.sweep(job)), sbatch=("--nodes=3",))
    assert bed.slurm.end_of(again) == "COMPLETED", bed.slurm.said(again)
    record = Record.read(bed.sweep(job))
    check_whole(record, 8, [3], max_epochs=9, halving=True)
    for number, there in before.items():
        assert {epoch: record.trials[number].epochs[epoch] for epoch in there} == there


@pytest.mark.long
def test_the_job_ends_as_the_sweep_does(bed: Bed) -> None:
    job = bed.submit(*SHORT, "--num-trials", "2", "--params", "fault=raises", sbatch=("--nodes=1",))
    assert bed.slurm.end_of(job) == "FAILED"
    assert bed.slurm.shown(job)["ExitCode"] == "1:0"
    assert "No trial succeeded" in bed.slurm.said(job)
    assert bed.left() == []

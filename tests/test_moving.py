"""PCs that leave a sweep, join it, and can't train: nothing is lost, and how long until work goes on."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest

from sweeps.config import JOURNAL
from sweeps.record import Record
from sweeps.rows import TrialRow
from tests.cluster_of_pcs import PYTHON, join, nodes, start_head
from tests.conftest import ROOT
from tests.killing import check_whole
from tests.lab import PC, Lab, wait_until

TOY = (
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
    *("--max-epochs", "9", "--min-free-gb", "0", "--params", "epoch_s=0.5"),
)


class Sweep:
    """A sweep on PCs of a lab, its driver on the first of them, its results on a folder that all see."""

    def __init__(self, lab: Lab, shared: Path, trials: int) -> None:
        self.head, *self.others = lab.pcs
        self.folder = shared / "results" / "s"
        self.trials = trials
        (shared / "attempts").mkdir(parents=True)
        self.environment = {"TOY_ATTEMPTS": str(shared / "attempts"), "PYTHONPATH": str(ROOT)}
        self.driver: subprocess.Popen[str] | None = None
        self.said = shared / "said"
        self.rays: dict[PC, subprocess.Popen[str]] = {}

    def set_up(self, joining: Sequence[PC]) -> None:
        self.address = start_head(self.head, **self.environment)
        for pc in joining:
            self.join(pc)

    def join(self, pc: PC) -> None:
        if pc in self.rays:  # what a drain leaves of `ray start --block`
            pc.signal(self.rays[pc], signal.SIGTERM)
            self.rays[pc].wait(timeout=60)
        self.rays[pc] = join(pc, self.address, **self.environment)

        def is_there() -> bool:
            if self.rays[pc].poll() is not None:  # again, as its unit has it
                self.rays[pc] = join(pc, self.address, **self.environment)
            return pc.address in nodes(self.head)

        wait_until(is_there, f"{pc.name} to join", timeout_s=240)

    def start(self, *more: str) -> None:
        new = [
            *TOY,
            "--num-trials",
            str(self.trials),
            "--name",
            "s",
            "--results-dir",
            str(self.folder.parent),
        ]
        arguments = ["--resume", str(self.folder)] if (self.folder / JOURNAL).exists() else [*new, *more]
        words = [PYTHON, "-m", "sweeps.run", "--address", "auto", *arguments]
        line = f"exec {' '.join(words)} >> {self.said} 2>&1"
        self.driver = self.head.start("sh", "-c", line, env={**self.environment, "RAY_AUTH_MODE": "token"})

    @property
    def live(self) -> list[TrialRow]:
        """Those that train."""
        if not (self.folder / JOURNAL).is_file():
            return []
        return [trial for trial in Record.read(self.folder).live if trial.place]

    def on(self, pc: PC) -> list[TrialRow]:
        return [trial for trial in self.live if trial.place["pc"] == pc.name]

    def wait_for_work_on(self, pc: PC, but: Collection[int] = ()) -> TrialRow:
        """A trial that has reported from there, other than those of these numbers."""
        found: list[TrialRow] = []

        def at_work() -> bool:
            assert self.driver is not None
            assert self.driver.poll() is None, self.said.read_text()
            found[:] = [trial for trial in self.on(pc) if trial.epochs and trial.number not in but]
            return bool(found)

        wait_until(at_work, f"work on {pc.name}", timeout_s=400)
        return found[0]

    def wait_until_moved(self, trial: TrialRow, since: float, what: str) -> None:
        """Log how long a trial took to report from another PC."""
        seen = len(trial.epochs)

        def goes_on() -> bool:
            now = Record.read(self.folder).trials[trial.number]
            return now.place["pc"] != trial.place["pc"] and len(now.epochs) > seen

        wait_until(goes_on, f"trial {trial.number} to go on elsewhere", timeout_s=300)
        print(f"MEASURED {what}: trial {trial.number} went on after {time.time() - since:.1f} s", flush=True)

    def end(self) -> Record:
        assert self.driver is not None
        self.driver.wait(timeout=600)
        assert self.driver.returncode == 0, self.said.read_text()
        return Record.read(self.folder)

    def trained_twice(self) -> int:
        """Epochs that were trained more than once, by the toy's own diary."""
        diary = Path(self.environment["TOY_ATTEMPTS"]) / "epochs"
        return sum(times - 1 for times in Counter(diary.read_text().splitlines()).values())


@pytest.fixture
def sweep_on(lab_of: Callable[..., Lab], tmp_path: Path) -> Callable[..., Sweep]:
    """`sweep_on(3, trials=8)`: a lab of three PCs, of which a sweep can be started."""

    def new(pcs: int, trials: int) -> Sweep:
        return Sweep(lab_of(pcs, shared=[tmp_path]), tmp_path, trials)

    return new


SCHEDULERS = {"none": (4, []), "asha": (4, [3]), "hyperband": (5, [3])}
"""To how many trials, and the rungs."""


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_trials_of_a_pc_that_is_drained_go_on_elsewhere(
    scheduler: str, sweep_on: Callable[..., Sweep]
) -> None:
    trials, rungs = SCHEDULERS[scheduler]
    sweep = sweep_on(2, trials=trials)
    sweep.set_up(sweep.others)
    sweep.start("--scheduler", scheduler)
    leaver = sweep.others[0]
    moving = sweep.wait_for_work_on(leaver)
    began = time.time()
    said = leaver.run(PYTHON, "-m", "sweeps.pcs", "drain", timeout_s=90).stdout
    print(f"MEASURED drain ({scheduler}): {time.time() - began:.1f} s: {said}")
    running = [line.split() for line in leaver.run("ps", "-A", "-o", "stat=,comm=").stdout.splitlines()]
    alive = [name for state, name, *_ in running if not state.startswith("Z")]  # `ray start` buries it later
    assert [name for name in alive if name == "raylet" or name.startswith("ray::")] == []
    assert nodes(sweep.head) == [sweep.head.address]
    sweep.wait_until_moved(moving, began, f"drain, {scheduler}")
    record = sweep.end()
    check_whole(record, trials, rungs, 9, brackets=scheduler == "hyperband")
    assert sweep.trained_twice() == 0
    assert not any(trial.notices for trial in record.trials)


@pytest.mark.slow
def test_a_pc_that_joins_late_and_one_that_comes_back_get_trials(sweep_on: Callable[..., Sweep]) -> None:
    """The sweep begins on the head alone, whose trials it would take two minutes to train."""
    sweep = sweep_on(2, trials=28)
    (late,) = sweep.others
    sweep.set_up([])
    sweep.start("--scheduler", "none")
    sweep.wait_for_work_on(sweep.head)
    were_there: list[int] = []
    for what in ("late", "back"):
        sweep.join(late)
        began = time.time()
        sweep.wait_for_work_on(late, but=were_there)
        print(f"MEASURED {what}: work after {time.time() - began:.1f} s", flush=True)
        if what == "late":
            said = sweep.head.run(PYTHON, "-m", "sweeps.pcs", "drain", late.name, timeout_s=90).stdout
            assert f"{late.name} has left, after" in said
            were_there = [trial.number for trial in sweep.on(late)]
    check_whole(sweep.end(), 28, [], 9)
    assert sweep.trained_twice() == 0


@pytest.mark.slow
def test_a_pc_whose_disk_is_full_is_left_out_by_name_and_its_trials_move(
    sweep_on: Callable[..., Sweep],
) -> None:
    sweep = sweep_on(2, trials=4)
    sweep.set_up(sweep.others)
    sweep.start("--scheduler", "none", "--checkpoint-epochs", "1", "--keep-checkpoints", "4")
    (full,) = sweep.others
    moving = sweep.wait_for_work_on(full)
    began = time.time()
    full.run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(sweep.folder / "checkpoints"))
    sweep.wait_until_moved(moving, began, "full disk")
    record = sweep.end()
    check_whole(record, 4, [], 9)
    (notice,) = {line for trial in record.trials for line in trial.notices if "trains no more" in line}
    assert notice.startswith(f"{full.name} ({full.address}) trains no more in this run: ")
    assert notice.endswith("the disk is full")
    assert sweep.said.read_text().count("trains no more") == 1
    assert record.trials[moving.number].place["pc"] == sweep.head.name

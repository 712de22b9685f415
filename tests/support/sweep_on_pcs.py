"""A real sweep of toys on PCs of a lab, and what its user would see of it."""

from __future__ import annotations

import copy
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests import ROOT
from tests.support.cluster_of_pcs import PYTHON, join, nodes, start_head
from tests.support.lab import PC, Lab, wait_until

TOY = (
    "--no-baseline",
    *("--search-space", "tests.faulty.slopes"),
    *("--max-epochs", "9", "--min-free-gb", "0", "--no-preflight"),
)
A_PLACE_FREE = ("--max-concurrent", "2")
"""On three PCs: a trial that is to go on elsewhere waits for no other one."""
EACH_EPOCH = ("--searcher", "random", "--checkpoint-epochs", "1")
"""At its end, a checkpoint."""


class Sweep:
    """A sweep on PCs of a lab, of a core each: its driver on the first, its results on a folder that all see.

    Args:
        lab: its PCs.
        shared: the folder.
        trials: how many.
        hyperparameters: of the toy, for all of them.
    """

    def __init__(self, lab: Lab, shared: Path, trials: int, **hyperparameters: float) -> None:
        self.head, *self.others = lab.pcs
        self.folder = shared / "results" / "s"
        self.trials = trials
        self.hyperparameters = [f"{name}={value}" for name, value in hyperparameters.items()]
        (shared / "attempts").mkdir(parents=True)
        self.environment = {"TOY_ATTEMPTS": str(shared / "attempts"), "PYTHONPATH": str(ROOT)}
        self.driver: subprocess.Popen[str] | None = None
        self.said = shared / "said"
        self.rays: dict[PC, subprocess.Popen[str]] = {}

    def beside(self, name: str) -> Sweep:
        """Another one on the same PCs, which are up."""
        other = copy.copy(self)
        other.folder, other.driver = self.folder.with_name(name), None
        other.said = self.said.with_name(f"said-{name}")
        return other

    def set_up(self, joining: Sequence[PC], cpus: int = 1) -> None:
        self.address = start_head(self.head, cpus, **self.environment)
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

    def start_on_all(self, *more: str, trainable: str = "tests.faulty.toy") -> None:
        self.set_up(self.others)
        self.start(*more, trainable=trainable)

    def start(self, *more: str, trainable: str = "tests.faulty.toy") -> None:
        """Begin it; where it has begun before, resume it."""
        what = ["--trainable", trainable, "--num-trials", str(self.trials), "--params", *self.hyperparameters]
        new = [*TOY, *what, *more]
        place = ["--name", self.folder.name, "--results-dir", str(self.folder.parent)]
        arguments = ["--resume", str(self.folder)] if (self.folder / JOURNAL).exists() else [*new, *place]
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

    def wait_for_work_on(self, *pcs: PC, but: Collection[int] = ()) -> TrialRow:
        """A trial that has reported from one of them, other than those of these numbers."""
        found: list[TrialRow] = []

        def is_there() -> bool:
            assert self.driver is not None
            assert self.driver.poll() is None, self.said.read_text()
            at_work = [trial for pc in pcs for trial in self.on(pc)]
            found[:] = [trial for trial in at_work if trial.epochs and trial.number not in but]
            return bool(found)

        wait_until(is_there, f"work on {' or '.join(pc.name for pc in pcs)}", timeout_s=400)
        return found[0]

    def pc_of(self, trial: TrialRow) -> PC:
        """Where it trains."""
        return next(pc for pc in (self.head, *self.others) if pc.name == trial.place["pc"])

    def wait_until_moved(self, trial: TrialRow, since: float, what: str) -> None:
        """Log how long a trial took to report from another PC."""
        seen = len(trial.epochs)

        def goes_on() -> bool:
            now = Record.read(self.folder).trials[trial.number]
            return now.place["pc"] != trial.place["pc"] and len(now.epochs) > seen

        wait_until(goes_on, f"trial {trial.number} to go on elsewhere", timeout_s=300)
        print(f"MEASURED {what}: trial {trial.number} went on after {time.time() - since:.1f} s", flush=True)

    def trials_by_number(self) -> dict[int, TrialRow]:
        """As the record has them now."""
        return {trial.number: trial for trial in Record.read(self.folder).trials}

    def wait_for_a_new_epoch(
        self, before: dict[int, TrialRow], since: float, what: str, of: Sequence[int] = ()
    ) -> None:
        """Log how long it took until a trial (one of these numbers) reported what was not there before."""

        def goes_on() -> bool:
            now = self.trials_by_number()
            seen = {number: before[number].epochs if number in before else {} for number in now}
            return any(len(now[number].epochs) > len(seen[number]) for number in of or now)

        wait_until(goes_on, "work to go on", timeout_s=300)
        print(f"MEASURED {what}: work went on after {time.time() - since:.1f} s", flush=True)

    def end(self) -> Record:
        assert self.driver is not None
        self.driver.wait(timeout=600)
        assert self.driver.returncode == 0, self.said.read_text()
        return Record.read(self.folder)

    def kill_driver(self) -> None:
        """With SIGKILL."""
        assert self.driver is not None
        self.head.signal(self.driver, signal.SIGKILL)
        self.driver.wait(timeout=30)

    def trained_twice(self) -> int:
        """Epochs that were trained more than once, by the toy's own diary."""
        return self._twice("epochs")

    def begun_twice(self) -> int:
        """Epochs that were begun more than once."""
        return self._twice("begun")

    def _twice(self, what: str) -> int:
        diary = Path(self.environment["TOY_ATTEMPTS"]) / what
        return sum(times - 1 for times in Counter(diary.read_text().splitlines()).values())

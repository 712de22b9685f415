"""Twenty bugs of one line each, in twenty rooms, that `make test` catches.

`python -m tests.support.bugs [FILE ...]` puts one after the other into a copy of this checkout, and runs the
quick tests of its room there. It prints which test fails first, and ends with status 1 where none does.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests import ROOT


@dataclass(frozen=True)
class Bug:
    """A part of a line that becomes another one."""

    file: str
    part: str
    becomes: str

    @property
    def tests(self) -> str:
        """The folder of the tests of its room."""
        rooms = Path("tests", self.file).parents
        return str(next(room for room in rooms if (ROOT / room).is_dir()))


BUGS = (
    Bug("sweeps/analysis/course.py", "[*rungs(config), config.max_epochs] if", "rungs(config) if"),
    Bug("sweeps/common/objective.py", "self.sign * score > self.sign * than", "score > than"),
    Bug(
        "sweeps/config/validation.py",
        "config.grace_epochs > config.max_epochs",
        "config.grace_epochs > 10**6",
    ),
    Bug(
        "sweeps/execution/driver/gpu_sharing.py", "1.0 if self._needs_one(number) else self.gpus", "self.gpus"
    ),
    Bug("sweeps/execution/faults/requeue.py", "            if not hung:", "            if True:"),
    Bug("sweeps/execution/output/time_left.py", "to_come / slots", "to_come"),
    Bug("sweeps/kinds/trainer_options.py", '"precision": "give', '"precisions": "give'),
    Bug("sweeps/loggers/tensorboard.py", "if count > (known or 0):", "if count >= (known or 0):"),
    Bug("sweeps/plan/run_start.py", "plan.trials_in_all(record) > had", "True"),
    Bug("sweeps/ray_cluster/placement.py", "gpus) // config.workers_per_trial", "gpus)"),
    Bug("sweeps/record/ranking.py", "max(LEAST_COMPARED, 0.2 * len(trials))", "LEAST_COMPARED"),
    Bug("sweeps/schedulers/asha.py", "100 * (1 - 1 / reduction_factor)", "100 / reduction_factor"),
    Bug("sweeps/search/rungs.py", "while epoch < config.max_epochs:", "while epoch <= config.max_epochs:"),
    Bug("sweeps/space/numeric_range.py", "np.log(numbers) if self.is_log else numbers", "numbers"),
    Bug(
        "sweeps/storage/disk_guard.py", "self._least + self._slots * self._checkpoint_bytes()", "self._least"
    ),
    Bug(
        "sweeps/training/checkpoints/checkpoint_store.py",
        "if params is not None and",
        "if params is None and",
    ),
    Bug("sweeps/training/data/sampler.py", 'wanted, side="right")', 'wanted, side="left")'),
    Bug("sweeps/training/distributed/strategy.py", "needed > FITS *", "needed < FITS *"),
    Bug(
        "sweeps/training/step_profiler.py",
        'step - seconds["forward"] - seconds["backward"]',
        "step",
    ),
    Bug("sweeps/training/single_run/run_settings.py", "launch.is_first() and run.folder.exists()", "False"),
)


def main(names: list[str]) -> int:
    missed = 0
    with tempfile.TemporaryDirectory(prefix="sweeps-bugs-") as made:
        copy = Path(made, "checkout")
        ignored = shutil.ignore_patterns(".*", "results", "site", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for bug in BUGS:
            if names and bug.file not in names:
                continue
            first = first_failure(bug, copy)
            missed += not first
            print(f"{bug.file:44} {first or 'NOT CAUGHT'}", flush=True)
    return 1 if missed else 0


def first_failure(bug: Bug, checkout: Path) -> str:
    """The first test that fails in a checkout with a bug, and not without; empty where none does."""
    file = checkout / bug.file
    text = file.read_text()
    file.write_text(text.replace(bug.part, bug.becomes))
    try:
        failed = failing(checkout, bug.tests)
    finally:
        file.write_text(text)
    return "" if failed and failing(checkout, failed) else failed


def failing(checkout: Path, tests: str) -> str:
    """The first of the quick tests that fails; empty where none does."""
    pytest = (sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not long", tests)
    done = subprocess.run(pytest, cwd=checkout, capture_output=True, text=True)
    lines = (line.split(" - ")[0].split(" ", 1) for line in done.stdout.splitlines())
    return next((words[1] for words in lines if words[0] in ("FAILED", "ERROR")), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What happens to a trial that can't go on where it is: its process or PC was lost, or can't train it.

It is requeued: the searcher proposes it again, and it continues at its last checkpoint. None of these counts
against --max-failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ray import cloudpickle
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial

from sweeps.common.formatting import count
from sweeps.execution.driver import Driver
from sweeps.execution.quarantine import Quarantine
from sweeps.search.record_searcher import RecordSearcher

MOST_LOST_PROCESSES = 10
"""Processes that a trial may lose (a PC switched off, memory exhausted) before it counts as failed: some
trials kill theirs."""


class Requeue:
    """Requeues trials, and knows when not to.

    Args:
        driver: of the sweep; it ends where a trial can be trained nowhere.
        searcher: proposes a requeued trial again.
        quarantine: of the PCs of a cluster; None on a PC by itself.
    """

    def __init__(self, driver: Driver, searcher: RecordSearcher, quarantine: Quarantine | None) -> None:
        self._driver, self._searcher, self._quarantine = driver, searcher, quarantine
        self._lost_processes: Counter[int] = Counter()

    def after_lost_process(self, trial: Trial) -> bool:
        """Requeue a trial that ended with an error, if its process was lost and not too many before.

        Tune retries most of these itself, but not a paused trial whose next process is found dead.
        """
        number = trial.config["number"]
        self._lost_processes[number] += trial.run_metadata.num_failures
        is_lost = isinstance(error_of(trial), RayActorError) and self._losses(number) <= MOST_LOST_PROCESSES
        return is_lost and self._searcher.requeue(number)

    def after_leaving(self, number: int, position: str, fault: Mapping[str, Any] | None) -> None:
        """Note where a trial has left its run, and requeue it; a sweep that stops leaves it to a resume.

        Args:
            number: of the trial.
            position: of its checkpoint.
            fault: why there is none.
        """
        record, end = self._driver.record, self._driver.end
        record.note_left(number, "" if fault else position)
        if not record.is_held and not self._searcher.requeue(number):
            end.stop("interrupted")  # the system has ended the trial's process, and Tune takes no more trials

    def why_not(self, trial: Trial) -> tuple[str, str]:
        """Why a trial was not requeued, in a line, and the whole text of its last error."""
        text = str(error_of(trial)).strip()
        times = count(self._losses(trial.config["number"]), "time")
        return f"its process was lost {times}; last error: {text.splitlines()[-1]}", text

    def elsewhere(self, trial: Trial, reason: str, node: str, or_else: str) -> None:
        """Leave out the PC on which a trial can't continue, and requeue the trial. Where that is impossible
        the sweep ends, and the trial stays unfinished, for a resume.

        Args:
            trial: that can't continue.
            reason: why the PC is left out.
            node: the Ray node ID of the PC.
            or_else: why the sweep ends.
        """
        is_left_out = self._quarantine is not None and self._quarantine.leave_out(trial, reason, node)
        if not is_left_out or not self._searcher.requeue(trial.config["number"]):
            self._driver.end.stop("lost", or_else)

    def _losses(self, number: int) -> int:
        """How often a trial lost its process, but for those that it left to move to another PC."""
        return self._lost_processes[number] - (
            self._quarantine.mover.moved[number] if self._quarantine else 0
        )


def error_of(trial: Trial) -> Exception | None:
    """The last error of a trial, as Tune wrote it. `Trial.get_pickled_error` looks for it in the storage,
    where Tune 2.60 has not put it yet."""
    file = trial.pickled_error_file
    if file is None or not Path(file).is_file():
        return None
    error: Exception = cloudpickle.loads(Path(file).read_bytes())
    return error

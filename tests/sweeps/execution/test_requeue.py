"""A trial that lost its process begins again where it was, and some do not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle
from ray.exceptions import RayActorError

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver import Driver
from sweeps.execution.requeue import MOST_LOST_PROCESSES, Requeue
from sweeps.record.record import Record
from sweeps.search.record_searcher import RecordSearcher
from tests.conftest import propose
from tests.support.drivers import driver_of


class Elsewhere:
    """As a Quarantine answers: whether the PC may be left out, and how often a trial was moved."""

    def __init__(self, may_leave_out: bool, moved: int = 0) -> None:
        self.left_out: list[str] = []
        self.mover = SimpleNamespace(moved=Counter({0: moved}))
        self._may = may_leave_out

    def leave_out(self, trial: Any, reason: str, node: str) -> bool:
        self.left_out.append(f"{node}: {reason}")
        return self._may


class Begun:
    """A sweep whose only trial is in training."""

    def __init__(self, folder: Path, quarantine: Any = None) -> None:
        record = Record.create(folder, "s", "max", {"metric": "m"})
        propose(record, {"lr": 0.1})
        no_space: Any = None
        config = SweepConfig.of(num_trials=1)
        self.searcher = RecordSearcher(record, no_space, lambda nth: iter(()), config)
        self.searcher.suggest("first")
        self.driver: Driver = driver_of(folder, record, config)
        self.requeue = Requeue(self.driver, self.searcher, quarantine)

    @property
    def next(self) -> Any:
        """The number of the trial that is handed out next; None for none."""
        return (self.searcher.suggest("next") or {}).get("number")


def ended(folder: Path, error: Exception | None, failures: int = 1) -> Any:
    """The trial as Tune has it, with its last error."""
    file = folder / "error.pkl"
    if error is not None:
        file.write_bytes(cloudpickle.dumps(error))
    metadata = SimpleNamespace(num_failures=failures)
    return SimpleNamespace(config={"number": 0}, pickled_error_file=str(file), run_metadata=metadata)


def test_a_trial_whose_process_was_lost_is_handed_out_again(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    assert sweep.next is None, "its slot is taken"
    assert sweep.requeue.after_lost_process(ended(tmp_path, RayActorError()))
    assert sweep.next == 0


@pytest.mark.parametrize("error", [RuntimeError("a bug of the model"), None])
def test_a_trial_that_ended_otherwise_is_not(error: Exception | None, tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    assert not sweep.requeue.after_lost_process(ended(tmp_path, error))
    assert sweep.next is None


def test_a_trial_that_loses_process_after_process_has_failed(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    last = ended(tmp_path, RayActorError(error_msg="first\nits PC is gone"), MOST_LOST_PROCESSES // 2)
    assert [sweep.requeue.after_lost_process(last) for _ in range(3)] == [True, True, False]
    times = 3 * (MOST_LOST_PROCESSES // 2)
    why, text = sweep.requeue.why_not(last)
    assert why.startswith(f"its process was lost {times} times; last error: ")
    assert why.endswith(text.splitlines()[-1])


def test_a_process_that_was_left_for_another_pc_is_not_lost(tmp_path: Path) -> None:
    sweep = Begun(tmp_path, Elsewhere(True, moved=2))
    lost = ended(tmp_path, RayActorError(), MOST_LOST_PROCESSES + 2)
    assert sweep.requeue.after_lost_process(lost)
    assert not sweep.requeue.after_lost_process(ended(tmp_path, RayActorError()))


def test_a_trial_goes_elsewhere_where_its_pc_can_be_left_out(tmp_path: Path) -> None:
    quarantine = Elsewhere(may_leave_out=True)
    sweep = Begun(tmp_path, quarantine)
    sweep.requeue.elsewhere(ended(tmp_path, None), "no GPU", "id3", "no PC is left")
    assert (quarantine.left_out, sweep.next) == (["id3: no GPU"], 0)
    assert sweep.driver.end.outcome == "finished"


@pytest.mark.parametrize("quarantine", [None, Elsewhere(may_leave_out=False)], ids=["alone", "the last PC"])
def test_the_sweep_ends_where_it_can_not_be(quarantine: Any, tmp_path: Path) -> None:
    sweep = Begun(tmp_path, quarantine)
    sweep.requeue.elsewhere(ended(tmp_path, None), "no GPU", "id3", "no PC is left")
    assert (sweep.driver.end.outcome, sweep.driver.end.error) == ("lost", "no PC is left")
    assert sweep.next is None

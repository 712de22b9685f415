"""A trial that lost its process begins again where it was, and some do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayActorError

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.faults.away_pcs import AwayPCs
from sweeps.execution.faults.requeue import (
    EARLIER_ERROR,
    MOST_INSTANT,
    MOST_LOST_PROCESSES,
    MOST_SPLITS,
    Loss,
    Requeue,
)
from sweeps.execution.run_context import RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.record.record import Record
from sweeps.search.search_method import RecordSearcher
from sweeps.training.checkpoints import checkpoint_store
from sweeps.trial.messages import OutOfMemory
from sweeps.trial.output import KILLED_FOR_MEMORY, Introduction
from tests.conftest import propose
from tests.support.contexts import context_of, said

LOST = RayActorError()
"""Of a process that Ray does not name."""
ENDED = RayActorError(actor_id="ab12")


class Elsewhere:
    """As AwayPCs answer: whether the PC may be left out."""

    def __init__(self, may_leave_out: bool) -> None:
        self.left_out: list[str] = []
        self._may = may_leave_out

    def leave_out(self, trial: Any, reason: str, node: str) -> bool:
        self.left_out.append(f"{node}: {reason}")
        return self._may


class Actor:
    """A process of trials, as Ray knows it."""

    introduce = SimpleNamespace(remote=lambda *_: None)


class Begun:
    """A sweep whose only trial is in training."""

    def __init__(self, folder: Path, away_pcs: Any = None) -> None:
        record = Record.create(folder, "s", "max", {"metric": "m"})
        propose(record, {"lr": 0.1})
        no_space: Any = None
        config = SweepConfig.from_settings(num_trials=1)
        self.searcher = RecordSearcher(record, no_space, lambda nth: iter(()), config)
        self.searcher.suggest("first")
        self.context: RunContext = context_of(folder, record, config)
        self.processes = TrialActors()
        away_pcs = away_pcs or AwayPCs(self.context, self.processes)
        self.requeue = Requeue(self.context, self.searcher, self.processes, away_pcs)

    @property
    def next(self) -> Any:
        """The number of the trial that is handed out next; None for none."""
        return (self.searcher.suggest("next") or {}).get("number")

    def end_process_of(self, moved: Any) -> TrialActor:
        """A process of a trial that was ended to move the trial."""
        moved.temporary_state.ray_actor = Actor()
        self.processes.on_trial_start(0, [], moved)
        process = self.processes.actor_of(moved)
        assert process is not None
        process.is_gone, process.ended_for = True, ""
        return process


def trial() -> Any:
    """The trial as Tune has it."""
    return SimpleNamespace(config={"number": 0}, temporary_state=SimpleNamespace(ray_actor=None))


def test_a_trial_whose_process_was_lost_is_handed_out_again(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    assert sweep.next is None, "its slot is taken"
    then = "it ended while it started; it is requeued and begins its first epoch again"
    log = f"[its process on its PC ended: {then}]\n"
    assert sweep.requeue.after_lost_process(trial(), LOST) == ("", log)
    assert sweep.next == 0
    assert said(sweep.context) == [f"Trial 0 lost its process on its PC: {then} (lr=0.1)"]


def test_it_is_told_after_which_epoch_such_a_trial_continues(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    folder = checkpoint_store.folder_of(tmp_path, 0)
    checkpoint_store.write(folder, 3, lambda into: (into / "weights.pt").touch(), {"lr": 0.1})
    sweep.requeue.after_lost_process(trial(), LOST)
    assert "; it is requeued and continues after epoch 3 (" in said(sweep.context)[0]


def test_one_that_loses_it_twice_in_an_epoch_has_failed(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    for _ in range(MOST_INSTANT - 1):
        assert sweep.requeue.after_lost_process(trial(), LOST)[0] == ""
    why, _ = sweep.requeue.after_lost_process(trial(), LOST)
    assert why == f"its process ended {MOST_INSTANT} times in the same epoch: it ended while it started"


def test_a_trial_that_fits_pays_for_no_memory_that_others_take(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    sweep.context.record.report(0, 1, 0.5, {}, 1.0, {"memory_gb": 2.0})
    beside_others = Loss(KILLED_FOR_MEMORY, free_bytes=1e9)
    assert [sweep.requeue._fault(0, beside_others) for _ in range(3)] == [""] * 3
    assert sweep.requeue._fault(0, Loss(KILLED_FOR_MEMORY, free_bytes=3e9)).startswith("its process ended 4")


def test_a_trial_pays_for_no_process_that_was_spoilt_before_it(tmp_path: Path) -> None:
    """It may be given one after another, since Tune prefers those that have just become free."""
    fault = Begun(tmp_path).requeue._fault
    assert [fault(0, Loss(EARLIER_ERROR)) for _ in range(MOST_LOST_PROCESSES)] == [""] * MOST_LOST_PROCESSES
    assert fault(0, Loss(EARLIER_ERROR)).endswith(EARLIER_ERROR), "but not for ever"


def test_one_that_loses_process_after_process_has_failed_too(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    for epoch in range(1, MOST_LOST_PROCESSES + 1):
        assert sweep.requeue.after_lost_process(trial(), LOST)[0] == ""
        sweep.context.record.report(0, epoch, 0.5, {}, 1.0)
    why, _ = sweep.requeue.after_lost_process(trial(), LOST)
    assert why.startswith(f"its process was lost {MOST_LOST_PROCESSES + 1} times, at last: ")


def test_a_process_that_was_ended_to_move_its_trial_is_not_lost(tmp_path: Path) -> None:
    sweep, moved = Begun(tmp_path), trial()
    sweep.end_process_of(moved)
    for _ in range(MOST_LOST_PROCESSES + 2):
        assert sweep.requeue.after_lost_process(moved, LOST) == ("", "")
    assert said(sweep.context) == []


def test_a_kept_process_that_was_ended_before_tune_gave_it_a_trial_is_not_lost(tmp_path: Path) -> None:
    """Tune starts no trial there, and its error alone names the process."""
    sweep, before = Begun(tmp_path), trial()
    process = sweep.end_process_of(before)
    process.own = Introduction(actor=ENDED.actor_id)
    for _ in range(MOST_LOST_PROCESSES + 2):
        assert sweep.requeue.after_lost_process(trial(), ENDED) == ("", "")
    assert sweep.requeue.after_lost_process(trial(), LOST)[0] == ""
    assert len(said(sweep.context)) == 1, "the one of another process"


def test_one_that_has_left_is_handed_out_again_when_the_sweep_is_not_held(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    record = sweep.context.record
    sweep.requeue.after_leaving(0, "epoch 1, batch 3 of 9")
    assert (record.trials[0].position, sweep.next) == ("epoch 1, batch 3 of 9", 0)
    record.is_held = True
    sweep.requeue.after_leaving(0, "")
    assert (Record.read(tmp_path).trials[0].position, sweep.next) == ("", None)
    record.is_held = False
    assert sweep.next == 0


def test_a_trial_goes_elsewhere_where_its_pc_can_be_left_out(tmp_path: Path) -> None:
    away_pcs = Elsewhere(may_leave_out=True)
    sweep = Begun(tmp_path, away_pcs)
    sweep.requeue.elsewhere(trial(), "no GPU", "id3", "no PC is left")
    assert (away_pcs.left_out, sweep.next) == (["id3: no GPU"], 0)
    assert sweep.context.end.is_running


@pytest.mark.parametrize("away_pcs", [None, Elsewhere(may_leave_out=False)], ids=["alone", "the last PC"])
def test_the_sweep_ends_where_it_can_not_be(away_pcs: Any, tmp_path: Path) -> None:
    sweep = Begun(tmp_path, away_pcs)
    sweep.requeue.elsewhere(trial(), "no GPU", "id3", "no PC is left")
    assert (sweep.context.end.outcome, sweep.context.end.error) == ("lost", "no PC is left")
    assert sweep.next is None


def smaller(rows: int) -> OutOfMemory:
    """As the process of a trial tells it."""
    return OutOfMemory(
        reason=f"it goes on with {rows} rows", traceback="", micro_batch=rows, caution="; its norms differ"
    )


def test_one_that_ran_out_of_memory_is_handed_out_again_with_smaller_micro_batches(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    assert sweep.requeue.after_out_of_memory(0, smaller(32)) == ""
    assert sweep.requeue.after_out_of_memory(0, smaller(16)) == ""
    again = sweep.searcher.suggest("again")
    assert (again["number"], again["seed"], again["micro_batch"]) == (0, 0, 16)
    assert again["failures"] == 0
    notices = ["it goes on with 32 rows; its norms differ", "it goes on with 16 rows"]
    assert said(sweep.context) == [f"Trial 0: {notice}" for notice in notices]
    (known,) = Record.read(tmp_path).trials
    assert (known.micro_batches, known.micro_batch, known.notices) == ([32, 16], 16, notices)


def test_it_is_infeasible_after_three_times(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    for rows in (32, 16, 8)[:MOST_SPLITS]:
        assert sweep.requeue.after_out_of_memory(0, smaller(rows)) == ""
        assert sweep.next == 0
    why = sweep.requeue.after_out_of_memory(0, smaller(4))
    assert why == "out of memory with micro-batches of 32, 16 and 8 rows"
    assert sweep.next is None
    assert sweep.context.record.trials[0].micro_batches == [32, 16, 8]


def test_one_that_has_no_smaller_micro_batch_is_infeasible_at_once(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    assert sweep.requeue.after_out_of_memory(0, OutOfMemory(reason="the model", traceback="")) == "the model"
    assert sweep.next is None
    assert said(sweep.context) == ["Trial 0 is infeasible: the model"]


def test_a_sweep_that_stops_leaves_it_to_a_resume(tmp_path: Path) -> None:
    sweep = Begun(tmp_path)
    sweep.context.record.is_held = True
    assert sweep.requeue.after_out_of_memory(0, smaller(32)) == ""
    assert sweep.next is None
    no_space: Any = None
    resumed = RecordSearcher(
        Record.read(tmp_path), no_space, lambda nth: iter(()), SweepConfig.from_settings(num_trials=1)
    )
    assert resumed.suggest("resumed")["micro_batch"] == 32

"""What the callback does when the weights of a trial could not be saved."""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.tune_callback import TuneCallback
from sweeps.execution.faults.full_gpus import FullGpus
from sweeps.execution.trial_actors import TrialActors
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome, Steered
from sweeps.schedulers import none
from sweeps.search.search_method import RecordSearcher
from sweeps.storage.disk_guard import Disk
from sweeps.storage.open import Folder
from sweeps.storage.protocol import DISK_IS_FULL, StorageError
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.report import REPORT, Report
from sweeps.trial.messages import (
    SAVED,
    Diverged,
    Failed,
    Finished,
    Left,
    Message,
    NotSaved,
    OutOfMemory,
    Saved,
    TrialEnd,
    Unfit,
    message_of,
)
from tests.conftest import propose
from tests.support.contexts import context_of, requeue_of, said

END = 3
FINISHED = Finished()


def trial_of(number: int, message: Message | None = None) -> Any:
    """As much of Tune's Trial as the callback looks at."""
    result = {} if message is None else message.to_result()
    return SimpleNamespace(
        config={"number": number},
        last_result=result,
        metric_analysis={},
        metric_n_steps={},
        temporary_state=SimpleNamespace(ray_actor=None),
    )


class Keeping:
    """A callback, and what Tune tells it."""

    def __init__(
        self,
        folder: Path,
        keep_checkpoints: int | str = 1,
        ends_at: Callable[..., bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.record = Record.create(folder, "s", "max", {"metric": "m"})
        config = SweepConfig.from_settings(
            max_epochs=END, metric="m", mode="max", keep_checkpoints=keep_checkpoints
        )
        self.context = context_of(folder, self.record, config)
        self.end = self.context.end
        no_space: Any = None
        self.searcher = RecordSearcher(self.record, no_space, lambda nth: iter(()), config)
        scheduler: Any = SimpleNamespace(ends_at=ends_at) if ends_at else none.Scheduler
        processes = TrialActors()
        requeue = requeue_of(self.context, self.searcher, processes)
        full_gpus = FullGpus(self.context, self.searcher, processes)
        self.tune_callback = TuneCallback(
            self.context, self.searcher, scheduler, requeue, full_gpus, clock=clock
        )

    def train(
        self,
        score: float,
        save: Callable[[Path], None] | None = None,
        fault: str = "",
        end: TrialEnd = FINISHED,
        output: str = "",
    ) -> bool:
        """A trial from its first epoch to its end; whether its weights were asked for at the end."""
        number = propose(self.record, {"lr": score}).number
        asked = False
        trial: Any = trial_of(number)
        for epoch in range(1, END + 1):
            report = Report(epoch, score * epoch, {}, 1.0)
            told = {"end": end, "output": output} if epoch == END else {}
            trial.last_result = Message(report=report, place={"pc": "pc0"}, **told).to_result()
            self.tune_callback.on_trial_result(epoch, [], trial, trial.last_result)
            asked = bool(trial.last_result.get(SHOULD_CHECKPOINT))
        if asked and save is not None:
            written = checkpoint_store.write(checkpoint_store.folder_of(self.folder, number), END, save)
            saved = Saved(checkpoint_store.bytes_of(written))
            trial.latest_checkpoint_result = SimpleNamespace(metrics={SAVED: [saved]})
            self.tune_callback.on_trial_save(END, [], trial)
        if asked and fault:
            missing = NotSaved(reason=fault, is_of_storage=fault == DISK_IS_FULL)
            trial.latest_checkpoint_result = SimpleNamespace(metrics={SAVED: [missing]})
            self.tune_callback.on_trial_save(END, [], trial)
        self.tune_callback.on_trial_complete(END, [], trial)
        return asked

    def kept(self) -> list[str]:
        return sorted(path.parent.name for path in (self.folder / "checkpoints").glob("trial_*/epoch_*"))


def weights(folder: Path) -> None:
    (folder / "weights.pt").write_text("weights")


@pytest.fixture
def keeping(tmp_path: Path) -> Keeping:
    return Keeping(tmp_path)


def test_the_weights_of_those_that_lead_are_kept_and_of_no_other(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path, keep_checkpoints=2)
    asked = [keeping.train(score, weights) for score in (0.2, 0.5, 0.1, 0.9)]
    assert asked == [True, True, False, True]
    assert keeping.kept() == ["trial_0001", "trial_0003"]
    assert keeping.record.leaders(2) == [3, 1]


def test_the_weights_that_are_kept_stay_within_the_size_that_was_given(tmp_path: Path) -> None:
    """Models of other widths have weights of other sizes."""

    def of_kb(size: int) -> Callable[[Path], None]:
        return lambda folder: (folder / "weights.pt").write_bytes(bytes(1000 * size)) and None

    keeping = Keeping(tmp_path, keep_checkpoints="10kB")
    for score, size in ((0.5, 4), (0.6, 4), (0.7, 4), (0.1, 1), (0.9, 3), (0.8, 30)):
        keeping.train(score, of_kb(size))
        there = (tmp_path / "checkpoints").rglob("*")
        assert sum(path.stat().st_size for path in there if path.is_file()) <= 10_000
    assert keeping.kept() == ["trial_0004"], "the second best is larger than all that is left"
    assert [trial.status for trial in keeping.record.trials] == ["finished"] * 6
    assert keeping.end.is_running


@pytest.mark.parametrize(
    ("fault", "told"),
    [("", "a checkpoint that it wrote is not there"), (DISK_IS_FULL, DISK_IS_FULL)],
    ids=["nobody knows why", "a full disk"],
)
def test_a_trial_that_leads_does_not_end_without_its_weights(fault: str, told: str, keeping: Keeping) -> None:
    """The sweep ends instead, and a resume begins that trial once more."""
    keeping.train(0.2, weights)
    keeping.train(0.5, fault=fault)
    assert [trial.status for trial in keeping.record.trials] == ["finished", "unfinished"]
    assert keeping.end.outcome == "lost"
    assert keeping.end.error == f"the weights of trial 1 can't be written: {told}"
    assert keeping.kept() == ["trial_0000"]


def test_a_storage_that_is_silent_for_some_seconds_while_a_leader_ends_does_not_end_the_sweep(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(of: Folder, number: int) -> list[int]:
        raise StorageError("no answer")

    monkeypatch.setattr(Folder, "epochs", silent)
    assert keeping.train(0.5, weights)
    assert (keeping.record.trials[0].status, keeping.end.is_running) == ("finished", True)
    keeping.train(0.9, fault=DISK_IS_FULL)
    assert keeping.record.trials[1].status == "unfinished"
    assert keeping.end.error == f"the weights of trial 1 can't be written: {DISK_IS_FULL}"


def test_a_fault_of_a_checkpoint_matters_no_more_once_a_later_one_is_written(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(of: Folder, number: int) -> list[int]:
        raise StorageError("no answer")

    trial = trial_of(0)
    missing = NotSaved(reason=DISK_IS_FULL)
    trial.latest_checkpoint_result = SimpleNamespace(metrics={SAVED: [missing]})
    keeping.tune_callback.on_trial_save(1, [], trial)
    monkeypatch.setattr(Folder, "epochs", silent)
    assert keeping.train(0.5, weights)
    assert (keeping.record.trials[0].status, keeping.end.is_running) == ("finished", True)


def test_a_trial_that_can_not_find_its_checkpoints_goes_on_in_a_resume(keeping: Keeping) -> None:
    unfit = "sftp://head/srv: No route to host (head) (tried for 5 min)"
    asked = keeping.train(0.5, end=Unfit(reason=unfit, pc="pc1", node="id1"))
    assert not asked
    assert keeping.record.trials[0].status == "unfinished"
    assert keeping.end.outcome == "lost"
    assert keeping.end.error.startswith("trial 0 can't continue on pc1: sftp://head/srv: No route to host")


def test_a_trial_whose_own_code_can_not_save_it_has_failed(keeping: Keeping) -> None:
    keeping.train(0.2, weights)
    keeping.train(0.5, fault="ValueError: no pickle")
    ended = keeping.record.trials[1]
    assert (ended.status, ended.reason) == ("failed", "its weights can't be saved: ValueError: no pickle")
    assert keeping.end.is_running
    assert keeping.kept() == ["trial_0000"]
    assert keeping.record.leaders(1) == [0]


def test_a_trial_that_does_not_fit_is_infeasible_with_its_reason(keeping: Keeping) -> None:
    keeping.train(0.5, end=OutOfMemory(reason="out of memory: the model", traceback="Traceback ..."))
    (trial,) = keeping.record.trials
    assert (trial.status, trial.reason) == ("infeasible", "out of memory: the model")
    assert "Traceback ..." in (keeping.folder / str(trial.log)).read_text()
    assert keeping.end.is_running
    assert keeping.record.best() is None


def test_the_log_of_one_that_diverged_ends_with_the_reason(keeping: Keeping) -> None:
    keeping.train(0.5, end=Diverged("m was nan in epoch 2"), output="step 9\n")
    (trial,) = keeping.record.trials
    assert (
        (keeping.folder / str(trial.log)).read_text().endswith("\nstep 9\n[diverged: m was nan in epoch 2]\n")
    )
    keeping.train(0.6, output="step 9\n")
    assert (keeping.folder / "logs" / "trial_0001.log").read_text().endswith("\nstep 9\n")


def test_tune_keeps_nothing_of_a_result_that_is_recorded(keeping: Keeping) -> None:
    number = propose(keeping.record, {"lr": 0.1}).number
    message = Message(report=Report(1, 0.5, {"m": 0.5}, 1.0), notices=("a notice",), output="step 9\n")
    result = message.to_result()
    keeping.tune_callback.on_trial_result(1, [], trial_of(number), result)
    assert REPORT not in result
    kept = message_of(result)
    assert (kept.output, kept.notices, kept.report) == ("", (), message.report)


def test_one_that_goes_on_in_parts_has_not_ended(keeping: Keeping) -> None:
    keeping.train(0.5, end=OutOfMemory(reason="it goes on", traceback="Traceback ...", micro_batch=8))
    (trial,) = keeping.record.trials
    assert (trial.status, trial.micro_batch, trial.failures) == ("unfinished", 8, 0)
    assert "Traceback ..." in (keeping.folder / "logs" / "trial_0000.log").read_text()


def test_the_failures_of_a_trial_are_kept_where_a_process_does_not_know_them(keeping: Keeping) -> None:
    """It ended the trial before it had begun it: PyTorch can't be loaded there, say."""
    number = propose(keeping.record, {"lr": 0.1}).number
    trial: Any = trial_of(number)
    for message, failures in (
        (Message(failures=2), 2),
        (Message(end=Left("")), 2),
        (Message(end=Unfit(reason="no PyTorch", pc="pc1", node="id1")), 2),
        (Message(failures=0), 0),
    ):
        keeping.tune_callback.on_trial_result(1, [], trial, message.to_result())
        assert Record.read(keeping.folder).trials[number].failures == failures


def test_a_trial_that_the_user_stops_while_it_goes_on_in_another_process_saves_nothing_here(
    keeping: Keeping,
) -> None:
    """It has nothing to save, and ends where it is handed out again."""
    number = propose(keeping.record, {"lr": 0.1}).number
    keeping.record.note_steered(Steered(["stop", str(number)]))
    assert keeping.record.is_to_stop(number)
    trial: Any = trial_of(number, Message(end=Left("")))
    keeping.tune_callback.on_trial_result(1, [], trial, trial.last_result)
    keeping.tune_callback.on_trial_complete(1, [], trial)
    assert SHOULD_CHECKPOINT not in trial.last_result
    assert keeping.end.is_running
    assert keeping.record.trials[number].status == "unfinished"


@pytest.mark.parametrize("outcome", [Outcome.INTERRUPTED, Outcome.PAUSED])
def test_a_sweep_that_stops_does_not_wait_for_space(outcome: Outcome, keeping: Keeping) -> None:
    """Its trials can save only while Tune's loop turns."""
    keeping.context.disk = Disk(keeping.folder, 1e9, 1)
    keeping.end.stop(outcome)
    keeping.tune_callback.on_step_begin(0, [])
    keeping.tune_callback.close()
    assert said(keeping.context) == []


def test_a_log_that_can_not_be_written_does_not_keep_a_trial_from_ending(keeping: Keeping) -> None:
    (keeping.folder / "logs").write_text("a file where the folder should be")
    keeping.train(0.5, end=Failed(reason="ValueError: no", traceback="Traceback ..."))
    assert keeping.record.trials[0].status == "failed"
    assert keeping.record.trials[0].log is None
    assert "The log of trial 0 can't be written" in said(keeping.context)[0]


def test_a_record_that_is_lost_when_a_paused_trial_ends_is_the_end_of_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune swallows what is raised there: the sweep would go on, and nothing of it be remembered."""

    def refuse(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    keeping = Keeping(tmp_path, ends_at=lambda *_: True)
    number = propose(keeping.record, {"lr": 0.1}).number
    keeping.record.report(number, 1, 0.5, {}, 1.0)
    checkpoint_store.write(checkpoint_store.folder_of(tmp_path, number), 1, weights)
    paused: Any = trial_of(number, Message(report=Report(1, 0.5, {}, 1.0)))
    monkeypatch.setattr(os, "fsync", refuse)
    keeping.tune_callback.on_trial_complete(1, [], paused)
    assert keeping.end.outcome == "lost"
    assert "the record can't be written: Input/output error" in keeping.end.error


def test_tables_are_written_as_rarely_as_their_size_asks_for(tmp_path: Path) -> None:
    """The tables are written; a clock that sees them says how long that took."""
    now, written, seen = [0.0], list[float](), [0]

    def clock() -> float:
        file = tmp_path / "trials.parquet"
        if file.is_file() and (changed := file.stat().st_mtime_ns) != seen[0]:
            seen[0] = changed
            written.append(now[0])
            now[0] += 0.1 if len(written) == 1 else 2.0  # of more and more trials
        return now[0]

    keeping = Keeping(tmp_path, clock=clock)
    keeping.train(0.5)
    while now[0] < 1000:
        keeping.tune_callback.on_step_end(0, [])
        now[0] += 1
    assert [round(later - earlier) for earlier, later in itertools.pairwise([0.0, *written])] == [
        60,
        60,
        402,
        402,
    ]


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_trial_that_gives_up_its_place_has_not_ended(is_stopped: bool, tmp_path: Path) -> None:
    """Else it would be trained once more behind its end: it is proposed again."""
    keeping = Keeping(tmp_path, ends_at=lambda *_: True)  # as it left at a rung, and others were better
    number = propose(keeping.record, {"lr": 0.1}).number
    keeping.record.report(number, 1, 0.1, {}, 1.0)
    if is_stopped:
        keeping.record.note_steered(Steered(["stop", str(number)]))
    keeping.searcher.requeue(number)
    keeping.tune_callback.on_trial_complete(1, [], trial_of(number))
    assert keeping.record.trials[number].status == "unfinished"
    assert keeping.searcher.withdraw(number)


def test_tables_that_cannot_be_written_meanwhile_are_told_once_and_end_nothing(tmp_path: Path) -> None:
    now = [0.0]
    keeping = Keeping(tmp_path, clock=lambda: now[0])
    (tmp_path / "epochs.parquet" / "in the way").mkdir(parents=True)
    for _ in range(3):
        now[0] += 60
        keeping.tune_callback.on_step_end(0, [])
    (line,) = said(keeping.context)
    assert line.startswith("The tables can't be written: ")
    assert (tmp_path / "trials.parquet").is_file()


def test_a_turn_of_tunes_loop_is_one_sync(keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    keeping.train(0.1)
    alone = len(synced)
    keeping.tune_callback.on_step_begin(0, [])
    keeping.train(0.1)
    assert len(synced) == alone
    assert len(Record.read(keeping.folder).trials) == 2, "readers see it before"
    keeping.tune_callback.on_step_end(0, [])
    assert len(synced) == alone + 1
    keeping.tune_callback.on_step_begin(1, [])
    keeping.train(0.1)
    keeping.tune_callback.close()  # the turn was broken off
    assert len(synced) == alone + 2
    keeping.train(0.1)
    assert len(synced) == alone + 2 + alone


def test_a_stopped_leader_without_weights_saves_each_epoch(keeping: Keeping) -> None:
    """It may hang in the next one, before it can leave."""
    number = propose(keeping.record, {"lr": 0.1}).number
    trial: Any = trial_of(number)

    def asked(epoch: int) -> bool:
        result = Message(report=Report(epoch, 0.5 - epoch / 10, {}, 1.0)).to_result()
        keeping.tune_callback.on_trial_result(epoch, [], trial, result)
        return bool(result.get(SHOULD_CHECKPOINT))

    assert not asked(1)
    keeping.record.note_steered(Steered(["stop", str(number)]))
    assert asked(1), "it is trained again"
    checkpoint_store.write(checkpoint_store.folder_of(keeping.folder, number), 1, weights)
    assert not asked(2), "its best epoch is saved"

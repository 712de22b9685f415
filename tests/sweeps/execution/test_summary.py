"""What a sweep leaves when it ends: its report."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.driver.tuner import _why_lost
from sweeps.plan import folder, run_start
from sweeps.plan.build import make_plan
from sweeps.record.journal import RecordLost
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome, Steered
from sweeps.storage.open import Folder
from sweeps.storage.protocol import StorageError
from sweeps.training.checkpoints import checkpoint_store
from tests.conftest import propose
from tests.support import kinds
from tests.support.contexts import context_of
from tests.support.weighed import FRONT, weighed


def test_a_sweep_leaves_its_report(tmp_path: Path) -> None:
    from sweeps.execution.output import summary

    record = Record.read(kinds.write("pruned", tmp_path / "sweep"))
    assert summary._report(record) == str(tmp_path / "sweep" / "report.html")
    assert (tmp_path / "sweep" / "report.html").is_file()


def test_a_report_that_can_not_be_written_costs_a_sweep_one_line(tmp_path: Path) -> None:
    from sweeps.execution.output import summary

    record = Record.read(kinds.write("single", tmp_path / "sweep"))
    (tmp_path / "sweep" / "report.html").mkdir()
    said = summary._report(record)
    assert said.startswith("not written, IsADirectoryError: ")
    assert said.count("\n") == 0


def test_a_report_that_ctrl_c_interrupts_is_written_again_by_the_command_of_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweeps.analysis.report import page
    from sweeps.execution.output import summary

    def interrupted(record: Record) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "write", interrupted)
    record = Record.read(kinds.write("single", tmp_path / "sweep"))
    said = summary._report(record)
    assert said.startswith("not written: interrupted by Ctrl-C; write it again: ")
    assert said.endswith(f" report {tmp_path / 'sweep'}")


def test_what_a_resume_repeats_is_told_of_each_trial_that_trains_and_how_many_wait(tmp_path: Path) -> None:
    from sweeps.execution.output import summary

    plan = make_plan(
        SweepConfig.from_settings(
            **{"name": "s", "trainable": "tests.faulty.toy", "search_space": "tests.faulty.slopes"},
            **{"searcher": "random", "scheduler": "halving", "num_trials": 9, "max_epochs": 9},
            **{"grace_epochs": 1, "results_dir": str(tmp_path), "min_free_gb": 0.0},
        )
    )
    with folder.opened(plan) as record:
        run_start.begin_run(plan, record)
        for number, epochs in enumerate((1, 2, 0, 1, 2)):
            propose(record, {"slope": (1 + number) / 10})
            for epoch in range(1, epochs + 1):
                record.report(number, epoch, 0.9 if number == 1 else 0.5 - number / 10, {}, 1.0)
        record.note_trial(
            1, left={"after_epoch": len(record.trials[1].epochs), "position": "the end of epoch 2"}
        )
        record.note_steered(Steered(["stop", "4"]))
        of = {**record.trials[1].fixed, **record.trials[1].params}
        of_trial = checkpoint_store.folder_of(plan.folder, 1)
        checkpoint_store.write(of_trial, 2, lambda into: (into / "weights.pt").touch(), of)
        for number in (0, 3):
            record.note_pause(number)
        assert [text for _, text in summary._saved(plan, record)] == [
            "trial 1 continues after epoch 2",
            "trial 2 starts from its first epoch",
            "2 more trials wait at epoch 1 for other trials",
        ]


def test_a_storage_that_does_not_answer_costs_the_summary_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the summary ended there: without the command that resumes, and as a crash for --notify-command."""
    from sweeps.execution.output import summary

    asked: list[int] = []

    def silent(of: Folder, number: int) -> list[int]:
        asked.append(number)
        raise StorageError("no answer")

    record = Record.read(kinds.write("running", tmp_path / "sweep"))
    plan = context_of(tmp_path / "sweep", record, SweepConfig()).plan
    monkeypatch.setattr(Folder, "epochs", silent)
    said = [("Unfinished", "where a resume continues is not known: no answer")]
    assert list(summary._saved(plan, record)) == said
    assert asked == [6], "it is not asked of trial 7"


@pytest.mark.parametrize(
    ("is_there", "then"),
    [(True, "All results so far are recorded."), (False, "Put it back before you resume.")],
)
def test_a_folder_that_is_gone_holds_no_results(
    is_there: bool, then: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweeps.execution.output import summary

    record = Record.read(kinds.write("single", tmp_path / "sweep"))
    context = context_of(tmp_path if is_there else tmp_path / "gone", record, SweepConfig())
    context.end.stop(Outcome.LOST, "why")
    summary.print_result(context, {})
    assert f"The sweep stopped: why. {then}\n" in capsys.readouterr().out


def test_a_share_that_answers_by_errors_alone_is_as_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before Python 3.14, `is_dir` raises them."""
    from sweeps.execution.output import summary

    def no_answer(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    record = Record.read(kinds.write("single", tmp_path / "sweep"))
    context = context_of(tmp_path / "sweep", record, SweepConfig())
    with monkeypatch.context() as lost:
        lost.setattr(Path, "stat", no_answer)
        lost.setattr(os, "access", lambda *_: False)
        why = _why_lost(RecordLost("the record can't be written"), tmp_path / "sweep")
        assert why == f"{tmp_path / 'sweep'} is gone"
        context.end.stop(Outcome.LOST, why)
        summary.print_result(context, {})
        summary.answer_end(record, Outcome.LOST)
    assert f"The sweep stopped: {why}. Put it back before you resume.\n" in capsys.readouterr().out


def test_the_front_is_told_a_trial_a_line_and_the_knee_first(tmp_path: Path) -> None:
    from sweeps.execution.output import summary

    record = weighed(tmp_path, [*FRONT, (0.5, 4.0)])
    plan = context_of(tmp_path, record, SweepConfig()).plan
    assert list(summary._front(plan, record)) == [
        ("Front", "3 trials of 4, which no other trial dominates in acc, size_m"),
        ("Knee", "trial 1: acc 0.85, size_m 2 in epoch 2"),
        ("", "trial 2: acc 0.6, size_m 1 in epoch 2"),
        ("", "trial 0: acc 0.9, size_m 5 in epoch 2"),
    ]


def test_the_most_common_reason_is_the_same_whatever_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the last lines named the epoch of two trials, and the report another one."""
    from sweeps.execution.output import summary

    record = kinds.begun(tmp_path / "sweep")
    for number, reason in enumerate(["acc was nan in epoch 1", "acc was nan in epoch 2", "no rows"]):
        kinds.add(record, kinds.drawn(number), 1, "diverged", reason)
    summary.print_result(context_of(tmp_path / "sweep", record, SweepConfig()), {})
    assert "3 ended. Most common reason: acc was nan in epoch N (2 times)\n" in capsys.readouterr().out

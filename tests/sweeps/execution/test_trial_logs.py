"""The log of a trial: its head, what it printed, its traceback; the ends of a long one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sweeps.execution.output.folder_files import HEAD_BYTES, MOST_BYTES, TrialLogs
from sweeps.record.trials import TrialRow

TRIAL = TrialRow(7, {"lr": 0.1}, 0, 0.0, trainable="net", places=[{"pc": "pc1", "after_epoch": 0}])


def test_a_log_says_whose_it_is_and_grows(tmp_path: Path) -> None:
    logs = TrialLogs(tmp_path, print)
    assert logs.path(TRIAL) is None
    logs.append(TRIAL, "")
    assert logs.path(TRIAL) is None
    logs.append(TRIAL, "step 1\n")
    TrialLogs(tmp_path, print).append(TRIAL, "Traceback\n")
    path = logs.path(TRIAL)
    assert path == "logs/trial_0007.log"
    head = "trainable net\nparams {'lr': 0.1}\nplace {'pc': 'pc1'}\n\n"
    assert (tmp_path / path).read_text() == f"{head}step 1\nTraceback\n"


def test_a_log_says_where_another_process_goes_on(tmp_path: Path) -> None:
    logs, trains = (
        TrialLogs(tmp_path, print),
        dataclasses.replace(TRIAL, places=[{"pc": "pc1", "pid": 5, "after_epoch": 0}]),
    )
    logs.note_place(dataclasses.replace(TRIAL, places=()), {"pc": "pc1", "pid": 5}, 1)
    logs.note_place(trains, {"pc": "pc1", "pid": 5}, 2)
    assert logs.path(TRIAL) is None, "nothing has happened"
    logs.append(trains, "step 1\n")
    logs.note_place(trains, {"pc": "pc2", "pid": 6}, 3)
    logs.note_place(trains, {"pc": "pc2", "pid": 7}, None)
    text = (tmp_path / "logs" / "trial_0007.log").read_text()
    assert text.endswith("\nstep 1\n[process 6 on pc2 goes on from epoch 3]\n[process 7 on pc2 goes on]\n")


def test_a_further_attempt_has_a_log_of_its_own(tmp_path: Path) -> None:
    logs = TrialLogs(tmp_path, print)
    logs.append(TRIAL, "Traceback\n")
    again = dataclasses.replace(TRIAL, attempt=1)
    assert logs.path(again) is None
    logs.append(again, "step 1\n")
    assert logs.path(again) == "logs/trial_0007_attempt_2.log"
    assert (tmp_path / "logs" / "trial_0007.log").read_text().endswith("\nTraceback\n")


def test_of_a_long_one_the_beginning_and_the_end_stay(tmp_path: Path) -> None:
    logs = TrialLogs(tmp_path, print)
    for number in range(3 * MOST_BYTES // 1000):
        logs.append(TRIAL, f"{number:05d} {'x' * 1000}\n")
    text = (tmp_path / "logs" / "trial_0007.log").read_text()
    assert len(text) <= MOST_BYTES
    assert text.startswith("trainable net\n")
    assert "00000 xxx" in text[:HEAD_BYTES]
    assert text.endswith(f"\n{number:05d} {'x' * 1000}\n")
    assert " bytes are left out]\n" in text


def test_a_log_that_can_not_be_written_is_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "logs").write_text("a file where the folder should be")
    logs = TrialLogs(tmp_path, said.append)
    for _ in range(3):
        logs.append(TRIAL, "step\n")
    assert len(said) == 1
    assert said[0].startswith("The log of trial 7 can't be written: ")

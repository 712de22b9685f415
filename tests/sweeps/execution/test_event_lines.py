"""`sweeps run --json`: what happens to the trials of a record, line by line.

tests/docs/test_agents.py has whole sweeps and the schema.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.cli.dispatch import status_of
from sweeps.common.cli.parser import Parser
from sweeps.execution.output import event_lines
from sweeps.record.record import Record
from sweeps.space.point import OptunaPoint, Point
from tests.support.contexts import context_of, said
from tests.sweeps.plan.test_resume import Sweep


def lines_of(record: Record, change: Any, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines of what a function does to a record, without the last one."""

    def program() -> int:
        Parser("sweeps run", "%(prog)s", "").values_of(["--json"])
        event_lines.follow(record)
        change()
        return 0

    assert status_of(program) == 0
    *lines, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert end["resume"].endswith(f"run --resume {record.folder}")
    return [{name: value for name, value in line.items() if name != "time"} for line in lines]


def test_each_change_of_a_trial_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Sweep(tmp_path).record

    def change() -> None:
        number = record.begin(Point("m", {"x": 1.0}), OptunaPoint(), 7).number
        record.report(number, 1, 2.0, {"score": 2.0, "loss": math.inf}, 0.5, {"memory_gb": 1.0})
        record.report(number, 1, 2.0, {"score": 2.0}, 0.5)  # trained again after a lost process: no news
        record.note_pause(number)
        record.note_continued(number)
        record.notice(number, "a broken checkpoint")
        record.report(number, 2, 1.0, {"score": 1.0}, 0.5)
        record.end(number, "failed", "no disk", "logs/trial_0000.log")
        record.end(number, "finished")

    lines = lines_of(record, change, capsys)
    assert [line["event"] for line in lines] == [
        *("trial_begun", "report", "best", "trial_paused", "trial_continued", "notice", "report"),
        "trial_ended",
    ]
    begun, report, best, paused, *_, notice, _, ended = lines
    assert (begun["params"], begun["seed"], begun["attempt"]) == ({"x": 1.0}, 7, 0)
    assert (report["epoch"], report["score"], report["costs"]) == (1, 2.0, {"memory_gb": 1.0})
    assert (report["metrics"]["loss"], report["not_finite"]) == (None, {"metrics.loss": "infinity"})
    assert (best["id"], best["epoch"], best["values"]) == (0, 1, {"score": 2.0})
    assert paused["after_epoch"] == 1
    assert notice["text"] == "a broken checkpoint"
    assert ended == {
        **{"event": "trial_ended", "id": 0, "status": "failed", "reason": "no disk", "seconds": 1.0},
        **{"log": "logs/trial_0000.log", "epochs": 2, "best_epoch": 1, "best_score": 2.0},
    }


def test_without_json_nobody_listens(tmp_path: Path) -> None:
    record = Sweep(tmp_path).record
    event_lines.follow(record)
    assert record.listeners == []


def test_what_the_sweep_says_is_a_notice_and_its_table_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path)
    context = context_of(of.plan.folder, of.record, of.plan.config)

    def change() -> None:
        context.say("\nStopping.")
        context.show("trials 1/2 ended")

    assert lines_of(of.record, change, capsys) == [{"event": "notice", "id": None, "text": "Stopping."}]
    assert said(context) == ["", "Stopping.", "trials 1/2 ended"]


def test_only_a_better_score_than_all_that_was_told_is_a_new_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path)
    of.trial(3.0, ended="finished")  # before a resume

    def change() -> None:
        for score, status in ((2.0, "finished"), (5.0, "diverged"), (4.0, "finished"), (6.0, "finished")):
            of.trial(score, ended=status)

    bests = [line for line in lines_of(of.record, change, capsys) if line["event"] == "best"]
    assert [(line["id"], line["values"]["score"]) for line in bests] == [(2, 5.0), (4, 6.0)]


def test_with_several_objectives_another_knee_is_a_new_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path, metric=["score:max", "size:min"])

    def change() -> None:
        for score, size in ((1.0, 1.0), (1.0, 1.0), (0.5, 2.0), (3.0, 0.5)):
            number = of.record.begin(Point("m", {"x": 1.0}), OptunaPoint(), 0).number
            of.record.report(number, 1, score, {"score": score, "size": size}, 1.0)
            of.record.end(number, "finished")

    bests = [line for line in lines_of(of.record, change, capsys) if line["event"] == "best"]
    assert [line["id"] for line in bests] == [0, 3]
    assert bests[-1]["values"] == {"score": 3.0, "size": 0.5}

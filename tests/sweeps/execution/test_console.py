"""The screen and the log, from a record that is as a sweep would have left it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import JOURNAL
from sweeps.execution.output.console import STATUS_EVERY_S, SweepReporter
from sweeps.record.record import Record
from sweeps.record.sweep_info import NotedTimeLeft
from tests.conftest import propose
from tests.support.contexts import context_of, said

CONFIG = SweepConfig.from_settings(num_trials=10, max_epochs=9, metric="val_acc", mode="max")


def one() -> int:
    """A slot."""
    return 1


def table(folder: Path, width: int, **params: float) -> list[str]:
    """The lines of the table at the end of a sweep of one trial, as a terminal of so many columns has it."""
    record = Record.create(folder, "s", "max", {"metric": "val_acc", "planned": [10]})
    propose(record, params)
    record.report(0, 1, 0.123456, {}, 1.0)
    record.end(0, "finished")
    context = context_of(folder, record, CONFIG, width=width)
    SweepReporter(context, one).report([], True)
    return said(context)[2:]


def test_columns_that_do_not_fit_are_counted_below_the_table(tmp_path: Path) -> None:
    names = [f"hyper_parameter_{number}" for number in range(8)]
    *table_lines, caption = table(tmp_path, 80, **dict.fromkeys(names, 1.4583e-05))
    shown = table_lines[-1].split().count("1.458e-05")
    assert 0 < shown < 8
    assert caption.strip() == f"+{8 - shown} columns: report"
    assert max(map(len, table_lines)) <= 80


def test_a_hyperparameter_may_be_called_as_a_column_is(tmp_path: Path) -> None:
    titles, cells = (line.split() for line in table(tmp_path, 80, epoch=7.5, best=2.5))
    assert titles[-5:] == ["epoch", "val_acc", "best", "epoch", "best"]
    assert cells[-5:] == ["1", "0.1235", "0.1235", "7.5", "2.5"]


def test_a_trial_that_misses_a_constraint_is_below_those_that_meet_it(tmp_path: Path) -> None:
    record = Record.create(
        tmp_path, "s", "max", {"metric": "val_acc", "planned": [10], "constraints": ["size_m<=5"]}
    )
    for score, size in ((0.9, 7.0), (0.5, 3.0), (0.6, 4.0)):
        number = propose(record, {"lr": score}).number
        record.report(number, 1, score, {"size_m": size}, 1.0)
        record.end(number, *(("infeasible", "too large") if size > 5 else ("finished", "")))
    context = context_of(tmp_path, record, CONFIG, width=80)
    SweepReporter(context, one).report([], True)
    rows = [line.split()[:2] for line in said(context) if line.split()[1:2] in (["finished"], ["infeasible"])]
    assert rows == [["2", "finished"], ["1", "finished"], ["0", "infeasible"]]


def test_a_log_has_a_line_for_each_trial_that_ends_and_the_status_every_minute(tmp_path: Path) -> None:
    record, now = Record.create(tmp_path, "s", "max", {"metric": "val_acc", "planned": [10]}), [1000.0]
    context = context_of(tmp_path, record, CONFIG)
    for number in range(3):
        propose(record, {})
        record.report(number, 1, number / 10, {}, 1.0)
    record.end(0, "pruned")
    reporter = SweepReporter(context, one, clock=lambda: now[0])
    reporter.report([], False)
    assert said(context) == [], "no trial trains yet"
    reporter.report([SimpleNamespace(config={"number": 1}, status="RUNNING")], False)
    assert [line.split(";")[0] for line in said(context)] == [
        "trials 1/10 ended (1 pruned)", "epochs 3 trained, 8 saved by pruning"
    ], "what had ended before this run is no news"  # fmt: skip
    record.end(2, "failed", "ValueError: no", "logs/trial_0002.log")
    record.end(1, "finished")
    reporter.report([], False)
    failed, finished = said(context)[2:]
    assert failed.startswith(
        "Trial 2 failed after 1 epoch: ValueError: no; see logs/trial_0002.log; 2/10 ended;"
    )
    assert finished.startswith("Trial 1 finished after 1 epoch, val_acc 0.1; 3/10 ended; about ")
    assert finished.endswith(" s left"), "all epochs took as long: no range"
    reporter.report([], False)
    assert len(said(context)) == 4, "nothing is new"
    now[0] += STATUS_EVERY_S
    reporter.report([], False)
    assert said(context)[4].startswith("trials 3/10 ended")


def test_a_trial_trains_where_it_has_a_process(tmp_path: Path) -> None:
    """Others are unfinished, too: requeued, or promoted and without a slot."""
    record = Record.create(tmp_path, "s", "max", {"metric": "val_acc", "planned": [10]})
    context = context_of(tmp_path, record, CONFIG)
    for _ in range(3):
        propose(record, {})
    record.report(2, 1, 0.5, {}, 1.0)
    tunes = [
        SimpleNamespace(config={"number": number}, status=status)
        for number, status in ((0, "TERMINATED"), (1, "PENDING"), (0, "RUNNING"), (2, "PAUSED"))
    ]
    now = [1000.0]
    reporter = SweepReporter(context, one, clock=lambda: now[0])
    reporter.report(tunes, False)
    assert said(context) == [], "one has no process yet"
    now[0] += STATUS_EVERY_S
    reporter.report(tunes, False)
    assert said(context)[0].startswith("trials 0/10 ended; 1 training, 1 starting, 1 waiting;")


def test_at_the_end_there_is_no_time_left(tmp_path: Path) -> None:
    assert " left" not in "".join(table(tmp_path, 120, lr=0.1))
    context = context_of(tmp_path, Record.read(tmp_path), CONFIG)
    SweepReporter(context, one).report([], True)
    assert said(context)[1].split("; ")[1] == "0 s elapsed"


def test_a_log_tells_of_reruns_by_the_trial_that_they_rerun(tmp_path: Path) -> None:
    confirm = {"top": 1, "seeds": 2}
    record = Record.create(tmp_path, "s", "max", {"metric": "val_acc", "planned": [10], "confirm": confirm})
    trial = propose(record, {})
    record.report(0, 1, 0.5, {}, 1.0)
    record.end(0, "finished")
    context = context_of(tmp_path, record, CONFIG)
    reporter = SweepReporter(context, one, of_reruns=True)
    _, seed = record.reruns_to_come()[0]
    record.begin(trial.point, trial.optuna, seed, confirms=0)
    record.report(1, 1, 0.4, {}, 1.0)
    record.end(1, "finished")
    reporter.report([], False)
    assert said(context)[0].startswith(
        "Trial 1 (rerun of trial 0) finished after 1 epoch, val_acc 0.4; 1/2 ended; "
    )


def test_the_time_left_is_noted_for_pages_once_and_where_it_has_changed(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "val_acc", "planned": [10]})
    reporter = SweepReporter(context_of(tmp_path, record, CONFIG), one)
    began = 1_000_000.0
    for after_s, seconds in ((0, 600), (1, 599), (120, 480), (180, 900), (240, 840)):
        reporter._note(NotedTimeLeft(seconds, began + after_s))
    lines = [line for line in (tmp_path / JOURNAL).read_text().splitlines() if "time_left" in line]
    assert len(lines) == 2
    assert Record.read(tmp_path).info.time_left == NotedTimeLeft(900, began + 180)
    reporter._note(set_back := NotedTimeLeft(830, began - 3600))  # the clock
    assert Record.read(tmp_path).info.time_left == set_back

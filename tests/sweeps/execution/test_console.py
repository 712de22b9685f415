"""The two lines of status, from a record that is as a sweep would have left it."""

from __future__ import annotations

import re
from pathlib import Path

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.console import SweepReporter, summary
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.drivers import driver_of, said

CONFIG = SweepConfig.of(num_trials=10, max_epochs=9, metric="val_acc", mode="max")


def record_of(folder: Path, epochs: dict[int, int]) -> Record:
    """Trial number to epochs that it has trained."""
    record = Record.create(folder, "s", "max", {"metric": "val_acc", "fixed": {}, "elapsed_s": 60.0})
    for number, last in epochs.items():
        propose(record, {})
        for epoch in range(1, last + 1):
            record.report(number, epoch, number + epoch / 10, {}, 1.0)
    return record


def test_it_counts_trials_by_what_they_do(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 9, 1: 3, 2: 2, 3: 3, 4: 1, 5: 0})
    record.end(0, "finished")
    record.end(1, "pruned")
    record.end(2, "failed", "ValueError: no")
    trials, epochs = summary(record, CONFIG, 40, lambda trial: len(trial.epochs) == 3).splitlines()
    assert "trials 3/10 ended (1 finished, 1 pruned, 1 failed); 2 training, 1 waiting; " in trials
    assert "best val_acc 4.1 (trial 4, epoch 1)" in trials, "of those that train, too"
    assert epochs.startswith("epochs 18 trained, 6 saved by pruning")


def test_those_that_do_not_fit_are_counted_by_themselves_and_never_lead(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 3, 1: 3})
    record.end(1, "infeasible", "out of memory")
    trials = summary(record, CONFIG, 40).splitlines()[0]
    assert "trials 1/10 ended (1 infeasible); 1 training; best val_acc 0.3 (trial 0, epoch 3)" in trials


def test_without_a_scheduler_that_pauses_none_waits(tmp_path: Path) -> None:
    assert "trials 0/10 ended; 2 training; best" in summary(record_of(tmp_path, {0: 3, 1: 3}), CONFIG, 40)


def test_the_time_left_goes_by_the_plan_while_only_the_poorest_have_ended(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 3, 1: 3, 2: 4})
    record.end(0, "pruned")
    record.note("elapsed_s", 60.0)
    again = Record.read(tmp_path)
    assert "about 3 min 0 s left" in summary(again, CONFIG, 40), "10 epochs took a minute, 30 are to come"
    assert "about 2 min 0 s left" in summary(again, CONFIG, 20), "by the trial that ended: 10 of 3 epochs"


def test_nothing_is_promised_before_a_trial_has_ended(tmp_path: Path) -> None:
    assert not re.search("left", summary(record_of(tmp_path, {0: 3}), CONFIG, 40))


def table(folder: Path, width: int, **params: float) -> list[str]:
    """The lines of the table at the end of a sweep of one trial, as a terminal of so many columns has it."""
    record = Record.create(folder, "s", "max", {"metric": "val_acc"})
    propose(record, params)
    record.report(0, 1, 0.123456, {}, 1.0)
    record.end(0, "finished")
    driver = driver_of(folder, record, CONFIG, width=width)
    SweepReporter(driver).report([], True)
    return said(driver)[2:]


def test_a_number_has_fewer_digits_rather_than_be_cut(tmp_path: Path) -> None:
    params = {"learning_rate": 1.4583e-05, "weight_decay": 2.7183e-06, "momentum": 0.98765}
    for width, digits in ((120, ["1.458e-05", "2.718e-06", "0.9877"]), (64, ["1.5e-05", "2.7e-06", "0.99"])):
        (tmp_path / str(width)).mkdir()
        lines = table(tmp_path / str(width), width, **params)
        assert next(line for line in lines if line.split()[0] == "0").split()[-3:] == digits
        assert max(map(len, lines)) <= width
        assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)


def test_columns_that_do_not_fit_are_named_below_the_table(tmp_path: Path) -> None:
    names = [f"hyper_parameter_{number}" for number in range(8)]
    *table_lines, caption = table(tmp_path, 80, **dict.fromkeys(names, 1.4583e-05))
    shown = table_lines[-1].split().count("1.5e-05")
    assert 0 < shown < 8
    assert caption.strip() == f"columns that do not fit: {', '.join(names[shown:])}"
    assert max(map(len, table_lines)) <= 80


def test_a_hyperparameter_may_be_called_as_a_column_is(tmp_path: Path) -> None:
    titles, cells = (line.split() for line in table(tmp_path, 80, epoch=7.5, best=2.5))
    assert titles[-5:] == ["epoch", "val_acc", "best", "epoch", "best"]
    assert cells[-5:] == ["1", "0.1235", "0.1235", "7.5", "2.5"]

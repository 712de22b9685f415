"""The lines on a sweep, from a record that is as a sweep would have left it."""

from __future__ import annotations

from pathlib import Path

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.output import status_lines
from sweeps.execution.output.status_lines import ended
from sweeps.record.record import Record
from sweeps.record.trials import Waits
from tests.conftest import propose
from tests.support.weighed import FRONT, new, weighed

CONFIG = SweepConfig.from_settings(num_trials=10, max_epochs=9, metric="val_acc", mode="max")


def summary(record: Record, left: str = "", waits: Waits = lambda trial: False) -> str:
    """Of a sweep whose trials train, unless they wait."""
    return status_lines.summary(record, CONFIG, left, waits)


def record_of(folder: Path, epochs: dict[int, int]) -> Record:
    """Trial number to epochs that it has trained."""
    record = Record.create(folder, "s", "max", {"metric": "val_acc", "planned": [10], "elapsed_s": 60.0})
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
    trials, epochs = summary(record, "", lambda trial: len(trial.epochs) == 3).splitlines()
    assert "trials 3/10 ended (1 finished, 1 pruned, 1 failed); 2 training, 1 waiting; " in trials
    assert "best val_acc 4.1 (trial 4, epoch 1, unfinished)" in trials, "of those that train, too"
    assert epochs.startswith("epochs 18 trained, 6 saved by pruning")


def test_those_that_do_not_fit_are_counted_by_themselves_and_never_lead(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 3, 1: 3})
    record.end(1, "infeasible", "out of memory")
    trials = summary(record).splitlines()[0]
    assert (
        "trials 1/10 ended (1 infeasible); 1 training; best val_acc 0.3 (trial 0, epoch 3, unfinished)"
        in trials
    )


def test_without_a_scheduler_that_pauses_none_waits(tmp_path: Path) -> None:
    assert "trials 0/10 ended; 2 training; best" in summary(record_of(tmp_path, {0: 3, 1: 3}))


def test_the_time_left_follows_the_time_elapsed(tmp_path: Path) -> None:
    record = record_of(tmp_path, {0: 3})
    assert summary(record, "about 2 min left (1 to 3 min)").endswith("elapsed, about 2 min left (1 to 3 min)")
    assert summary(record).endswith("elapsed")


def test_with_several_objectives_the_front_of_those_that_ended_is_told_by_its_knee(tmp_path: Path) -> None:
    record = new(tmp_path / "begun", 1)
    assert "; no front yet\n" in summary(record)
    record = weighed(tmp_path / "ended", FRONT)
    told = "; best acc 0.85, size_m 2 (trial 1, the knee of a front of 3 trials)\n"
    assert told in summary(record)
    assert ended(record, record.trials[0]) == "Trial 0 finished after 2 epochs, acc 0.9, size_m 5"

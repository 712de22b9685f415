"""What a sweep does now: who trains where, who waits at which rung, and what happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sweeps.page.sweep import sweep_page
from sweeps.record import lock
from sweeps.record.record import Record
from sweeps.record.sweep_info import Run, Steered
from tests.conftest import propose

SETTINGS = {"max_epochs": 27, "grace_epochs": 3, "scheduler": "halving"}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Trials 0 and 1 wait at epoch 3, 2 and 3 train, 4 has ended."""
    about = {"metric": "acc", "trainable": "toy", "max_epochs": 27, "identity": {"settings": SETTINGS}}
    record = Record.create(tmp_path, "s", "max", about)
    for number, epochs in enumerate((3, 3, 3, 0, 3)):
        propose(record, {"lr": 0.1 * number})
        record.place(
            number, {"pc": f"pc{number % 2}", "pid": number, "gpu": str(number) if number == 3 else ""}
        )
        for epoch in range(1, epochs + 1):
            record.report(number, epoch, 0.1 * epoch, {"acc": 0.1}, 1.0)
    for number in (0, 1):
        record.note_pause(number)
    record.end(4, "pruned")
    return record


def test_the_trials_that_train_are_told_by_pc(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda now=record.trials[3].start: now)
    assert sweep_page.training_by_pc(record) == []  # no process runs the sweep
    with lock.held(record.folder):
        assert sweep_page.training_by_pc(record) == [record.trials[2], record.trials[3]]
        for row in record.trials[2].epochs.values():
            row.time = time.time() - 125
        assert sweep_page.last_report(record.trials[2]) == "reported 2 min 5 s ago"
        assert sweep_page.last_report(record.trials[3]) == "begun 0 s ago"


def test_no_trial_trains_while_the_sweep_waits_or_pauses(record: Record) -> None:
    with lock.held(record.folder):
        record.note("waits_since", 1.0)
        assert sweep_page.training_by_pc(record) == []
        record.note("waits_since", None)
        record.note_steered(Steered(["pause"], "It pauses.", 2.0))
        assert sweep_page.training_by_pc(record) == []


def test_the_rungs_tell_who_waits_there(record: Record) -> None:
    assert sweep_page.rungs(record) == []
    with lock.held(record.folder):
        first, second = sweep_page.rungs(record)
        assert (first.epoch, first.reached, list(first.waiting), first.more) == (3, 4, [0, 1], 0)
        assert (second.epoch, second.reached, list(second.waiting)) == (9, 0, [])


def test_what_happened_is_told_newest_first(record: Record) -> None:
    record.note_run(Run(started=1.0, num_trials=5))
    record.note_run(Run(started=2.0, num_trials=9, changed=["num_trials 5 -> 9"]))
    record.note_steered(Steered(["stop", "3"], "Trial 3 stops.", 3.0))
    record.notice(2, "its checkpoint was broken")
    events = sweep_page.events_of(record)
    assert [(event.what, event.trial) for event in events] == [
        ("notice", 2),
        ("stop 3", None),
        ("resumed", None),
        ("started", None),
    ]
    assert events[0].text == "its checkpoint was broken"
    assert events[2].text == "Changed: num_trials 5 -> 9."

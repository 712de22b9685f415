"""Records that are read on while their files grow: each is what reading the same bytes anew gives."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import live_record
from sweeps.record.journal import JournalReader, RecordUnreadable
from sweeps.record.live_record import LiveRecord, LiveRecords
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome, Run, Steered
from tests.conftest import optuna_trials, propose
from tests.sweeps.record.written import new_record, scored

LR = {"lr": FloatDistribution(0.0, 10.0)}


def eventful(folder: Path, several: bool = False) -> Record:
    """A record in which all happens that can: pauses, failures, attempts, reruns, constraints, commands."""
    about: dict[str, Any] = {"metric": "m", "trainable": "t", "seed": 1, "confirm": {"top": 1, "seeds": 2}}
    about["constraints"] = ["size<=5"]
    if several:
        about["objectives"] = ["m:max", "size:min"]
    record = Record.create(folder, "s", "max", about)
    record.note_run(Run(started=1.0, num_trials=8))
    record.start_clock()
    for number in range(8):
        propose(record, {"lr": 0.1 * number}, LR, seed=number)
        record.place(number, {"pc": "a", "pid": number, "gpu": ""})
        for epoch in range(1, 2 + number % 3):
            record.report(
                number, epoch, (number * 7 % 5) / epoch, {"size": float(number)}, 1.0, {"wait": 0.5}
            )
        if number % 3 == 2:
            record.note_pause(number)
            record.note_continued(number)
    record.note_pause(1)
    record.notice(4, "a broken checkpoint")
    record.end(0, "finished")
    record.end(2, "failed", "it broke", log="logs/trial_0002.txt")
    record.end(3, "diverged")
    record.end(4, "pruned")
    record.annotate(2, note="try it again", tags=["odd"])
    record.open_again(2, 1, "retried by the user")
    record.report(2, 2, 0.7, {"size": 1.0}, 1.0)
    record.open_again(1, 0, "more epochs", passed_epoch=2, decided_rungs=[1])
    record.note_steered(Steered(["stop", "5"], "it is stopped", 2.0))
    record.end(5, "stopped")
    record.end(2, "finished")
    record.end(6, "finished")
    record.end(7, "finished")
    propose(record, {"lr": 0.4}, LR, seed=77)
    record.begin(record.trials[2].point, record.trials[2].optuna, 9, confirms=2)
    record.report(9, 1, 0.6, {"size": 1.0}, 1.0)
    record.end(9, "finished")
    record.end_run(Outcome.INTERRUPTED)
    record.annotate(None, note="a night's work", tags=["baseline", "v2"])
    record.annotate(9, note="", tags=[])
    return record


def views(record: Record) -> Mapping[str, Any]:
    """All that a record says."""
    return {
        "about": record.about,
        "info": record.info,
        "trials": [(row, list(row.every_report()), row.is_paused) for row in record.trials],
        "searched": [row.number for row in record.searched],
        "live": [row.number for row in record.live],
        "openings": record.openings,
        "leaders": record.leaders(20),
        "ended leaders": record.ended_leaders(20),
        "front": record.front_values(),
        "confirmed": record.confirmed_so_far(),
        "reruns": record.reruns_to_come(),
        "losses": [list(record.losses_at(epoch).items()) for epoch in range(5)],
        "arrivals": [list(record.arrivals_at(epoch)) for epoch in range(5)],
        "compared at": record.compared_at(),
        "varied": [record.varied(row) for row in record.trials],
        "elapsed": record.elapsed_s,
    }


def outcome(read: Callable[[], Record]) -> Any:
    """All that a record says, or why it can't be read."""
    try:
        return views(read())
    except (FileNotFoundError, RecordUnreadable) as error:
        return str(error)


@pytest.fixture(scope="module", params=[False, True], ids=["one objective", "several"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of an eventful record."""
    folder = tmp_path_factory.mktemp("eventful")
    eventful(folder, request.param)
    return (folder / JOURNAL).read_bytes()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_after_each_piece_of_its_file_it_is_what_reading_it_anew_gives(
    data: st.DataObject, whole: bytes, tmp_path: Path
) -> None:
    ends = data.draw(st.lists(st.integers(0, len(whole)), min_size=1, max_size=9).map(sorted))
    path, live = tmp_path / JOURNAL, LiveRecord(tmp_path)
    path.write_bytes(b"")
    for end in dict.fromkeys([*ends, len(whole)]):
        with path.open("r+b") as file:
            file.write(whole[:end])
        assert outcome(live.read) == outcome(lambda: Record.read(tmp_path))


def test_the_process_that_writes_has_what_a_reader_gets(tmp_path: Path) -> None:
    record = eventful(tmp_path)
    assert views(record) == views(Record.read(tmp_path))


def test_optuna_reads_the_same_trials(tmp_path: Path) -> None:
    record = eventful(tmp_path)
    rows = (row for trial in record.trials for row in (*trial.attempts, trial))
    attempts = sorted(rows, key=lambda row: row.start)
    frozen = optuna_trials(tmp_path)
    assert [each.params for each in frozen] == [dict(row.optuna.params) for row in attempts]
    assert [each.distributions for each in frozen] == [dict(row.optuna.distributions) for row in attempts]
    scores = [{epoch: row.score for epoch, row in row.epochs.items()} for row in attempts]
    assert [each.intermediate_values for each in frozen] == scores
    states = {"finished": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "stopped": TrialState.PRUNED}
    for each, row in zip(frozen, attempts, strict=True):
        is_last = record.trials[row.number] is row
        other = TrialState.RUNNING if row.status == "unfinished" and is_last else TrialState.FAIL
        assert each.state == states.get(row.status, other)


def test_a_file_that_only_grows_is_not_read_anew(tmp_path: Path) -> None:
    record, live = new_record(tmp_path, trials=2), LiveRecord(tmp_path)
    first = live.read()
    trial = first.trials[0]
    assert live.read() is first
    record.report(0, 1, 0.5, {}, 1.0)
    assert live.read() is first
    assert (trial.epochs[1].score, first.leaders(1)) == (0.5, [0])


@pytest.mark.parametrize("way", ["replaced", "in place", "older copy"])
def test_another_record_in_its_place_is_read_anew(way: str, tmp_path: Path) -> None:
    """A new sweep of the same name, in a new file or in the same, or an older copy that goes on otherwise."""
    folder, live = tmp_path / "s", LiveRecord(tmp_path / "s")
    folder.mkdir()
    scored(folder, "max", [[0.1, 0.2], [0.3]])
    assert len(live.read().trials) == 2
    if way == "older copy":
        content = (folder / JOURNAL).read_bytes()
        os.truncate(folder / JOURNAL, content.rindex(b"\n", 0, content.index(b'"trial_id":1')) + 1)
        other = Record.reopen(folder)
        for _ in range(9):
            propose(other, {"lr": 0.5}, LR)
        assert (folder / JOURNAL).stat().st_size > len(content)
    else:
        (tmp_path / "other").mkdir()
        other = scored(tmp_path / "other", "min", [[1.0]] * 9)
        content = (other.folder / JOURNAL).read_bytes()
        if way == "replaced":
            (other.folder / JOURNAL).replace(folder / JOURNAL)
        else:
            (folder / JOURNAL).write_bytes(content)
    assert views(live.read()) == views(Record.read(folder))
    assert len(live.read().trials) > 2


def test_an_incomplete_end_that_a_resume_cuts_off_is_never_seen(tmp_path: Path) -> None:
    record, live = new_record(tmp_path, trials=2), LiveRecord(tmp_path)
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"op_code":9,"worker_id":"x","trial_')
    first = live.read()
    again = Record.reopen(tmp_path)
    again.report(1, 1, 0.5, {}, 1.0)
    assert live.read() is first
    assert views(first) == views(Record.read(tmp_path))
    assert record.folder == first.folder


def test_lines_that_arrive_in_pieces_while_they_are_read_are_each_read_once(tmp_path: Path) -> None:
    new_record(tmp_path)
    reader = JournalReader(tmp_path / JOURNAL)
    list(reader.unread())
    lines = 20_000

    def write() -> None:
        with (tmp_path / JOURNAL).open("ab", buffering=0) as file:
            for number in range(lines):
                line = b'{"op_code":8,"number":%d}\n' % number
                file.write(line[:9])
                file.write(line[9:])

    writer = multiprocessing.get_context("fork").Process(target=write)
    writer.start()
    read = []
    while writer.is_alive():
        read += [line["number"] for line in reader.unread()]
    writer.join()
    read += [line["number"] for line in reader.unread()]
    assert read == list(range(lines))


def test_one_that_is_gone_or_damaged_says_why_until_it_is_whole_again(tmp_path: Path) -> None:
    record, live, path = new_record(tmp_path, trials=2), LiveRecord(tmp_path), tmp_path / JOURNAL
    whole = path.read_bytes()
    live.read()
    path.unlink()
    with pytest.raises(FileNotFoundError, match="no sweep in"):
        live.read()
    path.write_bytes(whole)
    assert len(live.read().trials) == 2
    path.write_bytes(whole + b"garbage\n")
    assert len(live.read().trials) == 2, "it may be in writing"
    record.report(0, 1, 0.5, {}, 1.0)
    with pytest.raises(RecordUnreadable, match=r"line .* is damaged, and intact lines follow it"):
        live.read()
    path.write_bytes(whole)
    assert views(live.read()) == views(Record.read(tmp_path))


def test_the_records_that_were_read_last_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
        new_record(folder, trials=1)
    size = (folders[0] / JOURNAL).stat().st_size
    monkeypatch.setattr(live_record, "MOST_BYTES", int(2.5 * size))
    records = LiveRecords()
    found = [records.read(folder) for folder in folders]
    assert records.read(folders[0], displaces=False) is not found[0]
    assert [records.holds(folder) for folder in folders] == [False, True, True]
    assert [records.read(folder) for folder in folders[1:]] == found[1:]
    Record.reopen(folders[1]).report(0, 1, 0.5, {}, 1.0)
    assert records.read(folders[1]) is found[1]
    assert found[1].has_epochs
    assert records.read(folders[0]) is not found[0]
    monkeypatch.setattr(live_record, "MOST_BYTES", 1)
    assert records.read(folders[2]) is records.read(folders[2]), "the last one stays in any case"


def test_a_damaged_record_that_is_looked_at_again_and_again_takes_no_more_memory(tmp_path: Path) -> None:
    new_record(tmp_path, trials=1)
    (tmp_path / JOURNAL).write_bytes(b"garbage\n" + (tmp_path / JOURNAL).read_bytes())
    live, lengths = LiveRecord(tmp_path), list[int]()
    for _ in range(3):
        with pytest.raises(RecordUnreadable) as raised:
            live.read()
        lengths.append(len(list(traceback.walk_tb(raised.value.__traceback__))))
    assert len(set(lengths)) == 1

"""Notes and tags of the user, in a record that is written and in one whose sweep has ended."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sweeps import control
from sweeps.analysis import comparison, tables
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import report_tables, sentences
from sweeps.common.errors import UserError
from sweeps.config import control_commands
from sweeps.config.sweep_folder import JOURNAL, newest_sweep
from sweeps.execution.output.folder_files import write_tables
from sweeps.record import lock, steering
from sweeps.record.control_requests import Inbox, ask
from sweeps.record.live_record import LiveRecord
from sweeps.record.record import Record
from sweeps.record.steering import annotate, annotate_ended
from sweeps.record.sweep_info import FORMAT
from tests.sweeps.record.written import scored


def say(record: Record, *words: str) -> str:
    return annotate(record, control_commands.parse(words))


def test_notes_and_tags_are_in_the_record_and_stay_in_a_resume_and_a_retry(tmp_path: Path) -> None:
    record = scored(tmp_path, "max", [[0.1], [0.2]], "failed")
    assert say(record, "note", " nothing trains \n") == "The sweep has this note."
    assert say(record, "tag", "v1", "night", "v1") == "The sweep has the tags v1, night."
    assert say(record, "note", "1", 'lr "too" high\nsecond line ✓') == "Trial 1 has this note."
    assert say(record, "tag", "trial_0001", "odd") == "Trial 1 has the tags odd."
    again = Record.reopen(tmp_path)
    again.open_again(1, 0, "retried by the user")
    for seen in (again, Record.read(tmp_path)):
        assert (seen.info.note, list(seen.info.tags)) == ("nothing trains", ["v1", "night"])
        trial = seen.trials[1]
        assert (trial.note, list(trial.tags), trial.attempt) == ('lr "too" high\nsecond line ✓', ["odd"], 1)
        assert (seen.trials[0].note, list(seen.trials[0].tags)) == ("", [])
    assert say(again, "untag", "v1") == "The sweep has the tags night."
    assert say(again, "untag", "1", "odd") == "Trial 1 has no tag."
    assert say(again, "note", "1", "") == "Trial 1 has no note."
    assert say(again, "note", "") == "The sweep has no note."
    seen = Record.read(tmp_path)
    assert (seen.info.note, list(seen.info.tags), seen.trials[1].note, list(seen.trials[1].tags)) == (
        *("", ["night"], "", []),
    )


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["tag", "7", "a"], "tag 7: no such trial; 2 trials have begun, and the first is trial 0"),
        (["untag", "nihgt"], "untag nihgt: no such tag. Did you mean 'night'? Tags: night"),
        (["untag", "1", "a"], "untag 1 a: no such tag. It has none"),
    ],
)
def test_what_is_not_there_is_refused_and_nothing_changes(
    words: list[str], fault: str, tmp_path: Path
) -> None:
    record = scored(tmp_path, "max", [[0.1], [0.2]])
    say(record, "tag", "night")
    before = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(UserError) as raised:
        say(record, *words)
    assert str(raised.value) == fault
    assert (tmp_path / JOURNAL).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["note"], "note: give one text in quotes, as in "),
        (["note", "7"], "note: give one text in quotes, as in "),
        (["note", "7", "too", "high"], "note: give one text in quotes, as in "),
        (["note", "x" * 10_001], "note: it has 10,001 characters; give at most 10,000"),
        (["tag"], "tag: give tags, as in tag baseline good"),
        (["tag", "7"], "tag 7: give tags, as in tag 7 baseline good"),
        (["tag", "a,b"], "tag a,b: a tag has 1 to 40 letters, digits, '.', '_' and '-'; several are"),
        (["untag", "7", "", "ü"], "untag 7 : a tag has 1 to 40 letters"),
        (
            ["note", "7", "a\udcff"],
            r"'a\udcff': it has the character '\udcff'; give UTF-8 text",
        ),
        (["note", "\x1b[2J"], r"'\x1b[2J': it has the character '\x1b'; give UTF-8 text"),
        (["tag", "a\n\0"], r"'a\n\x00': it has the character '\x00'; give UTF-8 text"),
    ],
)
def test_a_mistake_in_the_words_is_named(words: list[str], fault: str) -> None:
    with pytest.raises(UserError) as raised:
        control_commands.parse(words)
    assert str(raised.value).startswith(fault)


def test_line_breaks_and_tabs_are_text_and_those_of_a_browser_are_those_of_a_terminal() -> None:
    assert control_commands.parse(["note", "ä\r\n\tb\nc"]).note == "ä\n\tb\nc"


def test_the_longest_note_of_the_widest_characters_fits_in_a_request(tmp_path: Path) -> None:
    note = ("note", "😀" * control_commands.MOST_OF_NOTE)
    with lock.held(tmp_path):
        inbox = Inbox(tmp_path)
        inbox.open()
        assert ask(tmp_path, note, wait_s=0) is None
        assert [request.words for request in inbox.take()[0]] == [note]


def test_an_ended_sweep_takes_notes_and_tags_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ended"
    folder.mkdir()
    scored(folder, "max", [[0.1], [0.2]])
    with (folder / JOURNAL).open("ab") as file:
        file.write(b'{"op_code":8,"torn')  # its process was killed
    assert control.main([str(folder), "note", "1", "a good one"]) == 0
    assert control.main([str(folder), "tag", "keep"]) == 0
    assert capsys.readouterr().out == "Trial 1 has this note.\nThe sweep has the tags keep.\n"
    record = Record.read(folder)
    assert (record.trials[1].note, list(record.info.tags)) == ("a good one", ["keep"])
    assert control.main([str(folder), "stop", "1"]) == 2
    assert control.main([str(folder), "untag", "other"]) == 2
    assert "untag other: no such tag. Tags: keep" in capsys.readouterr().err
    assert not lock.is_held(folder)


def ended(folder: Path) -> Path:
    folder.mkdir(parents=True)
    scored(folder, "max", [[0.1], [0.2]])
    return folder


def test_a_resume_may_begin_while_a_note_reads_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, held = ended(tmp_path / "ended"), list[bool]()
    read = Record.read

    def read_while_another_writes(of: Path) -> Record:
        record = read(of)
        held.append(lock.is_held(of))
        if len(held) == 1:
            Record.reopen(of).annotate(None, tags=["other"])
        return record

    monkeypatch.setattr(Record, "read", read_while_another_writes)
    assert annotate_ended(folder, control_commands.parse(["tag", "mine"])).endswith("the tags other, mine.")
    assert not any(held)
    with lock.held(folder), pytest.raises(lock.Taken):
        annotate_ended(folder, control_commands.parse(["tag", "late"]))


def test_a_second_note_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tries = ended(tmp_path / "ended"), list[int]()

    def is_taken_once(of: Path, command: control_commands.Command) -> str:
        tries.append(0)
        if len(tries) == 1:
            raise lock.Taken("of another note")
        return annotate_ended(of, command)

    monkeypatch.setattr(steering, "annotate_ended", is_taken_once)
    assert steering.steer(folder, ["tag", "mine"]).text == "The sweep has the tags mine."


def test_a_note_leaves_an_older_sweep_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seconds, name in enumerate(("old", "new")):
        os.utime(ended(tmp_path / "results" / name) / JOURNAL, (1e9 + seconds, 1e9 + seconds))
    live = LiveRecord(tmp_path / "results" / "old")
    assert live.read().info.note == ""
    assert control.main(["old", "note", "a baseline"]) == 0
    assert newest_sweep() == Path("results/new")
    assert live.read().info.note == "a baseline"


@pytest.mark.parametrize("words", [("note", "x"), ("retry", "failed"), ("set", "num-trials=9")])
def test_an_ended_sweep_of_another_version_is_left_as_it_is(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = ended(tmp_path / "later") / JOURNAL
    later = journal.read_text().replace(f'"format":{FORMAT}', f'"format":{FORMAT + 1}')
    journal.write_text(later + '{"op_code":8,"torn')
    before = journal.read_bytes()
    assert control.main([str(tmp_path / "later"), *words]) == 2
    assert "another version of sweeps has made this sweep." in capsys.readouterr().err
    assert journal.read_bytes() == before


@pytest.mark.parametrize("words", [("stop", "1"), ("note", "x")])
@pytest.mark.parametrize(("content", "fault"), [("", "is empty"), ("torn\n{}", "line 1 is damaged")])
def test_a_command_to_a_record_that_cant_be_read_names_the_fault(
    content: str, fault: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = ended(tmp_path / "ended") / JOURNAL
    journal.write_text(content.format(journal.read_text()) if content else "")
    assert control.main([str(tmp_path / "ended"), *words]) == 2
    assert fault in capsys.readouterr().err


def test_a_note_for_which_the_disk_has_no_room_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ended(tmp_path / "ended")
    before = (folder / JOURNAL).read_bytes()

    def no_room(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    assert control.main([str(folder), "note", "x"]) == 2
    assert "the record can't be written: No space left on device" in capsys.readouterr().err
    assert (folder / JOURNAL).read_bytes() == before


def test_the_tables_and_the_list_of_sweeps_show_them_where_there_are_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = scored(tmp_path, "max", [[0.1], [0.2]])
    assert not {"note", "tags"} & set(tables.trials_table(record).column_names)
    comparison.show([tmp_path])
    assert "tags" not in capsys.readouterr().out
    say(record, "note", "1", "a good one")
    say(record, "tag", "0", "a", "b")
    say(record, "tag", "night")
    say(record, "note", "a long text " * 20)
    write_tables(record, tmp_path)
    rows = pq.read_table(tmp_path / "trials.parquet").to_pylist()
    assert [(row["note"], row["tags"]) for row in rows] == [("", "a, b"), ("a good one", "")]
    comparison.show([tmp_path])
    header, line = capsys.readouterr().out.splitlines()
    assert header.split()[-2:] == ["tags", "note"]
    assert line.endswith("night  a long text a long text a long text ...")
    sweep = analysis_sweep.load(tmp_path)
    table = report_tables.ranking(sweep.record)
    assert [*table.columns[5:7]] == ["tags", "note"]
    assert [row[5:7] for row in table.rows] == [["", "a good one"], ["a b", ""]]
    assert sentences.settings(sweep.record)[-1] == "Its tags: night."
    (row,) = comparison.table([record]).to_pylist()
    assert (row["note"], row["tags"]) == (("a long text " * 20).strip(), ["night"])

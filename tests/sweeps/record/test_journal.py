"""The journal under the record: what a dying driver leaves is mended, what can't be written is taken back."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.journal import Journal, JournalReader, RecordLost, RecordUnreadable

TORN = b'{"op_code":8,"worker_id":"x","user_at'


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of ten whole lines."""
    return new_journal(tmp_path)


def new_journal(folder: Path) -> Path:
    (folder / JOURNAL).touch()
    append(folder / JOURNAL, range(10))
    return folder / JOURNAL


def append(path: Path, numbers: range) -> None:
    backend = Journal(path)
    for number in numbers:
        backend.append(number)


def mend(path: Path) -> int:
    """As a resume does; the bytes that were removed."""
    reader = JournalReader(path)
    list(reader.unread())
    return reader.cut()


def lines(path: Path) -> list[int]:
    return [log["op_code"] for log in JournalFileBackend(str(path)).read_logs(0)]


def study_with(journal: Path, values: list[int], mended: bool) -> JournalStorage:
    """A study of Optuna's in which a writer died in a line, and the next one writes on."""
    storage = JournalStorage(JournalFileBackend(str(journal)))
    study = storage.create_new_study([StudyDirection.MAXIMIZE], "s")
    for value in values:
        storage.set_study_user_attr(study, "value", value)
    with journal.open("ab") as file:
        file.write(TORN)
    if mended:
        mend(journal)
    again = JournalStorage(JournalFileBackend(str(journal)))
    again.set_study_user_attr(study, "value", 100)
    again.set_study_user_attr(study, "value", 101)
    return again


def test_a_whole_journal_is_left_as_it_is(journal: Path) -> None:
    before = journal.read_bytes()
    assert mend(journal) == 0
    assert journal.read_bytes() == before


def test_an_empty_journal_is_whole(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).touch()
    mend(tmp_path / JOURNAL)
    assert (tmp_path / JOURNAL).read_bytes() == b""


@pytest.mark.parametrize(
    "end",
    [
        TORN,
        b"{",
        b'{"op_code": 10}',  # whole but for its newline: the next would be glued to it
        b"\x00" * 4096,
        b'{"op_code": 10, \x00\x00\x00',
        b"garbage\n",
        b"garbage\n\x00\x00\n{\n" + TORN,
        b"\xff\xfe\n",
        b"\n",
        b"17\n",  # JSON, and no line of a journal
        b'"text"\nnull\n',
    ],
)
def test_an_end_that_is_not_whole_is_cut_off_and_the_next_line_reads(end: bytes, journal: Path) -> None:
    whole = journal.read_bytes()
    journal.write_bytes(whole + end)
    assert mend(journal) == len(end)
    assert journal.read_bytes() == whole
    append(journal, range(10, 12))
    assert lines(journal) == list(range(12))


@pytest.mark.parametrize("length", [1, 7, 11])
def test_wherever_a_line_was_torn_the_lines_before_it_stay(length: int, journal: Path) -> None:
    whole = journal.read_bytes()
    assert length <= len(whole.splitlines(keepends=True)[-1])
    journal.write_bytes(whole[: len(whole) - length])
    mend(journal)
    assert lines(journal) == list(range(9))


def test_a_journal_that_is_torn_in_its_first_line_is_empty(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(TORN)
    mend(tmp_path / JOURNAL)
    assert (tmp_path / JOURNAL).read_bytes() == b""


def test_without_mending_optuna_could_not_read_on(journal: Path, tmp_path: Path) -> None:
    """Why the end is cut; when this fails, Optuna has mended it, and `cut` may go."""
    journal.unlink()
    with pytest.raises(ValueError, match=r"Expecting|delimiter|Unterminated|Invalid"):
        study_with(journal, [1, 2, 3], mended=False)
    with pytest.raises(ValueError, match=r"Expecting|delimiter|Unterminated|Invalid"):
        JournalStorage(JournalFileBackend(str(journal)))
    mended = study_with(tmp_path / "mended", [1, 2, 3], mended=True)
    assert mended.get_study_user_attrs(0) == {"value": 101}


@pytest.mark.parametrize("damaged", [1, 4, 9])
def test_a_damaged_line_with_whole_lines_behind_it_is_named_and_nothing_is_cut(
    damaged: int, journal: Path
) -> None:
    in_lines = journal.read_bytes().splitlines(keepends=True)
    in_lines[damaged - 1] = b"\x00" * 9 + b"\n"
    journal.write_bytes(b"".join(in_lines))
    with pytest.raises(RecordUnreadable, match=rf"{JOURNAL}: line {damaged} is damaged, and intact lines"):
        mend(journal)
    assert journal.read_bytes() == b"".join(in_lines)


def test_the_first_of_several_damaged_lines_is_named(journal: Path) -> None:
    in_lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*in_lines[:3], b"x\n", b"y\n", *in_lines[3:], TORN]))
    with pytest.raises(RecordUnreadable, match="line 4 is damaged"):
        mend(journal)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 64 kB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_line_that_a_full_disk_has_no_room_for_is_taken_back_whole_and_is_the_last(
    small_disk: Path,
) -> None:
    path = new_journal(small_disk)
    backend = Journal(path)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(48 * 1024))
    whole = path.read_bytes()
    with pytest.raises(RecordLost, match=rf"can't be written: No space left on device .*{JOURNAL}"):
        backend.append(10, text="x" * 32 * 1024)  # a part of it has room
    assert path.read_bytes() == whole
    ballast.unlink()
    # There is space again; but Optuna has forgotten the line, so what follows would contradict it.
    with pytest.raises(RecordLost, match="No space left on device"):
        backend.append(11)
    assert path.read_bytes() == whole
    mend(path)
    append(path, range(10, 11))
    assert lines(path) == list(range(11))


def test_a_full_disk_tears_a_line_of_optunas_own_journal(small_disk: Path) -> None:
    """Why lines are taken back; when this fails, Optuna does it by itself."""
    path = new_journal(small_disk)
    whole = path.read_bytes()
    (small_disk / "ballast").write_bytes(bytes(48 * 1024))
    with pytest.raises(OSError, match="No space left on device"):
        JournalFileBackend(str(path)).append_logs([{"op_code": 10, "text": "x" * 32 * 1024}])
    assert len(path.read_bytes()) > len(whole)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of the file at each sync."""
    seen: list[int] = []

    def sync(descriptor: int, fsync: Callable[[int], None] = os.fsync) -> None:
        fsync(descriptor)
        seen.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", sync)
    return seen


def test_each_line_is_synced_and_lines_together_once_at_their_end(tmp_path: Path, syncs: list[int]) -> None:
    (tmp_path / JOURNAL).touch()
    backend = Journal(tmp_path / JOURNAL)
    backend.append(0)
    assert len(syncs) == 1
    with backend.together():
        backend.append(1)
        with backend.together():  # the outer block counts
            backend.append(2)
        assert len(syncs) == 1
    with backend.together():
        pass
    ends = list(itertools.accumulate(map(len, (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True))))
    assert syncs == [ends[0], ends[2]]
    assert lines(tmp_path / JOURNAL) == [0, 1, 2]


def test_lines_together_that_a_disk_refuses_are_taken_back(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, backend = journal.read_bytes(), Journal(journal)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(RecordLost, match="Input/output error"), backend.together():  # noqa: PT012
        backend.append(10)
        backend.append(11)
        monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.undo()
    assert journal.read_bytes() == whole
    with pytest.raises(RecordLost, match="Input/output error"):
        backend.append(12)


def test_a_file_that_was_removed_is_not_begun_anew(journal: Path) -> None:
    backend, other, third = Journal(journal), Journal(journal), Journal(journal)
    with pytest.raises(RecordLost, match="No such file"), third.together():  # noqa: PT012
        third.append(10)
        journal.unlink()
    with pytest.raises(RecordLost, match="No such file"):
        backend.append(11)
    with pytest.raises(RecordLost, match="No such file"), other.together():
        raise AssertionError("has begun")
    assert not journal.exists()

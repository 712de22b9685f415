"""Places where a folder can be made, and those where not."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from sweeps.common import atomic_io


def fault_for_a_user(folder: Path) -> str:
    """As someone finds who is not root, to whom nothing is closed."""
    reads, writes = os.pipe()
    if not (child := os.fork()):
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            found = atomic_io.place_fault(folder)
        except BaseException as error:
            found = repr(error)
        os.write(writes, found.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        return answer.read()


def test_a_folder_below_one_that_can_not_be_entered_is_a_fault_in_words(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    assert "is not a writable folder" in fault_for_a_user(closed / "results" / "it")
    assert fault_for_a_user(Path("/tmp", uuid.uuid4().hex, "results", "it")) == ""


def test_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert atomic_io.place_fault(tmp_path / "file" / "it") == (
        f"{tmp_path / 'file'} is not a writable folder"
    )
    assert atomic_io.place_fault(tmp_path / "not" / "yet") == ""


@pytest.mark.parametrize("is_folder", [False, True])
def test_what_fails_half_way_leaves_the_old_file_and_nothing_beside(tmp_path: Path, is_folder: bool) -> None:
    target = tmp_path / "it"
    if not is_folder:
        target.write_text("old")

    def interrupted() -> None:
        with atomic_io.atomic_write(target) as part:
            if is_folder:
                part.mkdir()
            (part / "a" if is_folder else part).write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ([] if is_folder else ["it"])
    assert is_folder or target.read_text() == "old"


def test_a_link_to_what_is_not_there_is_kept(tmp_path: Path) -> None:
    with atomic_io.atomic_write(tmp_path / "it") as part:
        part.mkdir()
        (part / "latest").symlink_to("epoch_3")
    assert (tmp_path / "it" / "latest").readlink() == Path("epoch_3")


def test_a_folder_appears_whole_also_after_a_process_that_was_killed_there(tmp_path: Path) -> None:
    target = tmp_path / "it"
    left = atomic_io.part_of(target)
    left.mkdir()
    (left / "of_the_killed").touch()
    with atomic_io.atomic_write(target) as part:
        part.mkdir()
        (part / "a").write_text("new")
        assert not target.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    assert [path.name for path in target.iterdir()] == ["a"]

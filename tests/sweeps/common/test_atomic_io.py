"""Places where a folder can be made, and those where not."""

from __future__ import annotations

import os
from pathlib import Path

from sweeps.common import atomic_io


def fault_for_a_user(folder: Path) -> str:
    """As someone finds who is not root, to whom nothing is closed."""
    reads, writes = os.pipe()
    if not (child := os.fork()):
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
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
    assert "is no folder that can be written to" in fault_for_a_user(closed / "results" / "it")
    assert fault_for_a_user(Path("/tmp/results/it")) == ""


def test_a_file_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert atomic_io.place_fault(tmp_path / "file" / "it") == (
        f"{tmp_path / 'file'} is no folder that can be written to"
    )
    assert atomic_io.place_fault(tmp_path / "not" / "yet") == ""

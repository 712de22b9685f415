"""Files of another PC, in pieces."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.common.errors import PCUnfit
from sweeps.storage.folder_copy import File
from sweeps.storage.folder_reader import PIECE_BYTES, PIECES_AHEAD, Reader, fetch_from


def test_only_the_folders_that_it_serves_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    reader = Reader([str(tmp_path)])
    assert reader.read(str(tmp_path), "a", 2, 3).tobytes() == b"234"
    with pytest.raises(ValueError, match="/etc is not served"):
        reader.read("/etc", "passwd", 0, 3)


def test_what_each_pc_has_copied_adds_up() -> None:
    reader = Reader([])
    for node, bytes_ in (("id1", 3), ("id2", 5), ("id1", 4)):
        reader.note(node, bytes_)
    assert reader.got() == {"id1": 7, "id2": 5}


def test_a_file_comes_whole_a_few_pieces_ahead() -> None:
    asked: list[tuple[str, str, int, int]] = []
    taken = 0

    def ask(*piece: Any) -> Any:
        asked.append(piece)
        assert len(asked) - taken <= PIECES_AHEAD
        return piece

    actor = SimpleNamespace(read=SimpleNamespace(remote=ask))
    size = 6 * PIECE_BYTES + 5
    fetch = fetch_from(lambda: actor, "/data", "pc1", get=lambda piece: piece)
    for piece in fetch(File("a", size, 0, "")):
        assert piece == asked[taken]
        taken += 1
    ends = [offset + length for _, _, offset, length in asked]
    assert [offset for _, _, offset, _ in asked] == [0, *ends[:-1]]
    assert ends[-1] == size
    assert {(folder, file) for folder, file, _, _ in asked} == {("/data", "a")}


def test_a_pc_without_a_reader_is_named() -> None:
    def reader() -> Any:
        raise ValueError("Failed to look up actor\nno such actor")

    with pytest.raises(PCUnfit, match=r"pc1 \(10.0.0.1\) does not answer: no such actor"):
        list(fetch_from(reader, "/data", "pc1 (10.0.0.1)")(File("a", 1, 0, "")))

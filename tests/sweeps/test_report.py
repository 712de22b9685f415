"""The command that writes the page about a sweep."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sweeps import report
from tests.support import kinds


def test_the_command_writes_into_the_folder_and_says_where(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([str(folders["pruned"])]) == 0
    written = folders["pruned"] / "report.html"
    assert f"{written} (" in capsys.readouterr().out
    assert 'id="figure-learning_curves"' in written.read_text()
    assert report.main([str(folders["empty"]), "--output", str(tmp_path / "page.html")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]
    assert not (folders["empty"] / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no sweep in results/ here: give the name or the folder of a sweep"),
        (["{kinds}/prunde"], "Did you mean '{kinds}/pruned'?"),
        (["{kinds}"], "{kinds}: a folder of sweeps, not a sweep. Give one of {kinds}/"),
        (["{kinds}/pruned", "--outptu", "x"], "--outptu: no such flag. Did you mean '--output'?"),
        (
            ["{kinds}/pruned", "--output", "{kinds}/none/x.html"],
            "{kinds}/none/x.html: No such file or directory",
        ),
        (["{kinds}/pruned", "--output", "{kinds}/pruned"], "{kinds}/pruned: Is a directory"),
        (["{kinds}/pruned", "{kinds}/single"], "{kinds}/single: not a flag; a report is of one sweep"),
    ],
)
def test_a_mistake_is_answered_in_a_line(
    arguments: list[str],
    words: str,
    folders: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no folder of results
    place = str(folders["pruned"].parent)
    assert report.main([word.format(kinds=place) for word in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words.format(kinds=place) in said
    assert not list(Path(place).rglob(".*.part"))


def test_a_damaged_record_is_named(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folders["pruned"], tmp_path / "sweep")
    journal = tmp_path / "sweep" / "record.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:40], lines[40][:9] + b"\n", *lines[41:]]))
    assert report.main([str(tmp_path / "sweep")]) == 2
    assert "line 41" in capsys.readouterr().err


def test_a_record_that_is_cut_in_its_last_line_has_a_page(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["pruned"], tmp_path / "sweep")
    journal = tmp_path / "sweep" / "record.journal"
    os.truncate(journal, journal.stat().st_size - 7)
    assert report.main([str(tmp_path / "sweep")]) == 0


def test_a_disk_without_room_keeps_no_half_a_page(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds.write("single", small_disk / "sweep")
    assert report.main([str(small_disk / "sweep")]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(path.name for path in (small_disk / "sweep").iterdir()) == ["record.journal"]

"""The recorder of terminals shows what a program prints."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import terminals

PRINTS = r"""
import os, sys, time, tty
tty.setcbreak(0)
print("one\x1b[2mdim\x1b[0m", sys.stdout.isatty(), flush=True)
for number in range(3):
    print(f"\r\x1b[2Kcount {number}", end="", flush=True)
    os.read(0, 1)
    time.sleep(0.15)
print("\n\x1b[1;33mlast <b>\x1b[0m")
"""
READ = {f"count {number}": "x" for number in range(3)}
"""What is typed once each was read: what is printed at a time is one screen."""
WAITS = """
import sys, time
try:
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
except KeyboardInterrupt:
    print("stopped")
    sys.exit(130)
"""


def test_a_recording_holds_what_stayed_and_what_was_overwritten(tmp_path: Path) -> None:
    made = terminals.record([sys.executable, "-c", PRINTS], columns=30, rows=3, prompt="count", keys=READ)
    made.write(tmp_path / "a.cast")
    recording = terminals.Recording.read(tmp_path / "a.cast")
    assert recording.status == 0
    assert [line for line in recording.lines() if line] == ["$ count", "onedim True", "count 2", "last <b>"]
    assert any("count 0" in text for text in recording.shown())


def test_ctrl_c_is_typed_once_a_text_was_printed() -> None:
    recording = terminals.record([sys.executable, "-c", WAITS], keys={"ready": "^C"})
    assert recording.status == 130
    assert "stopped" in "\n".join(recording.lines())


def test_a_picture_has_the_text_where_it_stood_with_its_colour(tmp_path: Path) -> None:
    made = terminals.record([sys.executable, "-c", PRINTS], columns=30, rows=4, keys=READ)
    frames = terminals.frames_of(made)
    pieces = ElementTree.fromstring(terminals.still(frames[-1][1], 30)).findall(".//{*}text")
    texts = {piece.text: piece.attrib for piece in pieces}
    assert texts["last <b>"]["fill"] == terminals.COLOURS["brown"]
    assert texts["last <b>"]["font-weight"] == "bold"
    assert texts["dim"]["fill"] == terminals.DIM
    assert float(texts["dim"]["x"]) == pytest.approx(3 * terminals.WIDTH)

    moves = terminals.moving(frames, 30, 10.0)
    ElementTree.fromstring(moves)
    assert all(f">count {number}<" in moves for number in range(3))

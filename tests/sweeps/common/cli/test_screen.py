"""Plain tables: a cell that does not fit is folded."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from sweeps.common.cli import terminal


def drawn(width: int) -> list[str]:
    table = terminal.plain_table("pc", "runs")
    table.add_row(Text("10.0.0.1 (head)"), Text("SweepTrial [42], SweepTrial [43]"))
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_columns_are_aligned_and_brackets_are_text() -> None:
    assert drawn(80) == ["pc               runs", "10.0.0.1 (head)  SweepTrial [42], SweepTrial [43]"]


def test_a_value_in_brackets_or_colons_is_shown_as_it_is_on_a_terminal_and_in_a_notebook() -> None:
    table = terminal.plain_table("layers[a]", "files")
    table.add_row("[conv,pool]", "[/data/a]:car:")
    page, sent = terminal.console(), list[str]()
    page.file = file = io.StringIO()
    page.print(table)
    terminal.Cell(lambda html, text: sent.append(text)).draw(table)
    for text in (file.getvalue(), *sent):
        assert text.split() == ["layers[a]", "files", "[conv,pool]", "[/data/a]:car:"]


def test_a_cell_that_does_not_fit_is_folded_and_not_cut() -> None:
    words = " ".join(drawn(30)).split()
    assert {"SweepTrial", "[42],", "[43]"} <= set(words)
    assert max(map(len, drawn(30))) <= 30


def test_what_reads_the_output_may_end() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    page = terminal.console()
    page.file = file = os.fdopen(writer, "w")
    page.print("nobody reads this")
    page.print("nor this")
    with pytest.raises(BrokenPipeError):
        file.close()


def test_a_block_goes_on_where_its_output_can_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", full := Path("/dev/full").open("w"))  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        terminal.say("a")
    with terminal.lenient():
        terminal.say("b")
        with terminal.step("c"):
            terminal.console().print("d")
    assert sys.stdout is full
    full.close()  # nothing is left that could fail

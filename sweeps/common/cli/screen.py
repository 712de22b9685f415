"""The terminal, and plain tables on it."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

WIDTH_OF_A_FILE = 160
"""Columns where the output is no terminal: room for every column of a table."""


class Screen(Console):
    """A terminal or file that may go away while a sweep runs."""

    def on_broken_pipe(self) -> None:
        """Print no more: what read the output has ended, as `| head` does. Rich would end the program."""
        self.quiet = True


def console() -> Console:
    """Of the standard output."""
    return Screen(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)


def plain_table(*titles: str) -> Table:
    """Columns without lines; a cell that does not fit is folded, never cut."""
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table

"""The terminal: plain tables, and the progress of long work."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from tqdm import tqdm

from sweeps.common.formatting import duration, fitted, size


class Screen(Console):
    """A terminal or file that may go away while a sweep runs. Brackets and colons of a text are no markup."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def on_broken_pipe(self) -> None:
        """Print no more: what read the output has ended, as `| head` does. Rich would end the program."""
        self.quiet = True


class Cell:
    """A cell of a notebook, where what is drawn replaces what was drawn before; sent as HTML and as text."""

    width, height = 110, 32
    """Characters and lines that are seen at once."""

    def __init__(self, send: Callable[[str, str], None]) -> None:
        self._send = send

    def draw(self, drawn: RenderableType) -> None:
        """Show this."""
        page = Screen(record=True, file=io.StringIO(), width=self.width, force_terminal=True)
        page.print(drawn)
        html = page.export_html(inline_styles=True, clear=False, code_format=_PREFORMATTED, theme=_COLOURS)
        self._send(html, page.export_text())


_PREFORMATTED = (
    '<pre style="font-family: var(--jp-code-font-family, monospace); line-height: 1.3; overflow-x: auto">'
    "{code}</pre>"
)
"""Without a colour of its own: text has that of the notebook, dark or light."""
_COLOURS = TerminalTheme(
    (0, 0, 0), (255, 255, 255),
    [(0, 0, 0), (208, 72, 72), (58, 150, 58), (170, 130, 20), (64, 120, 220), (168, 88, 200), (32, 150, 160),
     (128, 128, 128)],
    [(128, 128, 128)] * 8,
)  # fmt: skip
"""Those of statuses, which are read on white and on black."""


class _Lenient:
    """The standard output without errors: what can't be written is left out."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._output.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._output.flush()


@contextlib.contextmanager
def lenient() -> Iterator[None]:
    """A block that goes on where its output can't be written: who has read it has gone, as `| head` does, or
    the disk of its log is full. What is not written by its end is dropped: it would fail behind the block."""
    output = sys.stdout
    try:
        with contextlib.redirect_stdout(cast(TextIO, _Lenient(output))):
            yield
    finally:
        try:
            output.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def console() -> Console:
    """Of the standard output; where that is no terminal, with room for every column of a table."""
    return Screen(width=None if sys.stdout.isatty() else 160)


def say(text: str, *, indent: int = 0) -> None:
    """Print lines: on a terminal broken between words, elsewhere as they are. The text behind a title begins
    at `indent`, at least."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(fitted(text, width, indent), flush=True)


@contextlib.contextmanager
def step(text: str, *, stays: bool = True) -> Iterator[None]:
    """Say what begins; on a terminal count the seconds beside it, so that it is seen to go on.

    Args:
        text: of the line.
        stays: whether the line is there afterwards, and in a file.
    """
    page = console()
    if page.is_terminal and not page.is_dumb_terminal:
        with Live(_Counted(text), console=page, transient=not stays, redirect_stderr=sys.stderr.isatty()):
            yield
        return
    if stays:
        print(f"{text} ...", flush=True)
    yield


class _Counted:
    """A step that goes on, and for how long it has."""

    def __init__(self, text: str) -> None:
        self._text, self._began = text, time.monotonic()

    def __rich__(self) -> Text:
        seconds = int(time.monotonic() - self._began)
        return Text(f"{self._text} ... {f'{seconds} s' if seconds >= 2 else ''}".rstrip())


def plain_table(*titles: str) -> Table:
    """Columns without lines; a cell that does not fit is folded, never cut."""
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold")
    return table


class Bar:
    """Counts finished work, and shows how much is left: a bar on a terminal, elsewhere a line each 10 s.

    Args:
        title: of the work, as `Preparing`.
        total: units of work.
        done: units finished before.
        unit: name of one; B for bytes.
        clock: seconds.
    """

    def __init__(
        self,
        title: str,
        total: int,
        *,
        done: int = 0,
        unit: str = "file",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title, self._total, self._done, self._unit = title, total, done, unit
        self._before = done
        self._clock = clock
        self._began = self._said = clock()
        self._bar = (
            tqdm(total=total, initial=done, desc=title, unit=unit, unit_scale=unit == "B", leave=False)
            if sys.stderr.isatty()
            else None
        )

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        with tqdm.external_write_mode():
            print(text, flush=True)

    def add(self, units: int, note: str = "") -> None:
        """Count finished units; `note` is shown beside them."""
        self._done += units
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(units)
        elif (now := self._clock()) - self._said >= 10:
            self._said = now
            words = [f"{self._done:,} of {self._total:,} {self._unit}s"]
            if self._unit == "B":
                words = [f"{size(self._done)} of {size(self._total)}"]
            words += [note] if note else []
            if done := self._done - self._before:
                left_s = (self._total - self._done) * (now - self._began) / done
                words.append(f"about {duration(left_s)} left")
            print(f"{self._title}  {', '.join(words)}", flush=True)

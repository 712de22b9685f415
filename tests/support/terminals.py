"""A command in a real terminal, recorded, and pictures of what it showed. Those of the docs are made so:

    python -m tests.support.terminals record demo.cast -- sweeps demo
    python -m tests.support.terminals draw demo.cast docs/images/terminal.svg
    python -m tests.support.terminals draw demo.cast docs/images/terminal-moves.svg --moves 20

`record` runs the command in a terminal of `--columns` 100 and `--rows` 22, whose picture is about 385 px high
where it is 830 px wide. It keeps all output with its times: an asciicast, which `asciinema play` shows, too.
`--type TEXT KEYS` types for you once the program has printed a text: `--type "5/16 ended" ^C`. `--as COMMAND`
shows another command at the prompt. `PATH` says which `sweeps` is run, the current folder where.

`draw` shows the screen at the end; with `--at TEXT` the first screen that has this text, with
`--at-last TEXT` the last one. `--first-row` and `--last-row` cut it; 1 is the top. `--moves SECONDS` is a
picture that moves for so long, and says how many times faster than the program it is. A picture is SVG, or
PNG where its name ends so. Colours, bold and dim text are those that the program prints.
"""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import fcntl
import html
import itertools
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyte

SCROLLED = 10_000
"""Lines that are kept of those that leave the screen at its top."""
FRAME_S = 0.1
"""Screens that follow each other faster are one."""
IDLE_S = 1.5
"""A picture that moves waits no longer, where the program does."""
HELD = 0.2
"""Share of a picture that moves for which its end stands still."""

WIDTH, HEIGHT, BASELINE, SIZE, MARGIN = 8.4, 17.0, 12.5, 14, 12
"""Of a character, its font and the border, in px."""
BACKGROUND, FOREGROUND, DIM = "#1b1f27", "#d5d9e0", "#8b93a1"
COLOURS = {
    "black": "#545b67",
    "red": "#ef6b73",
    "green": "#8cc570",
    "brown": "#e3bd6a",  # yellow, as terminals call it
    "blue": "#6cacf0",
    "magenta": "#c88be0",
    "cyan": "#5bb8c4",
    "white": FOREGROUND,
    "brightblack": DIM,
    "brightred": "#ff8b92",
    "brightgreen": "#a6e08a",
    "brightbrown": "#ffdc8a",
    "brightblue": "#8cc4ff",
    "brightmagenta": "#e0a8f5",
    "brightcyan": "#7cd5e0",
    "brightwhite": "#ffffff",
}
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


class Piece(NamedTuple):
    """Characters of a row that look alike."""

    column: int
    text: str
    colour: str
    is_bold: bool


Row = tuple[Piece, ...]
Rows = tuple[Row, ...]


@dataclasses.dataclass
class Recording:
    """What a command has printed, and when."""

    columns: int
    rows: int
    output: list[tuple[float, str]] = dataclasses.field(default_factory=list)
    """Seconds since its start, and text."""
    status: int | None = None
    """Exit status."""

    def write(self, file: Path) -> None:
        head = {"version": 2, "width": self.columns, "height": self.rows, "exit_status": self.status}
        lines = [head, *([round(at, 3), "o", text] for at, text in self.output)]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    @classmethod
    def read(cls, file: Path) -> Recording:
        head, *lines = map(json.loads, file.read_text().splitlines())
        output = [(at, text) for at, kind, text in lines if kind == "o"]
        return cls(head["width"], head["height"], output, head.get("exit_status"))

    def screens(self) -> Iterator[tuple[float, pyte.HistoryScreen]]:
        """The screen whenever something was printed, always the same object."""
        screen = pyte.HistoryScreen(self.columns, self.rows, history=SCROLLED)
        screen.set_mode(pyte.modes.LNM)
        stream = pyte.Stream(screen)
        for at, text in self.output:
            stream.feed(_with_dim(text))
            yield at, screen

    def lines(self) -> list[str]:
        """All lines that are there at the end, those too that have left the screen."""
        *_, (_, screen) = self.screens()
        gone = ["".join(line[column].data for column in range(self.columns)) for line in screen.history.top]
        return [line.rstrip() for line in (*gone, *screen.display)]

    def printed_lines(self) -> list[str]:
        """Each line as it was printed: the terminal breaks those that are wider than it."""
        text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", "".join(text for _, text in self.output))
        return re.split(r"[\r\n]+", text)

    def shown(self) -> Iterator[str]:
        """The text of each screen, each once while it stands."""
        before = None
        for _, screen in self.screens():
            text = "\n".join(line.rstrip() for line in screen.display)
            if text != before:
                yield text
            before = text


def record(
    command: Sequence[str],
    *,
    columns: int = 100,
    rows: int = 22,
    keys: Mapping[str, str] | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    prompt: str = "",
) -> Recording:
    """Run a command in a terminal of its own, to its end.

    Args:
        command: with its arguments.
        columns: of the terminal.
        rows: of the terminal.
        keys: what to type, each once its text was read: `{"5/16 ended": "^C"}`.
        folder: where it runs.
        environment: more variables; the terminal is a plain one of 256 colours.
        prompt: the command as it is shown, typed at a prompt; "": nothing is shown before its output.
    """
    recording, waiting = Recording(columns, rows), dict(keys or {})
    if prompt:
        recording.output.append((0.0, f"\x1b[90m$\x1b[0m \x1b[1m{prompt}\x1b[0m\r\n"))
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    given = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_ITS_TERMINAL, *command],
        stdin=there,
        stdout=there,
        stderr=there,
        cwd=folder,
        env={name: value for name, value in given.items() if name not in ("COLUMNS", "LINES")},
        start_new_session=True,
    )
    os.close(there)
    began, decoder, read = time.monotonic(), codecs.getincrementaldecoder("utf-8")("replace"), ""
    try:
        is_open = True
        while is_open:
            is_over = process.poll() is not None  # asked before the look: what it printed last is read, too
            content = _read(here)
            is_open = bool(content) or (content is None and not is_over)
            if not content:
                continue
            text = decoder.decode(content)
            recording.output.append((time.monotonic() - began, text))
            read = read[-2 * columns * rows :] + text
            for found in [each for each in waiting if each in read]:
                os.write(here, _key(waiting.pop(found)))
        recording.status = process.wait()
    finally:
        os.close(here)
        if process.poll() is None:
            process.kill()
            process.wait()
    return recording


def _read(terminal: int) -> bytes | None:
    """What was printed; None where nothing was for a moment, and b"" where nothing more will be."""
    if not select.select([terminal], [], [], 0.2)[0]:
        return None
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the last process at the terminal has ended
        return b""


_IN_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Ctrl-C is a signal only of the terminal that a process is controlled by."""


def _key(text: str) -> bytes:
    """`^C` as the terminal sends it, other text as it is."""
    return bytes([ord(text[1]) & 31]) if re.fullmatch(r"\^[A-Z]", text) else text.encode()


def _with_dim(text: str) -> str:
    """Dim text as grey: pyte knows no dim text."""
    return re.sub(r"\x1b\[((?:[013-9];)*)2(?=[;m])", "\x1b[\\g<1>90", text)


def rows_of(screen: pyte.Screen) -> Rows:
    """What a screen shows, without the blank end of each row."""
    return tuple(
        _row([screen.buffer[row][column] for column in range(screen.columns)]) for row in range(screen.lines)
    )


def _row(cells: Sequence[pyte.screens.Char]) -> Row:
    pieces = []
    numbered = enumerate(cells)
    for (colour, is_bold), group in itertools.groupby(
        numbered, lambda each: (_colour(each[1]), each[1].bold)
    ):
        found = list(group)
        text = "".join(cell.data for _, cell in found)
        if stripped := text.strip():
            pieces.append(Piece(found[0][0] + len(text) - len(text.lstrip()), stripped, colour, is_bold))
    return tuple(pieces)


def _colour(cell: pyte.screens.Char) -> str:
    if cell.fg == "default":
        return FOREGROUND
    return COLOURS.get(cell.fg, f"#{cell.fg}")


def still(rows: Rows, columns: int) -> str:
    """A picture of a screen, as SVG."""
    drawn = "".join(
        f'<g transform="translate(0,{place * HEIGHT:g})">{_drawn(row)}</g>' for place, row in _used(rows)
    )
    return _svg(drawn, columns, len(rows))


def moving(frames: Sequence[tuple[float, Rows]], columns: int, seconds: float) -> str:
    """A picture of a recording that moves, as SVG: the screens beside each other, of which one is seen."""
    times = [0.0]
    for (before, _), (now, _) in itertools.pairwise(frames):
        times.append(times[-1] + min(now - before, IDLE_S))
    played = seconds * (1 - HELD)
    scale = max(1.0, times[-1] / played)
    fast = frames[-1][0] * scale / times[-1] if times[-1] else 1.0
    height = max(len(rows) for _, rows in frames)
    kinds: dict[Row, int] = {}
    width = _width(columns)
    strip, steps = [], []
    for place, (at, (_, rows)) in enumerate(zip(times, frames, strict=True)):
        uses = [
            f'<use href="#r{kinds.setdefault(row, len(kinds))}" y="{line * HEIGHT:g}"/>'
            for line, row in _used(rows)
        ]
        strip.append(f'<g transform="translate({place * width:g},0)">{"".join(uses)}</g>')
        steps.append(f"{100 * at / scale / seconds:.2f}%{{transform:translateX({-place * width:g}px)}}")
    steps.append(f"100%{{transform:translateX({-(len(frames) - 1) * width:g}px)}}")
    symbols = "".join(f'<g id="r{number}">{_drawn(row)}</g>' for row, number in kinds.items())
    style = f"#s{{animation:m {seconds:g}s steps(1,end) infinite}}@keyframes m{{{''.join(steps)}}}"
    speed = f"{fast:.2g}x" if fast > 1.05 else ""
    drawn = f'<defs>{symbols}</defs><g id="s">{"".join(strip)}</g>'
    return _svg(drawn, columns, height, style, speed)


def _used(rows: Rows) -> Iterator[tuple[int, Row]]:
    return ((place, row) for place, row in enumerate(rows) if row)


def _width(columns: int) -> float:
    return columns * WIDTH + 2 * MARGIN


def _drawn(row: Row) -> str:
    """The pieces of a row, each as wide as its columns, whatever the font."""
    found = []
    for piece in row:
        colour = "" if piece.colour == FOREGROUND else f' fill="{piece.colour}"'
        bold = ' font-weight="bold"' if piece.is_bold else ""
        wide = f' textLength="{len(piece.text) * WIDTH:g}"'
        text = html.escape(piece.text)
        found.append(f'<text x="{piece.column * WIDTH:g}" y="{BASELINE:g}"{wide}{colour}{bold}>{text}</text>')
    return "".join(found)


def _svg(drawn: str, columns: int, lines: int, style: str = "", note: str = "") -> str:
    width, height = _width(columns), lines * HEIGHT + 2 * MARGIN
    noted = f'<text x="{width - MARGIN:g}" y="{BASELINE + 6:g}" text-anchor="end" fill="{DIM}">{note}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}"><style>text{{font-size:{SIZE}px;font-family:{FONTS};white-space:pre}}{style}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
        f'<svg x="{MARGIN}" y="{MARGIN}" width="{width - 2 * MARGIN:g}" height="{lines * HEIGHT:g}" '
        f'fill="{FOREGROUND}">{drawn}</svg>{noted if note else ""}</svg>\n'
    )


def frames_of(recording: Recording) -> list[tuple[float, Rows]]:
    """The screens that differ, at most one each tenth of a second."""
    frames: list[tuple[float, Rows]] = []
    for at, screen in recording.screens():
        rows = rows_of(screen)
        if frames and rows == frames[-1][1]:
            continue
        if frames and at - frames[-1][0] < FRAME_S:
            frames[-1] = (frames[-1][0], rows)
        else:
            frames.append((at, rows))
    return frames


def _to_png(svg: str, file: Path) -> None:
    from tests.support import browser

    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert size is not None
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<body style='margin:0'>{svg}")
        with browser.chromium() as chromium:
            shown = chromium.open(page.as_uri())
            shown.wait_for("document.readyState === 'complete'")
            shown.screenshot(file, (float(size[1]), float(size[2])))


def _record(flags: argparse.Namespace) -> int:
    prompt = flags.shown or shlex.join(flags.command)
    keys = dict(flags.type or [])
    recording = record(flags.command, columns=flags.columns, rows=flags.rows, keys=keys, prompt=prompt)
    recording.write(flags.recording)
    return recording.status or 0


def _draw(flags: argparse.Namespace) -> int:
    recording = Recording.read(flags.recording)
    frames = frames_of(recording)
    wanted = flags.at or flags.at_last or ""
    having = [rows for _, rows in frames if any(wanted in _text(row) for row in rows)]
    if not having:
        raise SystemExit(f"no screen has the text {wanted!r}")
    rows = having[0 if flags.at else -1]
    part = slice(flags.first_row - 1, flags.last_row)
    if flags.moves is None:
        svg = still(rows[part], recording.columns)
    else:
        svg = moving([(at, rows[part]) for at, rows in frames], recording.columns, flags.moves)
    if flags.picture.suffix == ".png":
        _to_png(svg, flags.picture)
    else:
        flags.picture.write_text(svg)
    return 0


def _text(row: Row) -> str:
    """A row as it is read."""
    text = ""
    for piece in row:
        text = f"{text:<{piece.column}}{piece.text}"
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.support.terminals")
    ways = parser.add_subparsers(required=True)
    recorder = ways.add_parser("record")
    recorder.add_argument("recording", type=Path)
    recorder.add_argument("--columns", type=int, default=100)
    recorder.add_argument("--rows", type=int, default=22)
    recorder.add_argument("--type", nargs=2, action="append", metavar=("TEXT", "KEYS"))
    recorder.add_argument("--as", dest="shown")
    recorder.add_argument("command", nargs="+")
    recorder.set_defaults(do=_record)
    drawer = ways.add_parser("draw")
    drawer.add_argument("recording", type=Path)
    drawer.add_argument("picture", type=Path)
    drawer.add_argument("--at")
    drawer.add_argument("--at-last")
    drawer.add_argument("--first-row", type=int, default=1)
    drawer.add_argument("--last-row", type=int)
    drawer.add_argument("--moves", type=float, metavar="SECONDS")
    drawer.set_defaults(do=_draw)
    return parser


if __name__ == "__main__":
    asked = _parser().parse_args()
    sys.exit(asked.do(asked))

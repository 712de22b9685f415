"""Numbers, paths and commands for messages."""

from __future__ import annotations

import ctypes
import math
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

GB = 10**9
_UNITS = {"kb": 10**3, "mb": 10**6, "gb": GB, "tb": 10**12}
_shown_from: Path | None = None


def short(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, list):
        return ", ".join(map(short, value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def rounded(number: float) -> str:
    """A number to about two digits, and without an exponent where it is large: `0.0012`, `1,234`."""
    return f"{number:.2g}" if abs(number) < 99.5 else f"{number:,.0f}"


def short_value(value: Any) -> str:
    """The value of a hyperparameter, or values in a list, in few characters."""
    if isinstance(value, list):
        return ", ".join(map(short_value, value))
    return "null" if value is None else short(value)


def cell(params: Mapping[str, Any], name: str) -> str:
    """The value of a hyperparameter, "" where a trial does not have it."""
    return short_value(params[name]) if name in params else ""


def pairs(params: Mapping[str, Any]) -> str:
    """`lr=0.1, width=8`."""
    return ", ".join(f"{name}={cell(params, name)}" for name in params)


def shortest(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits: 0.8775 of 0.8774999976158142, which a
    tensor of 0.8775 holds. A whole number, and one that 32 bits can't hold, stays as it is."""
    if value.is_integer() or ctypes.c_float(value).value != value:
        return value
    tried = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return next((number for number in tried if ctypes.c_float(number).value == value), value)


def count(number: float, thing: str) -> str:
    """`1 trial`, `2 trials`, `0.5 GPUs`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:,g}"
    return f"{shown} {thing}" + ("" if number == 1 else "s")


def listed(things: Sequence[object], most: int = 12) -> str:
    """`1, 2, 3, ...`: so many of them; `none` where there are none."""
    return ", ".join(map(str, things[:most])) + (", ..." if len(things) > most else "") or "none"


def plain_name(text: str, most: int = 100) -> str:
    """A text in the characters that the name of a sweep may have, and no more of them; "" where none is
    left."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:most].strip("-._")


def encodable(text: str) -> str:
    """A text as UTF-8 can hold it: names of files, and what programs report, may be none."""
    return text.encode(errors="backslashreplace").decode()


def show_paths_from(folder: Path) -> None:
    """Show paths relative to a folder, wherever this process goes."""
    global _shown_from
    _shown_from = folder


def shown_path(path: Path) -> str:
    """A path, relative when it is below the folder in which the command was typed."""
    here = _shown_from or Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def command(*words: str, folder: Path | None = None) -> str:
    """A command of this program, as it can be typed here: `sweeps run --resume results/NAME`.

    Args:
        words: behind `sweeps`.
        folder: where it runs, by `cd` unless it is the current one; None for the current one.
    """
    script = Path(sys.executable).with_name("sweeps")
    is_here = folder is None or folder.resolve() == Path.cwd()
    shown = shown_path if is_here else str  # a relative path is not valid in that folder
    if not script.is_file():
        program = [shown(Path(sys.executable)), "-m", "sweeps"]
    elif shutil.which("sweeps") == str(script):
        program = ["sweeps"]
    else:
        program = [shown(script)]
    typed = shlex.join([*program, *words])
    return (
        typed
        if folder is None or is_here
        else f"{shlex.join(['cd', shown_path(folder.resolve())])} && {typed}"
    )


def fitted(text: str, width: int | None, indent: int = 0) -> str:
    """A text whose lines are broken between words where they are wider than a terminal. What follows begins
    under the text behind the title. A line with a command stays whole, to be copied.

    Args:
        text: of lines.
        width: of the terminal; None: nothing is broken.
        indent: where the text behind a title begins, at least.
    """
    return text if width is None else "\n".join(_filled(line, width, indent) for line in text.split("\n"))


def _filled(line: str, width: int, indent: int) -> str:
    if len(line) <= width or _COMMAND.search(line):
        return line
    titled = _TITLE.match(line)
    below = " " * min(max(indent, titled.end() if titled is not None else 0), width // 2)
    return textwrap.fill(
        line,
        width,
        subsequent_indent=below,
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )


_TITLE = re.compile(r"\S+(?: \S+)*\s{2,}|\s+")
_COMMAND = re.compile(
    r"(?<!\S)(?:\S+ -m |\S*\b)sweeps "
    r"(?=(?:run|fit|report|queue|control|results|dashboard|prepare|ladder|init|demo|up|down|pcs) )"
    r"|(?<!\S)(?:cat|xdg-open) (?=\S*/)"
)


def pip_install(*what: str) -> str:
    """The command that installs a package for this Python; uv makes environments without pip."""
    python = shown_path(Path(sys.executable))
    # Not by all finders: that of setuptools takes it for an import of pip, and then can't be imported itself.
    has_pip = PathFinder.find_spec("pip") is not None
    pip = [python, "-m", "pip", "install"] if has_pip else ["uv", "pip", "install", "--python", python]
    return shlex.join([*pip, *what])


def size(bytes_: float) -> str:
    """`12 kB`, `3.4 MB`, `250 GB`: powers of ten."""
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 999.5:
            return f"{bytes_:.3g} {unit}" if unit != "B" else f"{bytes_:.0f} B"
        bytes_ /= 1000
    return f"{bytes_:.3g} TB"


def bytes_of(text: str) -> float | None:
    """The bytes of `500 MB`, `20GB` or `1.5tb`; None of any other text."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmgt]b)", text.strip().lower())
    return float(found[1]) * _UNITS[found[2]] if found else None


def duration(seconds: float) -> str:
    """`42 s`, `3 min 10 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def moment(seconds: float) -> str:
    """`since 14:05 on 2026-01-31`, of seconds since 1970."""
    return time.strftime("since %H:%M on %Y-%m-%d", time.localtime(seconds))


def rough(seconds: float) -> str:
    """A duration that is not known exactly, in two digits: `40 s`, `12 min`, `3.5 h`, `2.1 d`."""
    unit, length = next((unit, length) for unit, length, most in _DURATIONS if seconds < most * length)
    amount = seconds / length
    return f"{amount:.1f} {unit}" if unit in ("h", "d") and amount < 9.95 else f"{amount:.0f} {unit}"


_DURATIONS = (("s", 1, 90), ("min", 60, 90), ("h", 3600, 48), ("d", 86400, math.inf))
"""Each with its seconds, and up to how many of it are told."""

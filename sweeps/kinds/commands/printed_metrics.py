"""Find the metrics of an epoch in what a program writes: `val_acc=0.91 epoch=3`, or JSON; and which of the
program's epochs it is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import short

EPOCH = "epoch"
MOST_BYTES = 64 * 1024
"""Of a line; a longer one is read in parts."""
MOST_NAMES = 64
"""Of metrics between two reports."""
TAIL_BYTES = 1024
"""By which a file is known as the one that was read."""
_NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)(?![\w]|[.,]\d)"
# In Python's dicts names are quoted, and numbers may be `tensor(0.9)`, `np.float64(0.9)` or `[0.9]`.
_NAME = r"[A-Za-z_][\w./@-]*"
_NAMED = rf"""(?<![\w./@-])(?:(['"])({_NAME})\1|(?<!['"])({_NAME}))"""
_VALUE = rf"['\"]?(?:[\w.]+\()?(?P<in>\[ ?)?({_NUMBER})(?(in) ?\])"
_PAIR = re.compile(rf"{_NAMED}\s*[=:]\s*{_VALUE}(?: ?/ ?(\d+)\b(?![.,/]\d))?", re.I)
_ONLY_NUMBER = re.compile(_NUMBER, re.I)
_SECONDS = re.compile(r"\s?(?:m?s|secs?|seconds)\b(?!\s*[=:])", re.I)
"""Behind a number, which then is the time of an epoch and not its name."""
_EPOCH = re.compile(rf"\bepoch\s*\[?(\d+)\b(?!\.\d*[1-9]|\.\d+[a-z]|(?:\.\d*)?{_SECONDS.pattern})", re.I)
_OF_R = re.compile(r'\[\d+\] "(.*)"\s*')
"""A text as R's `print` shows it."""
_PLACES = {EPOCH, "epochs", "step", "batch", "iter", "iteration", "fold"}
"""Names of what `3/10` is the third of ten, and no share."""
_ENDS = re.compile(rb"[\r\n\x08]+")
"""Ends of lines, and of states of a progress bar."""
_COLORS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Found:
    """The metrics of a report."""

    metrics: Mapping[str, float]
    epoch: float | None
    """As the program counts it, also a part of one, as 1.5; None where it does not say."""
    names_epoch: bool = False
    """Whether its own line says which epoch it is, and not one before."""


class Lines:
    """The whole lines of what comes in parts."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, part: bytes) -> Iterator[str]:
        """The lines that a part ends."""
        *lines, self._rest = _ENDS.split(self._rest + part)
        if len(self._rest) > MOST_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            yield _COLORS.sub(b"", line).decode(errors="replace")

    def end(self, part: bytes = b"") -> Iterator[str]:
        """The lines of the last part."""
        return self.add(part + b"\n")


class GrowingFile:
    """The lines of a file to which a program appends. It may make the file anew before its first line."""

    def __init__(self, file: Path) -> None:
        self._path, self._lines = file, Lines()
        self._position, self._tail = 0, b""
        """Up to where it was read, and the last bytes before."""

    def new(self, *, at_the_end: bool = False) -> Iterator[str]:
        """The lines since the last call.

        Raises:
            OverwrittenError: what was read is no longer there.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._position - len(self._tail))
                if file.read(len(self._tail)) != self._tail:
                    raise OverwrittenError
                part = file.read()
        except FileNotFoundError:
            if self._position:
                raise OverwrittenError from None
            return
        self._position += len(part)
        self._tail = (self._tail + part)[-TAIL_BYTES:]
        yield from self._lines.end(part) if at_the_end else self._lines.add(part)


class OverwrittenError(Exception):
    """A program has overwritten a file to which it is to append."""


class Reports:
    """Makes reports of lines.

    Args:
        wanted: metrics that a report must have, the first one ends it.
        ignored: names that are none, as those of hyperparameters.
    """

    def __init__(self, wanted: Sequence[str], ignored: Collection[str]) -> None:
        self._wanted, self._ignored = tuple(wanted), ignored
        self._known: dict[str, float] = {}
        self._epoch: float | None = None
        self._reported: float | None = None
        """The epoch of the last report."""
        self._names_epoch = False
        self.names: dict[str, None] = {}
        """Of all metrics that were met."""

    def add(self, found: Mapping[str, float], *, are_metrics: bool) -> Iterator[Found]:
        """The report that some numbers complete, if they do. One that lacks another metric than the first
        waits for it, until the first one comes again. Numbers that come later than the report of the epoch
        that they name are of none.

        Args:
            found: name to number.
            are_metrics: whether all are metrics. Else those are that come together with a wanted one: a
                program prints many numbers.
        """
        first = self._wanted[0]
        if are_metrics and first not in found and EPOCH in found and found[EPOCH] == self._reported:
            return
        if first in found and first in self._known:
            yield self._take()
        is_taken = are_metrics or any(name in found for name in self._wanted)
        for name, value in found.items():
            if name.lower() == EPOCH:
                number = int(value) if value.is_integer() else value
                self._epoch = number if math.isfinite(number) else None
                self._names_epoch |= first in found
            elif name not in self._ignored:
                self.names[name] = None
                if is_taken and (name in self._wanted or len(self._known) < MOST_NAMES):
                    self._known[name] = value
        if all(name in self._known for name in self._wanted):
            yield self._take()

    def rest(self) -> Iterator[Found]:
        """The report that lacks a metric when the program has ended."""
        if self._wanted[0] in self._known:
            yield self._take()

    def _take(self) -> Found:
        taken = Found(self._known, self._epoch, self._names_epoch)
        self._known, self._epoch, self._names_epoch, self._reported = {}, None, False, self._epoch
        return taken


class ProgramEpochs:
    """The epochs that a program reports, as it counts them itself.

    Args:
        metric: of each report.
        last: that its checkpoint has; None where it has named none, or starts.
        are_named: whether it is known to name them all.
        before: how many reports come first that are known from its checkpoint; the program may go on from
            an earlier epoch than theirs, and report these again.
    """

    def __init__(
        self, metric: str, last: float | None = None, *, are_named: bool = False, before: int = 0
    ) -> None:
        self._metric, self.last, self.are_named = metric, last, are_named
        self._before, self._has_new = before, False
        self._found: dict[float, Found] = {}
        """Since the start of this process."""

    def take(self, found: Found) -> bool:
        """Whether a report is a new one, which it then is no more. Where a program names its epochs, one
        without a name is of none, such as the best value at the end. A single line before a report, as that
        of the epoch from which it goes on, names none. One of a part of an epoch counts behind all others
        alone: it may be the last one again, or a time.

        Raises:
            CannotTrain: an epoch was reported before, with another value.
        """
        epoch, is_known, self._before = found.epoch, self._before > 0, max(0, self._before - 1)
        is_part = epoch is not None and not float(epoch).is_integer()
        if epoch is None or (is_part and not (self.are_named and found.names_epoch)):
            if not self.are_named:
                self.last = None
                self._found.clear()
            return not self.are_named
        if self.last is not None and epoch <= self.last:
            if self._has_new and not is_part:
                self._refuse_other(epoch, found)
            return False
        self._has_new |= not is_known
        self.are_named |= found.names_epoch or bool(self._found)
        self.last, self._found[epoch] = epoch, found
        return True

    def _refuse_other(self, epoch: float, found: Found) -> None:
        known, metric = self._found.get(epoch), self._metric
        if known is not None and _is_rounded(known.metrics[metric], found.metrics[metric]):
            return
        if epoch == self.last and known is not None:
            if known.names_epoch and found.names_epoch:
                values = f"{short(known.metrics[metric])} and then {short(found.metrics[metric])}"
                raise CannotTrain(
                    f"epoch {epoch} was reported twice, with {metric}={values}: report {metric} once for "
                    "each epoch, or leave out the number of the epoch"
                )
            return
        raise CannotTrain(
            f"epoch {epoch} was reported behind epoch {self.last}, with {metric}="
            f"{short(found.metrics[metric])}: let the numbers of the epochs grow, also where a phase or a "
            "fold begins, or leave them out"
        )


def _is_rounded(number: float, other: float) -> bool:
    """Whether a number was printed again, perhaps with fewer digits."""
    if number == other or (math.isnan(number) and math.isnan(other)):
        return True
    short_form, long_form = sorted((repr(number), repr(other)), key=len)
    digits = len(short_form.partition(".")[2])
    return "e" not in short_form and round(float(long_form), digits) == float(short_form)


def metrics_in(line: str) -> dict[str, float]:
    """Name to number of a line: of JSON, or of `name=value` and `name: value`. `Accuracy: 95/100` is 0.95."""
    if of_r := _OF_R.fullmatch(line):
        line = of_r[1].replace('\\"', '"')
    if line.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            return dict(_flat(json.loads(line)))
    found = {}
    for match in _PAIR.finditer(line):
        name, number, whole = match[2] or match[3], float(match[5]), float(match[6] or 0)
        if name.lower() == EPOCH and _SECONDS.match(line, match.end()):
            continue
        is_share = whole > 0 and number.is_integer() and name.lower() not in _PLACES
        found[name] = number / whole if is_share else number
    if (epoch := _EPOCH.search(line)) and EPOCH not in map(str.lower, found):
        found[EPOCH] = float(epoch[1])
    return found


def _flat(content: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of JSON; those of an inner object behind its name and a point."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(content, bool) or not prefix:
        return
    elif isinstance(content, int | float) or (isinstance(content, str) and _ONLY_NUMBER.fullmatch(content)):
        with suppress(OverflowError):
            yield prefix, float(content)

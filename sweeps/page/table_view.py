"""A table that the server sorts, filters and divides into pages, as the address of a page says, and the small
curves in it, as points of a line of SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Row = TypeVar("Row")
ROWS_A_PAGE = 100
MARGIN = 2.0
"""Of a small curve to the edge, in pixels."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column, and how rows are sorted by it."""

    name: str
    """In addresses."""
    title: str
    key: Callable[[Row], Any]
    """None of a row that has no value there: those are last."""
    begins_high: bool = False
    """Whether the first click sorts the greatest first."""
    is_number: bool = False


@dataclass(frozen=True)
class TableView(Generic[Row]):
    """Which rows are shown, and in which order."""

    text: str
    """Words that must all be in a row."""
    status: str
    """That rows must have; "" for all."""
    sort: str
    """Name of a column, behind `-` where the greatest is first."""
    page: int
    """From 1."""
    columns: Mapping[str, Column[Row]]

    @classmethod
    def asked(
        cls, query: Mapping[str, str], columns: Sequence[Column[Row]], default_sort: str
    ) -> TableView[Row]:
        """By the parameters of an address; words that mean nothing count as not given."""
        named = {column.name: column for column in columns}
        sort, page = query.get("sort", ""), query.get("page", "1")
        return cls(
            text=query.get("text", "").strip(),
            status=query.get("status", ""),
            sort=sort if sort.removeprefix("-") in named else default_sort,
            page=int(page) if page.isascii() and page.isdecimal() and 0 < len(page) < 8 and int(page) else 1,
            columns=named,
        )

    def of(
        self, rows: Collection[Row], status_of: Callable[[Row], str], words_of: Callable[[Row], str]
    ) -> TablePage[Row]:
        """Those of these rows, in order, by the status and all words of each, in small letters."""
        words = self.text.casefold().split()
        found = [
            row
            for row in rows
            if self.status in ("", status_of(row)) and (not words or _has(words_of(row), words))
        ]
        found = self._sorted(found)
        pages = max(1, math.ceil(len(found) / ROWS_A_PAGE))
        page = min(self.page, pages)
        first = (page - 1) * ROWS_A_PAGE
        return TablePage(found[first : first + ROWS_A_PAGE], len(found), len(rows), page, pages, first)

    def sort_by(self, column: Column[Row]) -> str:
        """What a click on the title of a column asks for."""
        if self.sort.removeprefix("-") == column.name:
            return column.name if self.sort.startswith("-") else f"-{column.name}"
        return f"-{column.name}" if column.begins_high else column.name

    def aria_sort(self, column: Column[Row]) -> Literal["descending", "ascending", ""]:
        """How the table is sorted by a column, as a screen reader says it; "" where it is not."""
        if self.sort.removeprefix("-") != column.name:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"

    def _sorted(self, rows: Sequence[Row]) -> list[Row]:
        column, is_down = self.columns.get(self.sort.removeprefix("-")), self.sort.startswith("-")
        if column is None:
            return list(rows)
        keys = [(column.key(row), row) for row in rows]
        known = [(_comparable(key), row) for key, row in keys if not _is_missing(key)]
        known.sort(key=lambda each: each[0], reverse=is_down)
        return [row for _, row in known] + [row for key, row in keys if _is_missing(key)]


@dataclass(frozen=True)
class TablePage(Generic[Row]):
    """The rows of a page."""

    rows: Sequence[Row]
    found: int
    """How many rows the filters let through."""
    total: int
    """How many there are."""
    page: int
    pages: int
    first: int
    """How many rows are on the pages before."""


def _has(text: str, words: Sequence[str]) -> bool:
    return all(word in text for word in words)


def _is_missing(key: Any) -> bool:
    return key is None or (isinstance(key, float) and math.isnan(key))


def _comparable(key: Any) -> tuple[bool, Any]:
    """Numbers before words, as a hyperparameter may have both."""
    is_number = isinstance(key, int | float)
    return not is_number, key if is_number else str(key).casefold()


@dataclass(frozen=True)
class Frame:
    """The axes of small curves that are to be compared."""

    across: tuple[float, float]
    """First and last value that is drawn."""
    up: tuple[float, float]
    """Lowest and highest value; a point beyond is drawn at the edge."""
    width: int
    """In pixels."""
    height: int

    def points(self, curve: Iterable[tuple[float, float]]) -> str:
        """The points of a line through finite points, for `<polyline points>`."""
        width, height = self.width - 2 * MARGIN, self.height - 2 * MARGIN
        found = [
            (MARGIN + width * _share(x, *self.across), self.height - MARGIN - height * _share(y, *self.up))
            for x, y in curve
            if math.isfinite(y)
        ]
        if len(found) == 1:  # a line of one point is not drawn
            found.append((found[0][0] + 3, found[0][1]))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in found)


def _share(at: float, low: float, high: float) -> float:
    """How far a value is between two others, from 0 to 1."""
    return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.5

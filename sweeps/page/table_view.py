"""A table that the server sorts, filters and divides into pages, as the address of a page says."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Row = TypeVar("Row")


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
    rows_a_page: int
    columns: Mapping[str, Column[Row]]

    @classmethod
    def asked(
        cls,
        query: Mapping[str, str],
        columns: Sequence[Column[Row]],
        default_sort: str,
        rows_a_page: int = 10**9,
    ) -> TableView[Row]:
        """By the parameters of an address; words that mean nothing count as not given."""
        named = {column.name: column for column in columns}
        sort, page = query.get("sort", ""), query.get("page", "1")
        return cls(
            text=query.get("text", "").strip(),
            status=query.get("status", ""),
            sort=sort if sort.removeprefix("-") in named else default_sort,
            page=int(page) if page.isascii() and page.isdecimal() and 0 < len(page) < 8 and int(page) else 1,
            rows_a_page=rows_a_page,
            columns=named,
        )

    def of(
        self, rows: Collection[Row], status_of: Callable[[Row], str], words_of: Callable[[Row], str]
    ) -> TablePage[Row]:
        """Those of these rows, in order.

        Args:
            rows: all that there are.
            status_of: status of a row.
            words_of: all words of a row, in small letters.
        """
        words = self.text.casefold().split()
        found = [
            row
            for row in rows
            if self.status in ("", status_of(row)) and (not words or _has(words_of(row), words))
        ]
        found = self._sorted(found)
        pages = max(1, math.ceil(len(found) / self.rows_a_page))
        page = min(self.page, pages)
        first = (page - 1) * self.rows_a_page
        return TablePage(found[first : first + self.rows_a_page], len(found), len(rows), page, pages, first)

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

"""The page of a report, and what is read on it."""

from __future__ import annotations

import html
import re
from pathlib import Path

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import page as report_page


def page_of(folder: Path) -> str:
    """The page, without plotly's own program: nothing of that is of the sweep."""
    return without_program(report_page.page(analysis_sweep.load(folder).record))


def without_program(page: str) -> str:
    scripts = re.findall(r"<script>.*?</script>", page, flags=re.S)
    assert len(scripts) == 3, "plotly, what draws, and what sorts"
    assert len(max(scripts, key=len)) > 2_000_000
    return page.replace(max(scripts, key=len), "")


def words_of(page: str) -> str:
    """What is read on it."""
    seen = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", seen)))

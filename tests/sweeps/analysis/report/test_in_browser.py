"""A report in a browser: sorted, unfolded, dark, on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import page as report_page
from tests.support import browser
from tests.support.browser import Chromium, Page
from tests.support.kinds import write

FIRST_COLUMN = "[...document.querySelectorAll('#trials tbody tr')].map(row => +row.cells[0].textContent)"
SHOWN = "[...document.querySelectorAll('#trials tbody tr')].filter(row => row.offsetParent).length"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with browser.chromium(1400, 900) as running:
        yield running


@pytest.fixture
def page(chromium: Chromium, tmp_path: Path) -> Page:
    report = report_page.write(analysis_sweep.load(write("pruned", tmp_path / "pruned")).record)
    opened = chromium.open(report.as_uri())
    opened.wait_for("document.body && document.body.dataset.drawn > 5")
    return opened


@pytest.mark.slow
def test_a_table_is_sorted_by_the_keyboard_and_all_of_its_rows_can_be_reached(page: Page) -> None:
    assert page.value(SHOWN) == 20
    page.value("document.querySelector('#trials th button').focus()")
    press_enter(page)
    assert page.value(FIRST_COLUMN) == list(range(30))
    assert page.value("document.querySelector('#trials th').getAttribute('aria-sort')") == "ascending"
    press_enter(page)
    assert page.value(FIRST_COLUMN) == list(range(30))[::-1]
    assert page.value("document.querySelectorAll('#trials [aria-sort]').length") == 1
    page.click("Show all 30 rows")
    assert page.value(SHOWN) == 30


@pytest.mark.slow
def test_figures_follow_the_theme_and_fill_the_width(page: Page) -> None:
    colors = "[...new Set([...document.querySelectorAll('figure .xtick text')].map(e => e.style.fill))]"
    light = page.value(colors)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = page.wait_for(f"JSON.stringify({colors}) !== '{str(light).replace(chr(39), chr(34))}' && {colors}")
    assert (len(light), len(dark)) == (1, 1)
    assert dark != light
    page.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=False)
    page.wait_for("document.querySelector('#figure-history .main-svg').clientWidth < 390")
    assert page.value("document.documentElement.scrollWidth <= innerWidth"), "nothing is cut"


@pytest.mark.slow
def test_on_paper_figures_share_pages_and_fit_them(page: Page) -> None:
    page.value("dispatchEvent(new Event('beforeprint'))")
    widths = page.value("[...document.querySelectorAll('figure .main-svg')].map(e => e.clientWidth)")
    assert max(widths) <= 686, "an A4 page"
    assert sum(width < 343 for width in widths) >= 6, "two figures beside each other"
    page.value("dispatchEvent(new Event('afterprint'))")
    assert page.value("document.querySelector('#figure-timeline .main-svg').clientWidth") > 1000


def press_enter(page: Page) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key="Enter",
            code="Enter",
            text="\r",
            windowsVirtualKeyCode=13,
        )

"""A report of a sweep with numbers beside its parts, which `docs/reading-the-report.md` explains."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.docs.pages import BY_NAME
from tests.support import browser

WIDTH, HEIGHT = 1280, 9_000
"""Of the window: all of a report is seen at once."""
COLORS = 200


@dataclass(frozen=True)
class Part:
    """A picture of some sections.

    Args:
        name: of the picture.
        first: the element where it begins, as CSS has it.
        last: the element with which it ends.
        marked: the element beside which each number stands.
    """

    name: str
    first: str
    last: str
    marked: tuple[str, ...]


def figure(name: str) -> str:
    """A figure with its heading, as CSS has it."""
    return f".drawn:has(#figure-{name})"


PARTS = (
    Part("summary", "header", ".summary", (".summary",)),
    Part(
        "result",
        "#result",
        "#result",
        ("#result .answer", "#result .answer + p", "#result .table", figure("history"), figure("seeds")),
    ),
    Part("next-steps", "#next-steps", "#next-steps", ("#next-steps ol", "#next-steps .table")),
    Part("trials", "#trials", "#trials", ("#trials thead", "#trials tbody tr")),
    Part(
        "learning",
        "#learning-and-pruning",
        "#learning-and-pruning",
        ("#learning-and-pruning .table", figure("learning_curves"), figure("metrics")),
    ),
    Part(
        "hyperparameters",
        "#hyperparameters",
        "#hyperparameters",
        tuple(map(figure, ("importance", "parallel_coordinates", "slices", "contour"))),
    ),
    Part(
        "cost",
        "#cost",
        "#cost",
        ("#cost p", *map(figure, ("time_spent", "utilization", "timeline"))),
    ),
    Part(
        "settings",
        "#settings-and-search-space",
        "#settings-and-search-space",
        ("#settings-and-search-space p",),
    ),
)
ROOM = """
document.documentElement.style.overflow = 'hidden';
document.querySelector('.contents').style.position = 'static';
document.body.style.paddingLeft = '44px';
figures.draw()
"""
"""Without scroll bars, without the contents over what is below them, and with room for the numbers."""
MARK = """
(parts => {
  const left = selector => document.querySelector(selector).getBoundingClientRect().left;
  const top = selector => document.querySelector(selector).getBoundingClientRect().top + scrollY;
  const end = selector => document.querySelector(selector).getBoundingClientRect().bottom + scrollY;
  let number = 0;
  for (const part of parts) for (const selector of part.marked) {
    const mark = document.createElement("b");
    mark.textContent = ++number;
    mark.style.cssText = `position: absolute; z-index: 9; width: 26px; height: 26px;
      left: ${Math.max(2, left(selector) - 32)}px; top: ${top(selector) - 4}px; font-size: 14px;
      border-radius: 13px; background: #b3261e; color: white; text-align: center; line-height: 26px`;
    document.body.append(mark);
  }
  return parts.map(part => [top(part.first), end(part.last)]);
})(%s)
"""


def draw(report: Path, folder: Path) -> None:
    """The pictures, one for each of `PARTS`."""
    folder.mkdir(parents=True, exist_ok=True)
    told = [{"first": part.first, "last": part.last, "marked": part.marked} for part in PARTS]
    with browser.chromium(WIDTH, HEIGHT) as chromium:
        page = chromium.open(report.resolve().as_uri())
        page.wait_for("document.body && document.body.dataset.drawn")
        page.value(ROOM)
        places = page.value(MARK % json.dumps(told))
        whole = folder / "whole.png"
        page.screenshot(whole)
    with Image.open(whole) as picture:
        for part, (top, end) in zip(PARTS, places, strict=True):
            save(picture.crop((0, max(0, int(top) - 12), WIDTH, int(end) + 12)), folder / f"{part.name}.png")
    whole.unlink()


def numbers_explained() -> list[int]:
    """Those that the page explains, in its order."""
    return [int(number) for number in re.findall(r"^\*\*(\d+)\*\*", BY_NAME["reading-the-report"].text, re.M)]


def save(picture: Image.Image, file: Path) -> None:
    """As a small file."""
    picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(file, optimize=True)

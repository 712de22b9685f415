"""A chart as SVG, on a background of its own: it is read on a light and on a dark page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

FONTS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
TEXT, FAINT, EDGE, OWN, OTHER = "#1f2328", "#59636e", "#d1d9e0", "#0969da", "#afb8c1"


def chart(width: int, height: int, title: str, subtitle: str, content: Sequence[str]) -> str:
    """The whole file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="{FONTS}" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#ffffff" '
            f'stroke="{EDGE}"/>',
            text(20, 32, title, size=17, weight=600),
            text(20, 53, subtitle, FAINT),
            *content,
            "</svg>",
            "",
        ]
    )


def bar(left: float, top: float, width: float, thickness: float, fill: str) -> str:
    return f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{thickness}" rx="2" fill="{fill}"/>'


def whisker(low: float, high: float, middle: float) -> str:
    """An interval, from x to x."""
    ends = " ".join(f"M{x:g} {middle - 4:g}v8" for x in (low, high))
    return f'<path d="M{low:g} {middle:g}H{high:g} {ends}" stroke="{TEXT}" stroke-width="1.3"/>'


def text(x: float, y: float, content: str, fill: str = TEXT, size: int = 13, weight: int = 400) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" font-weight="{weight}">'
        f"{escape(content)}</text>"
    )

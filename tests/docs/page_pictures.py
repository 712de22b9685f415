"""Make the pictures of the page in the browser, of docs/dashboard.md:

    python -m tests.docs.page_pictures FOLDER SWEEP

FOLDER holds some sweeps, of which one is SWEEP; best of all one that runs. It needs chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.docs import marked_report
from tests.docs.pictures import IMAGES
from tests.support import browser, dashboards

WIDTH, LIST_HEIGHT, SWEEP_HEIGHT = 1200, 420, 1020
DRAWN = "document.querySelectorAll('#sections-result .main-svg').length > 0"


def draw(folder: Path, sweep: str) -> None:
    """The list of sweeps, and the page of one."""
    pictures = IMAGES / "dashboard"
    pictures.mkdir(exist_ok=True)
    with dashboards.served(folder) as served:
        for name, path, height, is_there in (
            ("sweeps", "/", LIST_HEIGHT, f"!!document.getElementById('sweep-{sweep}')"),
            ("sweep", f"/sweep/{sweep}", SWEEP_HEIGHT, DRAWN),
        ):
            with browser.chromium(WIDTH, height + 100) as chromium, tempfile.TemporaryDirectory() as seen:
                page = chromium.open(served.entry)
                page.wait_for(f"!!document.getElementById('sweep-{sweep}')")
                page.go(served.url + path)
                page.wait_for(is_there)
                page.value("document.documentElement.style.overflow = 'hidden'")
                page.screenshot(Path(seen, "seen.png"), (WIDTH, height))
                with Image.open(Path(seen, "seen.png")) as picture:
                    marked_report.save(picture, pictures / f"{name}.png")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), sys.argv[2])

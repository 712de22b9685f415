"""Make the pictures of the tutorial and of the report's page again:

    python -m tests.docs.pictures walk FOLDER     walk the tutorial on two PCs of a lab, and record it
    python -m tests.docs.pictures draw FOLDER     draw what was recorded, into docs/images/

The walk takes some minutes, and needs root, iproute2, openssh-server, rsync and chromium. It prints all that
the commands print, of which the pages show parts as text. A picture shows the path of FOLDER.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

from sweeps.record import lock
from tests import ROOT
from tests.docs import marked_report, tutorial
from tests.support import browser, dashboards, lab, terminals
from tests.support.terminals import Recording, Rows

IMAGES = ROOT / "docs" / "images"
PRIORITY = -19
"""So that other programs of this PC do not slow down what the pictures show."""
SCREENS = {
    "first": ("sweeps run tune_digits --name first", "left (", "^C", "Stopping."),
    "interrupted": ("sweeps run tune_digits --name first",),
    "resumed": ("sweeps run --resume first",),
    "joined": ("sweeps run --refine first --name second", "4 training", "about to leave"),
    "second": ("sweeps run --refine first --name second",),
}
"""By picture: the command, and the last of its screens that has a text and lacks others."""


def walk(folder: Path) -> None:
    """Walk the tutorial, and keep what was seen."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lab").mkdir(parents=True)
    with lab.made(folder / "lab", net=tutorial.NET) as made:
        made.add(3)
        reader = tutorial.Reader(made, PRIORITY)
        try:
            tutorial.walk(reader, lambda sweep: _dashboard(reader.folder(sweep), folder / f"{sweep}.png"))
        finally:
            for number, (command, recording) in enumerate(reader.recordings.items()):
                recording.write(folder / f"{number:02d}.cast")
                print(f"== {number:02d} {command}", *recording.lines(), sep="\n", flush=True)
            (folder / "commands.json").write_text(json.dumps(list(reader.recordings)))
            shutil.copytree(reader.folder(""), folder / "results", dirs_exist_ok=True)


def draw(folder: Path) -> None:
    """Draw what a walk has left in a folder."""
    pictures = IMAGES / "tutorial"
    pictures.mkdir(exist_ok=True)
    commands = json.loads((folder / "commands.json").read_text())
    for name, (begin, *texts) in SCREENS.items():
        number = next(number for number, command in enumerate(commands) if command.startswith(begin))
        recording = Recording.read(folder / f"{number:02d}.cast")
        rows = last_screen(recording, *texts)
        (pictures / f"{name}.svg").write_text(terminals.still(rows, recording.columns))
    with Image.open(folder / "first.png") as seen:
        marked_report.save(seen, pictures / "dashboard.png")
    _top_of_report(folder / "results" / "first" / "report.html", pictures / "report.png")
    marked_report.draw(folder / "results" / "second" / "report.html", IMAGES / "report")


def last_screen(recording: Recording, has: str = "", *lacks: str) -> Rows:
    """The last screen of a command that has a text, and lacks others."""
    for _, rows in reversed(terminals.frames_of(recording)):
        text = "\n".join(" ".join(piece.text for piece in row) for row in rows)
        if has in text and not any(each in text for each in lacks):
            return rows[: max(number for number, row in enumerate(rows, start=1) if row)]
    raise SystemExit(f"no screen has {has!r} and lacks {lacks}")


def _dashboard(sweep: Path, picture: Path) -> None:
    copied = picture.parent / "results" / sweep.name  # a path into a PC of the lab can't be resolved
    shutil.copytree(sweep, copied)
    with (
        lock.held(copied),  # it runs, as the one in the lab
        dashboards.served(copied.parent) as served,
        browser.chromium(1100, 900) as chromium,
    ):
        chromium.open(served.entry).wait_for_text(sweep.name)
        page = chromium.open(f"{served.url}/sweep/{sweep.name}")
        page.wait_for("document.querySelector('.main-svg')")
        page.value("document.documentElement.style.overflow = 'hidden'")
        page.screenshot(picture)


def _top_of_report(report: Path, picture: Path) -> None:
    with browser.chromium(1000, 830) as chromium:
        page = chromium.open(report.resolve().as_uri())
        page.wait_for("document.body && document.body.dataset.drawn")
        page.value("document.documentElement.style.overflow = 'hidden'")
        page.screenshot(picture)
    with Image.open(picture) as seen:
        marked_report.save(seen, picture)


if __name__ == "__main__":
    {"walk": walk, "draw": draw}[sys.argv[1]](Path(sys.argv[2]))

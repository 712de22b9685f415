"""What the page of all sweeps takes: `python -m benchmarks.page`

The command `sweeps dashboard`, asked as a browser asks it, over records that the real record wrote: 200 small
sweeps, of which three grow, and one of 10,000 trials. Of each repeat:

  url       from the command to the address that it prints
  first     the first page of the 200
  all_read  from the address to the page with the rows of all of them
  next      the same page once more, as a browser fetches it after each change
  large     the page of the sweep of 10,000 trials, from the list; then once more; by a server that has just
            started: opens, until it says that the record is being read, and first, until the page is there
  sections  what the page of that sweep fetches after it, and before that the result and the advice
  told      from an epoch in a record to the event that an open page gets
  idle      share of a core while nobody looks, and while one page is open and nothing changes
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import psutil

from benchmarks import _measure
from benchmarks._measure import Goal
from benchmarks.report import write
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.space.point import OptunaPoint, Point

SWEEPS, GROWING, LARGE_TRIALS, GROWTHS = 200, 3, 10_000, 20
SMALL, PRUNED = [3, 3, 9, 3, 3, 27], [3, 3, 9, 3, 3, 9, 3, 3, 27]
IDLE_S = 20.0
NONE_FOUND, BEING_READ = "No sweep is like that", 'id="being-read"'
"""In pages."""
FIGURES = (
    *(
        "url_s",
        "first_s",
        "all_read_s",
        "next_s",
        "large_s",
        "large_again_s",
        "large_opens_s",
        "large_first_s",
        "sections_s",
        "result_s",
        "told_s",
    ),
    *("idle_pct", "open_pct"),
)


class Page:
    """A server of the page in a process of its own, and a browser's part.

    Args:
        folder: of sweeps.
        environment: variables of the server.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        began = time.perf_counter()
        words = [sys.executable, "-m", "sweeps", "dashboard", str(folder), "--no-browser"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[0]
        self.url_s = time.perf_counter() - began
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def get(self, path: str, accepts: str = "*/*") -> tuple[float, str]:
        """Seconds until a page is there, and the page.

        Args:
            path: "" for the address that was printed.
            accepts: header of the request: a browser that opens a page asks for `text/html`, and is answered
                before a record is read that takes long.
        """
        root = self.url.partition("/?")[0]
        began = time.perf_counter()
        request = urllib.request.Request(root + path if path else self.url, headers={"Accept": accepts})
        with self._opener.open(request, timeout=120) as answer:
            content = answer.read().decode()
        return time.perf_counter() - began, content

    def wait_until_read(self) -> None:
        """Ask for the list until the rows of all sweeps are there."""
        while NONE_FOUND not in self.get("/?status=being+read")[1]:
            time.sleep(0.1)

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[Iterator[float]]:
        """The moments of the events of a stream."""
        with self._opener.open(self.url.partition("/?")[0] + path, timeout=60) as stream:
            yield (time.perf_counter() for line in stream if line.startswith(b"event:"))

    def busy_pct(self, seconds: float) -> float:
        """Of a core, in the next seconds."""
        process = psutil.Process(self.process.pid)
        before = process.cpu_times()
        time.sleep(seconds)
        after = process.cpu_times()
        return 100 * (after.user + after.system - before.user - before.system) / seconds

    def close(self) -> None:
        """End it, as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    runs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as place:
        small, large = Path(place, "small"), Path(place, "large")
        small.mkdir()
        large.mkdir()
        for number in range(SWEEPS):
            write(small / f"sweep_{number:03d}", 12, SMALL)
        write(large / "large", LARGE_TRIALS, PRUNED)
        Record.reopen(large / "large").end_run(Outcome.FINISHED)
        for repeat in range(asked.repeats):
            state = Path(place, f"state_{repeat}")
            busy = _measure.busy_cores()
            runs.append({"repeat": repeat, "busy_before": busy, **measured(small, large, state)})
            print(", ".join(f"{name} {runs[-1][name]:.2f}" for name in FIGURES), flush=True)
    medians = {name: _measure.median([run[name] for run in runs]) for name in FIGURES}
    rows = [[name, _measure.number(medians[name])] for name in FIGURES]
    print(_measure.table(["figure", "median"], rows))
    goals = [
        Goal("first_s", medians["first_s"], "<=", 1.0),
        Goal("large_s", medians["large_s"], "<=", 2.0),
        Goal("large_opens_s", medians["large_opens_s"], "<=", 2.0),
        Goal("large_first_s", medians["large_first_s"], "<=", 2.0),
        Goal("told_s", medians["told_s"], "<=", 1.5),
        Goal("idle_pct", medians["idle_pct"], "<=", 1.0),
    ]
    _measure.write("page", {"runs": runs, "medians": medians}, goals)
    return 0


def measured(small: Path, large: Path, state: Path) -> dict[str, float]:
    """The figures of one repeat, with a state folder of its own."""
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    found: dict[str, Any] = {}
    with contextlib.closing(Page(small, environment)) as page:
        found["url_s"] = page.url_s
        began = time.perf_counter()
        found["first_s"], _ = page.get("")
        page.wait_until_read()
        found["all_read_s"] = time.perf_counter() - began
        found["next_s"], _ = page.get("/")
        found["told_s"] = _measure.median(told(page, small))
        found["idle_pct"] = page.busy_pct(IDLE_S)
        with page.open("/events/sweeps"):
            found["open_pct"] = page.busy_pct(IDLE_S)
    with contextlib.closing(Page(large, environment)) as page:
        page.get("")
        page.wait_until_read()
        found["large_s"], _ = page.get("/sweep/large")
        found["large_again_s"], _ = page.get("/sweep/large")
        found["result_s"], _ = page.get("/sweep/large/sections?of=result")
        found["sections_s"], _ = page.get("/sweep/large/sections")
    with contextlib.closing(Page(large, environment)) as page:
        began = time.perf_counter()
        found["large_opens_s"], shown = page.get("/sweep/large?" + page.url.partition("?")[2], "text/html")
        while BEING_READ in shown:  # as the script of the page does: it waits, and loads the page anew
            page.get("/sweep/large")
            _, shown = page.get("/sweep/large", "text/html")
        found["large_first_s"] = time.perf_counter() - began
    return found


def told(page: Page, folder: Path) -> list[float]:
    """Seconds from an epoch to its event, with three records that grow in turn."""
    records = [Record.reopen(folder / f"sweep_{number:03d}") for number in range(GROWING)]
    trials = [record.begin(Point("toy", {"lr": 0.1}), OptunaPoint({}, {}), 0).number for record in records]
    seconds = []
    with page.open("/events/sweeps") as events:
        next(events)  # it is told at once that it has no version
        for count in range(GROWTHS):
            epoch, number = divmod(count, GROWING)
            time.sleep(0.3)
            began = time.perf_counter()
            records[number].report(trials[number], epoch + 1, 0.5, {"acc": 0.5}, 1.0)
            seconds.append(next(events) - began)
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=int, default=3, help="Times that each is measured (default: 3).")
    return parser


if __name__ == "__main__":
    sys.exit(main())

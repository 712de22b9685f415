"""The page of all sweeps in real Chromium: it follows the records, and leaves alone what somebody does."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.page.pcs_page import WATCH
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from tests.conftest import propose
from tests.support import browser
from tests.support.browser import Chromium, Page
from tests.support.dashboards import LR, Served, served, sweep

EVIL = "<img src=x onerror=window.hit=1>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with browser.chromium(1400, 700) as chromium:
        yield chromium


def many(folder: Path, number: int) -> None:
    """Sweeps of one trial each."""
    for nth in range(number):
        (folder / f"sweep-{nth:02d}").mkdir(parents=True)
        about = {"sweep": f"sweep-{nth:02d}", "metric": "acc", "trainable": "digits"}
        record = Record.create(folder / f"sweep-{nth:02d}", "s", "max", about)
        propose(record, {"lr": 0.1}, LR)
        record.report(0, 1, 0.5, {"acc": 0.5}, 1.0)
        record.end_run(Outcome.INTERRUPTED)


@pytest.mark.slow
def test_it_follows_a_sweep_and_keeps_focus_scroll_and_ticks(chromium: Chromium, tmp_path: Path) -> None:
    many(tmp_path / "results", 30)
    with served(tmp_path / "results") as page:
        shown = chromium.open(page.entry)
        shown.wait_for("document.querySelectorAll('tbody tr').length === 30")
        assert "token" not in shown.value("location.href")
        assert shown.value("document.cookie") == ""
        shown.value("document.querySelector('#sweep-sweep-07 input').click()")
        shown.value("document.querySelector('#text').focus()")
        shown.value("window.scrollTo(0, 400)")
        record = Record.reopen(tmp_path / "results" / "sweep-07")
        for epoch in (2, 3):
            record.report(0, epoch, 0.5 + epoch / 10, {"acc": 0.5 + epoch / 10}, 1.0)
            shown.wait_for(f"document.querySelector('#sweep-sweep-07 strong').innerText === '0.{5 + epoch}'")
        assert shown.value("document.activeElement.id") == "text"
        assert shown.value("window.scrollY") == 400
        assert shown.value("document.querySelectorAll('input:checked').length") == 1

        shown.value("document.querySelector('#text').value = 'sweep-1'")
        shown.value("document.querySelector('#text').dispatchEvent(new Event('input', {bubbles: true}))")
        shown.wait_for("document.querySelectorAll('tbody tr').length === 10")
        assert "text=sweep-1" in shown.value("location.search")
        # What is fetched at the next change is filtered, too.
        record.report(0, 4, 0.95, {"acc": 0.95}, 1.0)
        (tmp_path / "results" / "sweep-19").rename(tmp_path / "sweep-19")
        shown.wait_for("document.querySelectorAll('tbody tr').length === 9")
        shown.click("Name")
        shown.wait_for("document.querySelector('[aria-sort]').innerText.startsWith('Name')")
        assert shown.value("document.querySelector('tbody th').innerText") == "sweep-10"
    said = [event for event in chromium.said if event["method"] == "Runtime.exceptionThrown"]
    assert said == []


@pytest.mark.slow
def test_names_of_a_user_run_nothing(chromium: Chromium, tmp_path: Path) -> None:
    folder = tmp_path / "results" / EVIL
    folder.mkdir(parents=True)
    about = {
        "sweep": EVIL,
        "metric": EVIL,
        "trainable": f"<script>window.hit=2</script>{EVIL}",
        "tags": [EVIL],
    }
    record = Record.create(folder, EVIL, "max", about)
    propose(record, {"lr": 0.1}, LR)
    record.report(0, 1, 0.5, {EVIL: 0.5}, 1.0)
    with served(tmp_path / "results") as page:
        shown = chromium.open(page.entry)
        for path in ("/", f"/?text={EVIL}", f"/?status={EVIL}&sort={EVIL}"):
            shown.go(page.url + path)
            shown.wait_for("document.readyState === 'complete'")
            assert shown.value("window.hit ?? 0") == 0
            assert shown.value("document.querySelectorAll('main img, main script').length") == 0
        shown.go(page.url)
        shown.wait_for_text(EVIL)


@contextlib.contextmanager
def another_site() -> Iterator[str]:
    """A page of another program of this PC: cookies of a host are sent whatever the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>another site</p>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_another_site_reads_nothing_presses_no_button_and_frames_nothing(
    chromium: Chromium, page: Served
) -> None:
    chromium.open(page.entry).wait_for_text("Sweeps")
    with another_site() as url:
        shown = chromium.open(url)
        shown.wait_for_text("another site")
        read = f"fetch('{page.url}/', {{credentials: 'include'}}).then(r => r.text(), e => 'refused')"
        assert shown.value(read) == "refused"
        shown.value(f"document.body.innerHTML = '<iframe src={page.url}/></iframe>'")
        shown.wait_for("document.querySelector('iframe').contentDocument === null")
        assert page.page.listeners.number <= 1  # that of the page above
        form = f"<form method=post action={page.url}/pcs/back></form>"
        shown.value(f"document.body.innerHTML = '{form}', document.forms[0].submit()")
        shown.wait_for_text("This request does not come from this page.")
    assert page.app[WATCH].commands == []
    assert page.ask("/pcs/back", "POST").status == 303  # as the page itself presses it
    assert len(page.app[WATCH].commands) == 1


@pytest.mark.slow
@pytest.mark.parametrize("are_seen", [False, True])
def test_more_pages_of_trials_are_open_than_a_browser_opens_connections(
    chromium: Chromium, page: Served, results: Path, are_seen: bool
) -> None:
    def opened() -> Page:
        shown = chromium.open("about:blank")
        if are_seen:  # as in windows beside each other
            never = "Object.defineProperty(Document.prototype, 'hidden', {get: () => false})"
            shown.call("Page.addScriptToEvaluateOnNewDocument", source=never)
        shown.go(f"{page.url}/sweep/s/trial/4")
        shown.wait_for("!!document.querySelector('.js-plotly-plot')")
        return shown

    chromium.open(page.entry).wait_for_text("Sweeps")
    pages = [opened() for _ in range(7)]  # a browser opens six connections to a host
    Record.reopen(results / "s").annotate(4, note="told to all")
    for shown in pages if are_seen else pages[-1:]:
        shown.wait_for_text("told to all")


@pytest.mark.slow
def test_the_log_of_a_trial_is_followed_into_its_next_attempt(chromium: Chromium, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "s"
    (folder / "logs").mkdir(parents=True)
    record = sweep(folder)
    log = "document.querySelector('.log').innerText"
    with served(tmp_path / "results") as page:
        chromium.open(page.entry).wait_for_text("Sweeps")
        shown = chromium.open(f"{page.url}/sweep/s/trial/2")
        shown.wait_for_text("It has printed nothing yet.")
        first = folder / "logs" / f"{record.trials[2].name}.log"
        first.write_text("<b>first line</b>\n")
        shown.wait_for(f"{log} === '<b>first line</b>\\n'")
        shown.wait_for_text(first.name)
        assert "printed nothing" not in shown.text
        chromium.open("about:blank")
        assert shown.value("document.hidden")
        with first.open("a") as file:
            file.write("second line\n")
        shown.call("Page.bringToFront")
        shown.wait_for(f"{log} === '<b>first line</b>\\nsecond line\\n'")
        record.open_again(2, 0, "retry")
        second = folder / "logs" / f"{record.trials[2].name}.log"
        second.write_text("of the second attempt\n")
        shown.wait_for(f"{log} === 'of the second attempt\\n'")
        shown.wait_for_text(second.name)
        assert page.page.listeners.number <= 2


@pytest.mark.slow
def test_an_open_page_says_what_has_failed(chromium: Chromium, tmp_path: Path) -> None:
    folder = tmp_path / "results" / "s"
    folder.mkdir(parents=True)
    record = sweep(folder)
    fault = "document.querySelector('#server-fault').innerText"
    with served(tmp_path / "results") as page:
        chromium.open(page.entry).wait_for_text("Sweeps")
        shown = chromium.open(f"{page.url}/sweep/s/trial/0")
        shown.wait_for("document.querySelector('#steering summary') && htmx.version")
        assert shown.value(fault) == ""
    shown.wait_for(f"{fault} === 'The page\\'s server does not answer; it tries again.'")
    with served(tmp_path / "results", port=int(page.url.rpartition(":")[2])) as page:
        shown.wait_for(f"{fault} === ''")
        record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)  # it goes on
        shown.call("Network.enable")
        shown.call("Network.clearBrowserCookies")
        shown.value("document.querySelector('#steering form').requestSubmit()")
        shown.wait_for("document.querySelector('#answer').innerText.includes('needs the token')")
        chromium.open(page.entry).wait_for_text("Sweeps")
        shown.call("Page.bringToFront")
        folder.rename(tmp_path / "elsewhere")
        shown.wait_for("document.querySelector('main').innerText.includes('There is no sweep s')")

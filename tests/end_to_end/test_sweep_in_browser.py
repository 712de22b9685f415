"""A sweep is started, watched and steered in a real browser, until it has ended."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.page.typed_commands import TypedCommands
from sweeps.record.record import Record
from tests import ROOT
from tests.support import browser
from tests.support.browser import Page
from tests.support.dashboards import Served, served

SETTINGS = {
    "trainable": "digits_mlp",
    "num_trials": "2",
    "max_epochs": "100000",
    "max_concurrent": "2",
    "name": "pressed",
    "scheduler": "none",
    "searcher": "random",
}
OFF = ("baseline", "preflight", "ray_dashboard")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """The page of this project, with no sweep yet."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with served(tmp_path) as page:
        yield page
    for started in TypedCommands().every():
        if started.is_running:
            os.killpg(started.pid, signal.SIGKILL)


def type_into(page: Page, name: str, text: str) -> None:
    """As a user does: what listens is told."""
    field = f"document.getElementsByName({json.dumps(name)})[0]"
    page.wait_for(f"!!{field}")
    page.value(
        f"{field}.value = {json.dumps(text)}; {field}.dispatchEvent(new Event('input', {{bubbles: true}}));"
        f"{field}.dispatchEvent(new Event('change', {{bubbles: true}}))"
    )


def press(page: Page, css: str) -> None:
    page.wait_for(f"!!document.querySelector({json.dumps(css)})")
    page.value(f"document.querySelector({json.dumps(css)}).click()")


def send(page: Page, command: str, **fields: str) -> None:
    """Open a form of a sweep, fill it in and press its button."""
    form = f"form:has(input[name=command][value={command}])"
    page.wait_for(f"!!document.querySelector({json.dumps(form)})")
    for name, text in fields.items():
        field = json.dumps(f"{form} [name='word.{name}']")
        page.value(f"document.querySelector({field}).value = {json.dumps(text)}")
    press(page, f"{form} button")


def test_a_sweep_from_the_form_to_its_end(page: Served, tmp_path: Path) -> None:
    with browser.chromium(height=1400) as chromium:
        shown = chromium.open(page.entry)
        shown.wait_for_text("No sweep is in")
        shown.click("Start")
        for name, text in {**SETTINGS, "results_dir": str(tmp_path)}.items():
            type_into(shown, f"setting.{name}", text)
        for name in OFF:
            press(shown, f"[name='setting.{name}']")
        shown.wait_for_text("folder     ")
        assert "--no-preflight" in shown.text
        shown.click("Start")  # the button, which is the last one of this name
        shown.wait_for("location.pathname.startsWith('/started/')")
        press(shown, "a.button[href='/sweep/pressed']")
        # Nothing is loaded anew from here on: what is shown comes by itself.
        shown.wait_for("document.querySelectorAll('#at-work li a').length == 2")
        shown.wait_for("Number(document.querySelector('#trial-0 [data-title=epochs]')?.innerText) > 1")
        shown.wait_for("document.querySelector('#sections-rest figure svg') !== null")
        shown.value("window.asked = 0; window.confirm = () => { window.asked += 1; return true }")
        send(shown, "stop", trial="0")
        shown.wait_for_text("Trial 0 stops")
        assert shown.value("window.asked") == 1
        send(shown, "try", point="lr=0.01 momentum=0.5 hidden=16")
        shown.wait_for_text("Trial 2 will have these hyperparameters")
        send(shown, "note", text="of a <b>browser</b>")
        shown.wait_for("document.querySelector('#now .note')?.innerText == 'of a <b>browser</b>'")
        send(shown, "try", point="lr=9")
        shown.wait_for_text("Refused")
        shown.wait_for("document.querySelector('#trial-2') !== null")
        type_into(shown, "status", "stopped")
        shown.wait_for("document.querySelectorAll('tr[id^=trial-]').length == 1")
        assert shown.value("location.search").startswith("?text=&status=stopped")
        type_into(shown, "status", "")
        shown.wait_for("document.querySelectorAll('tr[id^=trial-]').length == 3")
        press(shown, "th a[hx-get*='sort=param.lr']")
        shown.wait_for("document.querySelector('th[aria-sort=ascending]')?.innerText.startsWith('lr')")
        press(shown, "#trial-1 th a")
        shown.wait_for_text("Trial 1 beside the best trials")
        shown.value("window.confirm = () => true")
        send(shown, "stop")
        shown.wait_for_text("Trial 1 stops")
        shown.wait_for("document.querySelector('#now .status-stopped') !== null")
        press(shown, ".trail a")
        # Before it is there, the page that is left would get the answer, and a form go without its script.
        shown.wait_for("location.pathname == '/sweep/pressed' && document.readyState == 'complete'")
        shown.value("window.confirm = () => true")
        send(shown, "stop", trial="2")
        shown.wait_for("document.querySelector('h1 .status')?.innerText == 'finished'")
        shown.wait_for_text("Try again")
        bad = [each for each in chromium.said if each.get("method") == "Runtime.exceptionThrown"]
        assert bad == []
    record = Record.read(tmp_path / "pressed")
    assert [trial.status for trial in record.trials] == ["stopped"] * 3
    assert record.info.note == "of a <b>browser</b>"
    assert record.trials[2].params == {"lr": 0.01, "momentum": 0.5, "hidden": 16}

"""The page of a report: sections, figures, and nothing that is fetched."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.figures import style
from sweeps.analysis.report import page as report_page
from sweeps.analysis.report import sections as report_sections
from sweeps.analysis.report.report_tables import Link
from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose
from tests.support.kinds import KINDS, add, begun, drawn, rerun
from tests.support.reports import page_of, words_of

OUTSIDE = re.compile(r"""(?:src|href|action|data)\s*=\s*["']?(?!#)[^"'\s>]+|@import|url\(""", re.IGNORECASE)
"""What would be fetched: an address in an attribute, or in a style."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_sweep_has_a_page_that_fetches_nothing(kind: str, folders: dict[str, Path]) -> None:
    page = page_of(folders[kind])
    assert report_page.NOT_DRAWN not in page
    markup = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    assert [found for found in OUTSIDE.findall(markup) if not found.startswith("data-")] == []
    assert "<iframe" not in markup
    assert "<link" not in markup
    assert "default-src 'none'" in page, "and what was missed is forbidden"


def test_what_to_try_next_is_what_the_advice_is(folders: dict[str, Path]) -> None:
    from sweeps.analysis import advice

    advised = advice.advise(analysis_sweep.load(folders["pruned"]))
    said = words_of(page_of(folders["pruned"]))
    assert advised.steps
    assert advised.changes
    for words in (*advised.basis, *(word for each in (*advised.steps, *advised.changes) for word in each)):
        assert re.sub(r"\s+", " ", words) in said


@pytest.mark.slow
def test_names_and_reasons_are_no_tags(folders: dict[str, Path], tmp_path: Path) -> None:
    page = page_of(folders["without_words"])
    assert "&lt;b&gt;acc&lt;/b&gt;" in page
    assert "<b>acc" not in page
    record = begun(tmp_path, sweep="</title><script>alert(1)</script>")
    add(record, drawn(0), 0, "failed", "<img src=x onerror=alert(2)>")
    page = page_of(tmp_path)
    assert "<script>alert" not in page
    assert "<img" not in page


@pytest.mark.slow
def test_each_figure_is_in_a_section(folders: dict[str, Path], tmp_path: Path) -> None:
    record = begun(tmp_path, confirm={"top": 1, "seeds": 1})
    add(record, drawn(0), 9)
    rerun(record, 0, 0.5)
    pages = [analysis_sweep.load(folder) for folder in (folders["troubled"], folders["weighed"], tmp_path)]
    sections = [section for sweep in pages for section in report_sections.sections(sweep.record)]
    shown = {name for section in sections for name in section.figures}
    assert shown == set(analysis_figures.FIGURES)


def test_no_value_of_a_hyperparameter_is_drawn_as_a_colour(tmp_path: Path) -> None:
    """A browser replaces each text of a figure that is one of these colours."""
    script = (report_page.FOLDER / "figures.js").read_text()
    replaced = re.findall(r"replaceAll\('(\"[^']+\")'", script)
    record, ranges = begun(tmp_path), {"noise": CategoricalDistribution(["white", "pink"])}
    for number in range(4):
        add(record, {"noise": ["white", "pink"][number % 2]}, 1, ranges=ranges)
    content = report_page.figure(record, "slices").content
    assert '"white"' in content
    assert '"white"' not in replaced
    assert f'"{style.WHITE}"' in content
    assert {f'"{each}"' for each in (style.BLACK, style.BLUE, style.WHITE)} == {*replaced}


@pytest.mark.slow
def test_a_figure_that_fails_costs_a_sentence(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(sweep: object) -> None:
        raise ZeroDivisionError("of <this>")

    monkeypatch.setattr(analysis_figures, "FIGURES", {**analysis_figures.FIGURES, "history": broken})
    page = page_of(folders["pruned"])
    assert f"{report_page.NOT_DRAWN} (ZeroDivisionError: of &lt;this&gt;)." in page
    assert 'id="figure-learning_curves"' in page


WATCH = """<script>
const said = [];
addEventListener("error", event => said.push("error: " + event.message));
addEventListener("securitypolicyviolation", event => said.push("forbidden: " + event.blockedURI));
for (const name of ["error", "warn"]) console[name] = (...words) => said.push(name + ": " + words.join(" "));
addEventListener("load", () => setTimeout(() => {
  const fetched = performance.getEntriesByType("resource").map(entry => entry.name);
  const figures = [...document.querySelectorAll("figure")];
  const drawn = figures.filter(one => one.querySelector(".main-svg") && one.querySelector("path"));
  document.body.dataset.seen = JSON.stringify([figures.length, drawn.length, said, fetched]);
}, 500));
</script>"""
"""Put at the head of a page, it leaves what the browser saw in an attribute."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pruned", "without_words"])
def test_a_browser_draws_all_figures_without_an_error_and_without_the_network(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    page = report_page.page(analysis_sweep.load(folders[kind]).record)
    watched = tmp_path / "page.html"
    watched.write_text(page.replace("<head>", f"<head>{WATCH}", 1))
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [
            *(program, *flags, "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000"),
            *("--dump-dom", watched.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    seen = re.search(r'<body[^>]*data-seen="([^"]*)"', done.stdout)
    assert seen, done.stderr
    figures = page.count("<figure ")
    assert figures > 5
    assert html.unescape(seen[1]) == f"[{figures},{figures},[],[]]"


def test_logs_are_linked(tmp_path: Path) -> None:
    (folder := tmp_path / "a b").mkdir()
    record = Record.create(folder, "s", "max", {"metric": "m"})
    statuses: list[Status] = ["finished", "failed", "pruned"]
    for number, status in enumerate(statuses):
        propose(record, {"lr": 0.1})
        record.report(number, 1, 0.5, {}, 1.0)
        record.end(number, status, "", f"logs/trial_{number:04d}.log" if number < 2 else None)
    sections = {section.title: section for section in report_sections.sections(record)}
    (table,) = sections["Trials"].tables
    cells = {cell for row in table.rows for cell in row if isinstance(cell, Link)}
    assert cells == {Link("0", "logs/trial_0000.log", 0), Link("1", "logs/trial_0001.log", 1)}
    whole = report_page.page(record)
    assert '<a href="logs/trial_0000.log">0</a>' in whole
    assert '<a href="logs/trial_0001.log">trial 1</a>' in whole, "of the failure"
    elsewhere = report_page.write(record, tmp_path / "report.html").read_text()
    assert '<a href="a%20b/logs/trial_0001.log">trial 1</a>' in elsewhere

"""The page about a sweep: whole in one file, of every kind of sweep, and drawn by a real browser."""

from __future__ import annotations

import html
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sweeps import report
from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import page as report_page
from sweeps.record import lock
from sweeps.record.record import Record
from tests.support import kinds
from tests.support.kinds import KINDS, add, begun, drawn, rerun

OUTSIDE = re.compile(r"""(?:src|href|action|data)\s*=\s*["']?(?!#)[^"'\s>]+|@import|url\(""", re.IGNORECASE)
"""What would be fetched: an address in an attribute, or in a style."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A sweep of each kind."""
    place = tmp_path_factory.mktemp("kinds")
    return {kind: kinds.write(kind, place / kind) for kind in KINDS}


def page_of(folder: Path) -> str:
    """The page, without plotly's own program: nothing of that is of the sweep."""
    return without_program(report_page.page(analysis_sweep.load(folder)))


def without_program(page: str) -> str:
    scripts = re.findall(r"<script>.*?</script>", page, flags=re.S)
    assert len(scripts) == 2, "plotly, and what draws"
    assert len(max(scripts, key=len)) > 2_000_000
    return page.replace(max(scripts, key=len), "")


def words_of(page: str) -> str:
    """What is read on it."""
    seen = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", seen)))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_sweep_has_a_page_that_fetches_nothing(kind: str, folders: dict[str, Path]) -> None:
    page = page_of(folders[kind])
    assert report_page.NOT_DRAWN not in page
    markup = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    assert [found for found in OUTSIDE.findall(markup) if not found.startswith("data-")] == []
    assert "<iframe" not in markup
    assert "<link" not in markup
    assert "default-src 'none'" in page, "and what was missed is forbidden"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("empty", ["no trial has started", "No trial has ended well.", "No epoch was trained."]),
        ("single", ["is the best: acc", "Each trial was trained with one seed", "1 trial with a score"]),
        ("one_hyperparameter", ["Only one hyperparameter was varied"]),
        ("constant", ["All 24 trials have the same score", "The second best trial has the same score."]),
        ("running", ["The sweep is interrupted: 8 trials", "2 unfinished", "6 at epoch 3"]),
        ("failed_only", ["4 trials failed: RuntimeError: out of memory at <step N>"]),
        ("pruned", ["The sweep is finished: 30 trials (26 pruned, 4 finished)", "Pruning saved 196 epochs"]),
        ("troubled", ["10 of 10 have lr > 0.1 (and none of the 30 that ended well)"]),
        ("several", ["The sweep trained cnn and mlp to maximize acc", "trial trainable status acc"]),
        (
            "several",
            ["among the best of its trainable. mlp: the best 25 % (PED-ANOVA), by scores at epoch 3"],
        ),
    ],
)
def test_the_page_says_what_came_of_a_sweep(kind: str, words: list[str], folders: dict[str, Path]) -> None:
    said = words_of(page_of(folders[kind]))
    for word in words:
        assert word in said


def test_what_to_try_next_is_what_the_advice_is(folders: dict[str, Path]) -> None:
    from sweeps.analysis import advice

    advised = advice.advise(analysis_sweep.load(folders["pruned"]))
    said = words_of(page_of(folders["pruned"]))
    assert advised.lines
    for line in [*advised.lines, advised.command]:
        assert re.sub(r"\s+", " ", line) in said


def test_names_and_reasons_are_no_tags(folders: dict[str, Path], tmp_path: Path) -> None:
    page = page_of(folders["without_words"])
    assert "&lt;b&gt;acc&lt;/b&gt;" in page
    assert "<b>acc" not in page
    record = begun(tmp_path, sweep="</title><script>alert(1)</script>")
    add(record, drawn(0), 0, "failed", "<img src=x onerror=alert(2)>")
    page = page_of(tmp_path)
    assert "<script>alert" not in page
    assert "<img" not in page


def test_the_test_score_and_the_best_params_are_on_the_page(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, {"lr": 0.01}, 3, fixed={"rows": 600})
    record.note("test", {"trial": 0, "test_acc": 0.8765})
    said = words_of(page_of(tmp_path))
    assert "it scored test_acc 0.8765" in said
    assert "lr 0.01 rows 600" in said


def test_rows_that_were_scored_before_are_said_to_be(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, {"lr": 0.01}, 3)
    add(record, {"lr": 0.02}, 1)
    record.note("test", {"trial": 0, "test_acc": 0.8765})
    assert "scored 2 times" not in words_of(page_of(tmp_path)), "a record of before has the last one alone"
    record.note("tests", [{"trial": 1, "test_acc": 0.8}, {"trial": 0, "test_acc": 0.8765}])
    said = words_of(page_of(tmp_path))
    assert "it scored test_acc 0.8765. They were scored 2 times, as trial 1 was the best before." in said


def test_what_was_asked_is_said_as_on_the_screen_and_whose_data_is_whose(tmp_path: Path) -> None:
    space = {
        "lr of cnn": "0.001 to 1.0, log scale",
        "momentum of mlp": "0.0 to 0.95",
        "v of mlp": "one of v1.0, 2",
    }
    data = {"data of cnn": "images", "data of mlp": "digits", "prepared data of mlp": "0fa3"}
    begun(tmp_path, identity={"space": space, "data": data})
    said = words_of(page_of(tmp_path))
    for word in ("0.001 to 1, log scale", "0 to 0.95", "one of v1.0, 2"):
        assert word in said
    assert "The data of cnn: images. The data of mlp: digits." in said
    assert "0fa3" not in said


def test_that_figures_and_advice_look_at_different_epochs_is_said(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished")
    for number in range(30):
        add(record, drawn(number), 9 if number % 2 else 3, "finished" if number % 2 else "pruned")
    said = words_of(page_of(tmp_path))
    assert "The figures compare trials at epoch 3, which 30 reached." in said
    assert (
        "The next steps compare them at epoch 9, which 15 reached: enough trials to judge the best values, "
        "but too few for the figures." in said
    )


def test_that_the_advice_looks_at_an_earlier_epoch_has_another_reason(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished")
    for number in range(10):
        add(record, drawn(number), 3 if number < 7 else 1, "finished" if number < 7 else "pruned")
    said = words_of(page_of(tmp_path))
    assert (
        "The figures compare trials at epoch 3, which 7 reached. The next steps compare them at epoch 1, "
        "which 10 reached: epoch 3 has enough trials for the figures, but too few to judge ranges." in said
    )


def test_a_winner_that_its_own_rerun_confirms_has_no_other_winner_before_it(tmp_path: Path) -> None:
    record = confirmed(tmp_path, (0, 0.9), (0, 0.92))
    record.note("test", {"trial": 3, "test_acc": 0.8765})
    record.note("tests", [{"trial": 0, "test_acc": 0.86}, {"trial": 3, "test_acc": 0.8765}])
    assert "They were scored 2 times, each time for this trial." in words_of(page_of(tmp_path))


def confirmed(folder: Path, *reruns: tuple[int, float]) -> Record:
    """Two trials, and reruns of them: (which trial, score)."""
    record = begun(folder, confirm={"top": 2, "seeds": 2}, outcome="finished")
    for score in (0.9, 0.89):
        add(record, drawn(len(record.trials)), 1, score=lambda epoch, s=score: s)  # type: ignore[misc]
    for number, score in reruns:
        rerun(record, number, score, "finished" if math.isfinite(score) else "diverged")
    return record


def test_reruns_say_how_sure_the_first_place_is(tmp_path: Path) -> None:
    record = confirmed(tmp_path, (0, 0.7), (0, 0.72), (1, 0.8), (1, 0.82))
    record.note("test", {"trial": 5, "test_acc": 0.8765})
    said = words_of(page_of(tmp_path))
    assert (
        "Trial 1 is the best: acc 0.81 ± 0.014 (mean ± standard deviation over 2 new seeds). "
        "In the search it had acc 0.89, in epoch 1 of 1." in said
    )
    seed = record.trials[5].seed
    assert f"it scored test_acc 0.8765 (the weights of trial 5, its rerun with seed {seed})" in said
    assert "The best trial leads trial 0 by 0.1 on average, more than twice the standard error" in said
    assert "trained with one seed" not in said
    assert "The sweep is finished: 2 trials (2 finished) and 4 reruns." in said


def test_a_trial_whose_rerun_failed_comes_behind_one_with_a_lower_mean(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.9), (0, math.nan), (1, 0.5), (1, 0.6))
    said = words_of(page_of(tmp_path))
    assert "Trial 1 is the best: acc 0.55 ± 0.071" in said
    assert (
        "Trial 0 is second: 0.9 (with 1 new seed; 1 more rerun failed or diverged). "
        "Trials with fewer failed reruns rank first." in said
    )
    assert "leads" not in said


def test_two_of_the_same_mean_lead_nobody(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.7), (0, 0.8), (1, 0.72), (1, 0.78))
    said = words_of(page_of(tmp_path))
    assert "Trial 1 has the same mean: either trial may be the better one." in said
    assert "leads" not in said


def test_what_makes_the_first_place_sure_is_said_as_it_is_typed(folders: dict[str, Path]) -> None:
    boxes = re.findall(r"<pre>(.*?)</pre>", page_of(folders["pruned"]))
    assert boxes[0].endswith(f"sweeps run --resume {folders['pruned']} --confirm 3")
    (folders["pruned"] / ".lock").touch()
    with lock.held(folders["pruned"]):
        assert "--confirm" not in words_of(page_of(folders["pruned"])), "one that runs can't be resumed"


def test_while_reruns_are_to_come_the_search_has_the_first_place(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.7), (0, 0.72), (1, 0.8))
    said = words_of(page_of(tmp_path))
    assert "Trial 0 is the best of the search: acc 0.9 in epoch 1 of 1." in said
    assert (
        "Confidence: The reruns have not ended (0 reruns unfinished, 1 to come). Their scores so far: "
        "trial 1: 0.8 (with 1 new seed); trial 0: 0.71 ± 0.014 (mean ± standard deviation over 2 new seeds). "
        "It is not known how much of the lead is chance. "
        "In the search the best trial leads the second best by 0.01." in said
    )
    assert "trained with one seed" not in said


def test_reruns_that_all_failed_are_no_seed_that_was_seen(tmp_path: Path) -> None:
    nan = math.nan
    confirmed(tmp_path, (0, nan), (0, nan), (1, nan), (1, nan))
    said = words_of(page_of(tmp_path))
    assert "No rerun of the best trials ended well (trial 0: no score (2 reruns failed or diverged)" in said
    assert "trained with one seed" not in said


def test_of_others_whose_reruns_failed_it_is_not_said_that_there_were_none(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.7), (0, 0.72), (1, math.nan), (1, math.nan))
    said = words_of(page_of(tmp_path))
    assert "All reruns of trial 1 failed or diverged. No other trial was trained again" in said


def test_reruns_that_are_to_come_are_not_said_to_be_trained(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    record.note("outcome", "interrupted")
    said = words_of(page_of(tmp_path))
    assert "Each trial was trained with one seed" in said
    assert "are to measure that: 0 reruns unfinished, 4 to come." in said
    record.note("runs", [{"started": 1.0, "num_trials": 9}])
    said = words_of(page_of(tmp_path))
    assert "When the search has ended, the best trials are trained again with new seeds." in said


def test_where_all_trials_failed_none_is_said_to_have_ended_well(folders: dict[str, Path]) -> None:
    said = words_of(page_of(folders["failed_only"]))
    assert "No region separates the failures from other trials: no trial ended well." in said
    assert "No trial ended well: 4 of 4 failed or diverged" in said
    assert "yet" not in said.split()
    assert "so far." not in said


def test_each_figure_is_in_a_section(folders: dict[str, Path], tmp_path: Path) -> None:
    record = begun(tmp_path, confirm={"top": 1, "seeds": 1})
    add(record, drawn(0), 9)
    rerun(record, 0, 0.5)
    pages = [analysis_sweep.load(folder) for folder in (folders["troubled"], tmp_path)]
    sections = [section for sweep in pages for section in report_page.sections(sweep)]
    shown = {figure.name for section in sections for figure in section.figures}
    assert shown == set(analysis_figures.FIGURES)


def test_a_figure_that_fails_costs_a_sentence(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(sweep: object) -> None:
        raise ZeroDivisionError("of <this>")

    monkeypatch.setattr(analysis_figures, "FIGURES", {**analysis_figures.FIGURES, "history": broken})
    page = page_of(folders["pruned"])
    assert f"{report_page.NOT_DRAWN} (ZeroDivisionError: of &lt;this&gt;)." in page
    assert 'id="figure-learning_curves"' in page


def test_the_command_writes_into_the_folder_and_says_where(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([str(folders["pruned"])]) == 0
    written = folders["pruned"] / "report.html"
    assert f"{written} (" in capsys.readouterr().out
    assert 'id="figure-learning_curves"' in written.read_text()
    assert report.main([str(folders["empty"]), "--output", str(tmp_path / "page.html")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html"]
    assert not (folders["empty"] / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give the folder of a sweep first"),
        (["{kinds}/prunde"], "Did you mean '{kinds}/pruned'?"),
        (["{kinds}"], "{kinds}: a folder of sweeps, not a sweep. Give one of {kinds}/"),
        (["{kinds}/pruned", "--outptu", "x"], "--outptu: no such flag. Did you mean '--output'?"),
        (
            ["{kinds}/pruned", "--output", "{kinds}/none/x.html"],
            "{kinds}/none/x.html: No such file or directory",
        ),
        (["{kinds}/pruned", "--output", "{kinds}/pruned"], "{kinds}/pruned: Is a directory"),
        (["{kinds}/pruned", "{kinds}/single"], "{kinds}/single: not a flag; a report is of one sweep"),
    ],
)
def test_a_mistake_is_answered_in_a_line(
    arguments: list[str], words: str, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(folders["pruned"].parent)
    assert report.main([word.format(kinds=place) for word in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words.format(kinds=place) in said
    assert not list(Path(place).rglob(".*.part"))


def test_a_damaged_record_is_named(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folders["pruned"], tmp_path / "sweep")
    journal = tmp_path / "sweep" / "record.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:40], lines[40][:9] + b"\n", *lines[41:]]))
    assert report.main([str(tmp_path / "sweep")]) == 2
    assert "line 41" in capsys.readouterr().err


def test_a_record_that_is_cut_in_its_last_line_has_a_page(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["pruned"], tmp_path / "sweep")
    journal = tmp_path / "sweep" / "record.journal"
    os.truncate(journal, journal.stat().st_size - 7)
    assert report.main([str(tmp_path / "sweep")]) == 0


def test_a_disk_without_room_keeps_no_half_a_page(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds.write("single", small_disk / "sweep")
    assert report.main([str(small_disk / "sweep")]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(path.name for path in (small_disk / "sweep").iterdir()) == ["record.journal"]


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


@pytest.mark.parametrize("kind", ["pruned", "without_words"])
def test_a_browser_draws_all_figures_without_an_error_and_without_the_network(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    page = report_page.page(analysis_sweep.load(folders[kind]))
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


def test_a_sweep_leaves_its_report(tmp_path: Path) -> None:
    from sweeps.execution import summary

    record = Record.read(kinds.write("pruned", tmp_path / "sweep"))
    assert summary._report(record) == str(tmp_path / "sweep" / "report.html")
    assert (tmp_path / "sweep" / "report.html").is_file()


def test_a_report_that_can_not_be_written_costs_a_sweep_one_line(tmp_path: Path) -> None:
    from sweeps.execution import summary

    record = Record.read(kinds.write("single", tmp_path / "sweep"))
    (tmp_path / "sweep" / "report.html").mkdir()
    said = summary._report(record)
    assert said.startswith("not written, IsADirectoryError: ")
    assert said.count("\n") == 0

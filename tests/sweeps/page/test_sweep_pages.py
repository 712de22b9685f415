"""The pages of a sweep, of a trial, of comparisons and of the start, as a browser gets them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sweeps.analysis.figures import FIGURES
from sweeps.common import local_dirs
from sweeps.page import page_context, server, start_page, typed_commands
from sweeps.page.sweep import compare_page, shown_sweep
from sweeps.page.sweep.control_page import PREFIX
from sweeps.page.sweep_summary import summary_of
from sweeps.page.typed_commands import TypedCommand, TypedCommands
from sweeps.record import lock
from sweeps.record.control_requests import Answer, Inbox
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support import children
from tests.support.dashboards import LR, Served, cookie_of, served, sweep

EVIL = '<script>alert("x")</script>'


def test_a_sweep_has_its_trials_and_what_the_report_has(page: Served, results: Path) -> None:
    record = Record.reopen(results / "s")
    propose(record, {"lr": 0.5}, LR)
    record.end(5, "failed", "ValueError: no", "logs/trial_0005.log")
    shown = page.ask("/sweep/s")
    assert shown.status == 200
    assert "RuntimeError: the toy broke" in shown.text
    assert 'id="trial-4"' in shown.text
    above, below = page.ask("/sweep/s/sections?of=result"), page.ask("/sweep/s/sections?of=rest")
    assert ">Result</h2>" in above.text
    assert ">Failures</h2>" in below.text
    assert '<a href="/sweep/s/trial/5#log">trial 5</a>' in below.text
    assert ">Trials</h2>" not in above.text + below.text


@pytest.mark.parametrize("path", ["/sweep/s", "/sweep/s/trial/4"])
def test_a_record_is_shown_in_the_thread_that_changes_it(
    page: Served, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    html, threads = page.page.html, list[str]()

    def shown(*arguments: Any, **content: Any) -> web.Response:
        threads.append(threading.current_thread().name)
        return html(*arguments, **content)

    monkeypatch.setattr(page.page, "html", shown)
    assert page.ask(path).status == 200
    assert [name.partition("_")[0] for name in threads] == ["records"]


def test_a_part_that_is_fetched_again_comes_alone(page: Served) -> None:
    whole = page.ask("/sweep/s?sort=trial&status=pruned", HX_Target="trials").text
    assert 'id="trial-1"' in whole
    assert 'id="trial-0"' not in whole
    assert 'id="steering"' not in whole
    assert 'class="summary"' not in whole
    assert 'id="trials"' not in page.ask("/sweep/s", HX_Target="now").text


def test_a_page_says_that_its_record_is_being_read(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (page_context, shown_sweep):
        monkeypatch.setattr(module, "WAITS_S", 0.05)
    is_read, record = threading.Event(), page.page.sweeps.record
    monkeypatch.setattr(page.page.sweeps, "holds", lambda key: is_read.is_set())
    monkeypatch.setattr(page.page.sweeps, "record", lambda key: is_read.wait(30) and record(key))
    assert "is being read" in page.ask("/sweep/s", Accept="text/html,*/*").text
    assert ">s</a>" in page.ask().text
    asked = threading.Timer(0.2, is_read.set)
    asked.start()
    assert 'id="trial-4"' in page.ask("/sweep/s", Accept="*/*").text  # as a script asks, which can wait
    assert 'id="trial-4"' in page.ask("/sweep/s", Accept="text/html,*/*").text


@pytest.mark.parametrize("part", ["now", "steering", "at-work", "trials", "events"])
def test_each_live_part_can_be_fetched_again(page: Served, results: Path, part: str) -> None:
    whole = page.ask("/sweep/s").text
    assert f'id="{part}"' in whole
    alone = page.ask("/sweep/s", HX_Target=part)
    assert alone.status == 200
    others = {"now", "steering", "at-work", "trials", "events"} - {part}
    assert [each for each in (part, *others) if f'<div id="{each}"' in alone.text] == [part]


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_fetched_as_json(page: Served, name: str) -> None:
    answer = page.ask(f"/sweep/s/figure/{name}?version=1")
    assert answer.headers["Content-Type"].startswith("application/json")
    content = json.loads(answer.text)
    assert content["title"]
    assert content["why_blank"] or content["data"]


def test_a_trial_has_its_curve_its_hyperparameters_and_its_log(page: Served, results: Path) -> None:
    (results / "s" / "logs").mkdir()
    (results / "s" / "logs" / "trial_0001.log").write_text(f"\x1b[31mepoch 1\x1b[0m {EVIL}\n")
    shown = page.ask("/sweep/s/trial/1").text
    assert "Trial 1" in shown
    assert "epoch 1 &lt;script&gt;" in shown
    assert EVIL not in shown
    assert "differs" in shown
    assert json.loads(page.ask("/sweep/s/trial/1/figure").text)["data"]
    assert page.ask("/sweep/s/trial/1", HX_Target="details").status == 200


def test_a_trial_that_waits_for_prepared_data_is_not_advised_to_prepare_it(results: Path) -> None:
    for name, words in (("prepared", "prepared data, size=32"), ("raw", "data")):
        (results / name).mkdir()
        record = Record.create(
            results / name, name, "max", {"sweep": name, "metric": "acc", "identity": {"data": {words: "x"}}}
        )
        propose(record, {"lr": 0.1}, LR)
        record.report(0, 1, 0.5, {"acc": 0.5}, 1.0, {"data_wait_pct": 60.0})
    with served(results) as page:
        assert "for data; prepare the data or add loader workers" in page.ask("/sweep/raw/trial/0").text
        assert "for data; add loader workers" in page.ask("/sweep/prepared/trial/0").text


def test_beside_a_trial_that_trains_is_the_last_line_of_its_log(page: Served, results: Path) -> None:
    (results / "s" / "logs").mkdir()
    (results / "s" / "logs" / "trial_0004.log").write_text(f"epoch 1\nepoch 2 {EVIL}\n\n")
    with lock.held(results / "s"):
        shown = page.ask("/sweep/s", HX_Target="at-work").text
    assert 'trial/4#log" title="its log">epoch 2 &lt;script&gt;' in shown
    assert EVIL not in shown


def test_a_trial_that_saves_its_last_checkpoint_is_in_its_last_epoch(results: Path) -> None:
    (results / "two").mkdir()
    record = Record.create(results / "two", "two", "max", {"sweep": "two", "metric": "acc", "max_epochs": 2})
    for number in range(2):
        propose(record, {"lr": 0.1}, LR)
        record.place(number, {"pc": "pc1", "pid": number, "gpu": ""})
        for epoch in range(1, number + 2):
            record.report(number, epoch, 0.5, {"acc": 0.5}, 1.0)
    with served(results) as page, lock.held(results / "two"):
        assert page.ask("/sweep/two", HX_Target="at-work").text.count(", epoch 2 of 2 ") == 2
        of_pcs = [trial.epoch for trial in summary_of(record).training]
    assert of_pcs == [2, 2]


@pytest.mark.parametrize(
    "path",
    [
        "/sweep/nothing",
        "/sweep/..%2F..%2Fetc",
        "/sweep/s/trial/99",
        "/sweep/s/trial/-1",
        "/sweep/s/trial/x",
        "/sweep/s/figure/nothing",
        "/compare?sweep=s&sweep=nothing",
        "/compare?trial=s:1&trial=s:x",
        "/compare/best_of_each?sweep=s",
        "/start?again=nothing",
        "/started/..%2F..%2Fetc%2Fpasswd",
    ],
)
def test_what_is_not_there_is_said(page: Served, path: str) -> None:
    answer = page.ask(path)
    assert answer.status == 404
    assert "Traceback" not in answer.text


def test_sweeps_and_trials_are_compared(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (results / name).mkdir()
        record = Record.create(
            results / name, name, "max", {"sweep": name, "metric": "acc", "trainable": "t"}
        )
        for number in range(3):
            propose(record, {"lr": number / 10}, LR)
            record.report(number, 1, number / 10, {"acc": number / 10}, 1.0)
            record.end(number, "finished")
    with served(results) as page:
        page.ask()
        shown = page.ask("/compare?sweep=a&sweep=b&sweep=s")
        assert "3 sweeps compared" in shown.text
        for name in ("best_of_each", "hyperparameters_of_each"):
            assert json.loads(page.ask(f"/compare/{name}?sweep=a&sweep=b").text)["data"]
        shown = page.ask("/compare?trial=a:0&trial=a:1&trial=b:2")
        assert "3 trials compared" in shown.text
        for name in ("curves_of_each", "hyperparameters_of_trials"):
            assert json.loads(page.ask(f"/compare/{name}?trial=a:1&trial=b:2").text)["data"]
        assert "choose 2 to 10" in page.ask("/compare?sweep=a").text
        monkeypatch.setattr(compare_page, "MOST", 1)
        assert "choose 2 to 1 " in page.ask("/compare?sweep=a&sweep=b&trial=s:0&trial=s:1").text
        monkeypatch.undo()
        many = "&".join(f"trial=a:{number % 3}&trial=b:{number % 3}&trial=s:{number}" for number in range(5))
        assert "choose 2 to 10" in page.ask(f"/compare?{many}").text


def posted(**fields: str) -> dict[str, str]:
    return {"command": fields.pop("command"), **{PREFIX + name: text for name, text in fields.items()}}


def test_a_button_asks_the_process_that_runs_the_sweep(page: Served, results: Path) -> None:
    taken: list[tuple[str, ...]] = []
    with lock.held(results / "s"):
        inbox = Inbox(results / "s")
        inbox.open()

        def answer() -> None:
            ends = time.monotonic() + 30
            while not taken and time.monotonic() < ends:
                for request in inbox.take()[0]:
                    taken.append(request.words)
                    inbox.answer(request, Answer(f"Trial 4 stops {EVIL}"))
                time.sleep(0.05)

        driver = threading.Thread(target=answer)
        driver.start()
        said = page.ask("/sweep/s/control", "POST", data=posted(command="stop", trial="4")).text
        driver.join()
        inbox.close()
    assert taken == [("stop", "4")]
    assert "Trial 4 stops &lt;script&gt;" in said
    assert EVIL not in said


def test_a_mistake_in_a_form_is_answered_and_nothing_is_asked(page: Served) -> None:
    for fields in ({"command": "stop", "trial": "x"}, {"command": "explode"}, {"command": EVIL}):
        answer = page.ask("/sweep/s/control", "POST", data=posted(**fields))
        assert answer.status == 200
        assert "Refused" in answer.text
        assert EVIL not in answer.text


def test_a_sweep_that_no_process_runs_says_how_it_goes_on_and_starts_that(
    page: Served, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of this test has no settings, so that the resume itself is refused."""
    said = page.ask("/sweep/s/control", "POST", data=posted(command="retry", trials="failed")).text
    assert "--retry failed" in said
    assert "Start this command" in said
    answer = page.ask("/sweep/s/go-on", "POST", data={"words": json.dumps(["retry", "failed"])})
    assert "It is starting" in answer.text
    (started,) = TypedCommands().every()
    assert started.words[-2:] == ("--retry", "failed")
    assert started.words[:3] == ("run", "--resume", str(results / "s"))
    ends = time.monotonic() + 60
    while started.is_running and time.monotonic() < ends:
        time.sleep(0.1)
    shown = page.ask(f"/started/{started.key}").text
    assert "sweep.yaml is missing" in shown
    assert 'href="/sweep/s"' in shown


NO_WORDS = ["x", '["explode"]', '["--command", "evil"]', "{}", "[" * 10000, "[1]"]
NO_WORDS += [json.dumps(["try", f"lr={character}"]) for character in ("\0", "\ud800")]


@pytest.mark.parametrize("words", NO_WORDS)
def test_only_words_of_a_command_go_on(page: Served, words: str) -> None:
    assert page.ask("/sweep/s/go-on", "POST", data={"words": words}).status == 400
    assert TypedCommands().every() == []


def posts() -> list[str]:
    routes = [route for part in server.PARTS for route in part.ROUTES]
    paths = [route.path for route in routes if isinstance(route, web.RouteDef) and route.method == "POST"]
    return [path.replace("{key}", "s").replace("{number}", "1") for path in paths if path != "/login"]


@pytest.mark.parametrize("path", posts())
def test_no_other_site_and_no_reader_presses_a_button(page: Served, results: Path, path: str) -> None:
    assert page.ask(path, "POST", data={}, Origin="http://evil.example").status == 403
    assert page.ask(path, "POST", data={}, Sec_Fetch_Site="cross-site").status == 403
    assert page.ask(path, "POST", data={}, is_in=False).status == 401
    with served(results, is_read_only=True) as other:
        assert other.ask(path, "POST", data={}).status == 403


def test_a_page_that_only_shows_has_no_button(results: Path) -> None:
    with served(results, is_read_only=True) as page:
        page.ask()
        for path in ("/sweep/s", "/sweep/s/trial/0"):
            shown = page.ask(path).text
            assert 'method="post"' not in shown
            assert "/start" not in shown
        assert page.ask("/start").status == 404


def test_texts_of_users_are_escaped_on_all_pages(results: Path) -> None:
    (results / "evil").mkdir()
    about = {"sweep": EVIL, "metric": f"acc{EVIL}", "trainable": f"t{EVIL}"}
    record = Record.create(results / "evil", EVIL, "max", about)
    for number in range(2):
        propose(record, {"lr": number / 10, f"p{EVIL}": EVIL}, LR, trainable=f"t{EVIL}")
        record.place(number, {"pc": EVIL, "pid": 1, "gpu": EVIL})
        record.report(number, 1, 0.1, {f"acc{EVIL}": 0.1}, 1.0)
    record.notice(0, EVIL)
    record.end(1, "failed", EVIL)
    with served(results) as page, lock.held(results / "evil"):
        page.ask()
        paths = [
            "",
            "/sections?of=result",
            "/sections?of=rest",
            "/trial/0",
            "/trial/1",
        ]
        paths += [f"/figure/{name}" for name in FIGURES] + ["/trial/0/figure"]
        for path in paths:
            answer = page.ask(f"/sweep/evil{path}")
            assert answer.status == 200, path
            assert "<script>alert" not in answer.text, path
        assert EVIL not in page.ask(f"/sweep/evil?text={EVIL}&status={EVIL}&sort={EVIL}").text
        assert EVIL not in page.ask("/compare?trial=evil:0&trial=evil:1").text


def test_the_form_of_the_start_has_all_settings_and_types_them(
    page: Served, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = page.ask("/start").text
    assert 'name="setting.num_trials"' in shown
    assert 'name="setting.keep_checkpoints"' in shown
    assert 'name="setting.notify_command"' not in shown
    fields = {"setting.trainable": "digits_mlp", "setting.num_trials": "0"}
    fields |= {"setting.name": "n", "setting.baseline": "true"}
    checked = page.ask("/start/check", "POST", data=fields).text
    assert "--num-trials 0" in checked
    assert "must be at least 1" in checked
    evil = page.ask("/start/check", "POST", data=fields | {"setting.trainable": "command:touch /tmp/x"}).text
    assert "not in this project" in evil
    for path in ("/start", "/start/check"):
        assert "a zero byte" in page.ask(path, "POST", data=fields | {"setting.name": "a\0b"}).text
        assert "too long" in page.ask(path, "POST", data=fields | {"setting.name": "n" * 2**18}).text


MODEL = """
import pathlib
pathlib.Path(__file__).with_name("was-run").touch()
raise RuntimeError("enough")
"""


def of_project(noted: Path, results: Path) -> None:
    """A sweep whose record notes a project."""
    results.mkdir(parents=True)
    Record.create(
        results, results.name, "max", {"sweep": results.name, "trainable": "m", "project": str(noted)}
    )
    (results / "sweep.yaml").write_text(f"trainable: m\nname: {results.name}\n")


def project_at(folder: Path) -> Path:
    """A project with a model that notes that it was run; where it does."""
    (folder / "trainables").mkdir(parents=True)
    (folder / "trainables" / "m.py").write_text(MODEL)
    return folder / "trainables" / "was-run"


@pytest.mark.slow
def test_code_of_another_project_runs_only_when_asked(tmp_path: Path) -> None:
    was_run = project_at(tmp_path / "other")
    of_project(tmp_path / "other", tmp_path / "results" / "again")
    fields = {"again": "again", "setting.trainable": "m", "opened": "1"}
    with served(tmp_path / "results") as page:
        shown = page.ask("/start?again=again").text
        assert 'formaction="/start/check"' in shown
        unasked = page.ask("/start/check", "POST", data=fields).text
        assert f"cd {tmp_path}/other &amp;&amp; " in unasked
        assert "press Check" in unasked
        assert not was_run.exists()
        asked = page.ask("/start/check", "POST", data=fields | {"asked": "true"}).text
        assert "enough" in asked
        assert was_run.exists()


def test_a_check_ends_where_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a form that was changed meanwhile: the browser lets the request go."""
    monkeypatch.setattr(typed_commands, "CHECK_S", 600.0)
    project_at(tmp_path / "other")
    (tmp_path / "other" / "trainables" / "m.py").write_text("import time; time.sleep(600)")
    of_project(tmp_path / "other", tmp_path / "results" / "again")
    form = {"again": "again", "setting.trainable": "m", "asked": "true"}

    async def check(page: Served) -> None:
        headers = {"Cookie": cookie, "Origin": page.url}
        async with aiohttp.ClientSession(headers=headers) as session:
            asked = asyncio.create_task(session.post(f"{page.url}/start/check", data=form).__aenter__())
            while not children.running("--dry-run"):
                await asyncio.sleep(0.05)
            asked.cancel()

    with served(tmp_path / "results") as page:
        cookie = cookie_of(page)
        asyncio.run(asyncio.wait_for(check(page), 60))
        ends = time.monotonic() + 60
        while children.running("--dry-run"):
            assert time.monotonic() < ends
            time.sleep(0.05)


def test_a_sweep_that_was_moved_with_its_project_runs_again_there(tmp_path: Path) -> None:
    project_at(tmp_path / "before")
    project_at(tmp_path / "moved")
    of_project(tmp_path / "before", tmp_path / "moved" / "results" / "again")
    with served(tmp_path / "moved" / "results") as page:
        fields = {"again": "again", "setting.trainable": "m"}
        assert f"cd {tmp_path}/moved &amp;&amp; " in page.ask("/start/check", "POST", data=fields).text


@pytest.mark.parametrize("place", ["mine", "other"])
def test_a_start_leads_to_its_own_sweep_where_another_folder_has_one_of_its_name(
    place: str, tmp_path: Path
) -> None:
    folders = [tmp_path / each / "results" for each in ("mine", "other")]
    for folder in folders:
        (folder / "first").mkdir(parents=True)
        sweep(folder / "first")
    with served(*folders) as page:
        page.ask()
        for words in (("run", "--name", "first"), ("run", "--resume", f"{tmp_path / place}/results/first")):
            started = TypedCommand("key", words, "first", tmp_path / place, 0, 0, tmp_path / "log")
            found = start_page._sweep_of(started, page.page)
            assert found is not None
            assert found.folder == tmp_path / place / "results" / "first"


def test_a_start_whose_sweep_is_in_no_folder_of_the_page_names_one_that_shows_it(
    page: Served, tmp_path: Path
) -> None:
    key, folder = "20260131-140500-abcdef", tmp_path / "elsewhere" / "first"
    notes = local_dirs.state_dir() / typed_commands.FOLDER
    notes.mkdir(parents=True)
    words = ["run", "--name", "first", "--results-dir", "elsewhere"]
    note = {"words": words, "name": "first", "folder": str(tmp_path), "pid": 1, "began": 0}
    (notes / f"{key}.json").write_text(json.dumps(note))
    assert "It has ended before its first trial" in page.ask(f"/started/{key}").text
    folder.mkdir(parents=True)
    sweep(folder)
    shown = page.ask(f"/started/{key}").text
    assert f"dashboard {folder}" in shown
    assert "before its first trial" not in shown
    (notes / f"{key}.json").write_text(json.dumps({**note, "name": "n" * 300}))
    assert "It has ended before its first trial" in page.ask(f"/started/{key}").text


def test_a_sweep_without_a_name_starts_by_the_name_that_was_checked(page: Served) -> None:
    fields = {"setting.trainable": "digits_mlp", "setting.num_trials": "0", "opened": "1"}
    assert "--name digits_mlp-19700101-" in page.ask("/start/check", "POST", data=fields).text

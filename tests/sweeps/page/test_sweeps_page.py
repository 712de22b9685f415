"""The page of all sweeps: what it shows, filters, sorts and escapes, and that it follows the records."""

from __future__ import annotations

import asyncio
import html
import os
import re
import time
from pathlib import Path

import aiohttp
import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.page import sweep_list
from sweeps.page.sweep_list import SweepList
from sweeps.record import lock
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome, Steered
from tests.conftest import propose
from tests.support.dashboards import LR, Served, cookie_of, served
from tests.support.kinds import rerun


def scored(folder: Path, scores: list[float], mode: str = "max", model: str = "digits") -> Record:
    folder.mkdir(parents=True)
    about = {"sweep": folder.name, "metric": "acc", "trainable": model}
    record = Record.create(folder, folder.name, mode, about)  # type: ignore[arg-type]
    record.plan_trials(len(scores))
    for number, score in enumerate(scores):
        propose(record, {"lr": number / 10}, LR)
        record.report(number, 1, score, {"acc": score}, 1.0)
        record.end(number, "finished")
    record.end_run(Outcome.FINISHED)
    return record


def names(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a [^>]*>([^<]*)</a>', text)


def test_a_row_says_how_a_sweep_is(page: Served) -> None:
    text = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page.ask().text))
    assert "s t interrupted 4 of 5 2 bad" in text
    assert "0.6 acc (max), trial 4" in text
    assert "The best acc went from 0.1 to 0.6 in 9 epochs" in page.ask().text


def test_the_best_of_a_confirmed_sweep_is_the_mean_of_its_reruns(tmp_path: Path) -> None:
    record = scored(tmp_path / "c", [0.1, 0.9])
    record.note("confirm", {"top": 1, "seeds": 2})
    for score in (0.6, 0.7):
        rerun(record, 1, score)
    summary = sweep_list.summary_of(record)
    assert (summary.best_score, summary.best_trial) == (pytest.approx(0.65), 1)
    assert summary.best.startswith("acc 0.65 (trial 1, mean of 2 reruns)")


def test_the_time_left_is_told_of_a_sweep_that_trains_and_not_in_a_pause(tmp_path: Path) -> None:
    record, now = scored(tmp_path / "s", [0.1]), time.time()
    record.note("time_left", {"seconds": 600.0, "epochs": 5.0, "time": now})
    assert sweep_list.summary_of(record).ends is None, "no process runs it"
    with lock.held(tmp_path / "s"):
        assert sweep_list.summary_of(record).ends == now + 600.0
        record.note_steered(Steered(["pause"], "It pauses.", now))
        assert sweep_list.summary_of(record).ends is None


def test_sweeps_are_filtered_and_sorted_by_the_server(tmp_path: Path) -> None:
    scored(tmp_path / "low", [0.1], model="faces")
    scored(tmp_path / "high", [0.2, 0.9, 0.3])
    scored(tmp_path / "none", [])
    with served(tmp_path) as page:
        assert names(page.ask("/?sort=best").text) == ["low", "high", "none"]
        assert names(page.ask("/?sort=-best").text) == ["high", "low", "none"]
        assert names(page.ask("/?sort=name").text) == ["high", "low", "none"]
        assert names(page.ask("/?sort=-trials").text)[:2] == ["high", "low"]
        assert names(page.ask("/?text=FACES").text) == ["low"]
        assert names(page.ask("/?text=hi+dig").text) == ["high"]
        assert names(page.ask("/?status=running").text) == []
        assert sorted(names(page.ask("/?sort=nonsense&status=").text)) == ["high", "low", "none"]
        assert 'aria-sort="descending"><a href="/?sort=best"' in page.ask("/?sort=-best").text


def test_a_damaged_record_is_a_row_with_the_reason(results: Path) -> None:
    scored(results / "good", [0.5])
    lines = (results / "s" / JOURNAL).read_bytes().splitlines(keepends=True)
    (results / "s" / JOURNAL).write_bytes(b"".join([*lines[:5], b"{damaged\n", *lines[5:]]))
    with served(results) as page:
        text = page.ask("/?sort=name").text
    assert names(text) == ["good", "s"]
    assert "unreadable" in text
    assert "line 6 is damaged" in text


def test_text_of_a_user_is_no_markup(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    scored(tmp_path / evil, [0.5], model="</td><script>alert(2)</script>")
    with served(tmp_path) as page:
        text = page.ask().text
        echoed = page.ask("/?text=%22%3E%3Cscript%3Ealert(3)%3C/script%3E").text
    assert evil not in text
    assert "<script>alert" not in text + echoed
    assert names(text) == [html.escape(evil)]


def test_sweeps_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("a", "b"):
        scored(tmp_path / place / "same", [0.5])
    found = SweepList([tmp_path / "a", tmp_path / "b" / "same"])
    found.look()
    assert [each.folder.parent.name for each in found.sweeps.values()] == ["b", "a"]
    assert all(key.startswith("same~") for key in found.sweeps)
    assert {found.record(key).folder for key in found.sweeps} == {
        tmp_path / "a" / "same",
        tmp_path / "b" / "same",
    }


def test_ended_sweeps_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        scored(tmp_path / "results" / name, [0.5])
    reads: list[Path] = []
    read = Record.read

    def counted(folder: Path) -> Record:
        reads.append(folder)
        return read(folder)

    monkeypatch.setattr(sweep_list.Record, "read", counted)
    found = SweepList([tmp_path / "results"])
    for _ in range(2):
        found.read_on(60.0)
        rows = sorted((each.name, each.status) for each in found.sweeps.values())
        assert (rows, len(reads)) == ([("a", "finished"), ("b", "finished")], 2)


def test_records_are_read_a_part_at_a_time_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("old", "new", "newest")):
        scored(tmp_path / "results" / name, [0.5])
        os.utime(tmp_path / "results" / name / JOURNAL, (number, number))
    found = SweepList([tmp_path / "results"])

    def read_on(reads_s: float) -> tuple[bool, dict[str, str]]:
        return found.read_on(reads_s), {each.name: each.status for each in found.sweeps.values()}

    unread = dict.fromkeys(("newest", "new", "old"), "being read")
    assert read_on(0.0) == (True, unread)
    assert [*found.sweeps] == [*unread]
    assert read_on(60.0) == (False, dict.fromkeys(unread, "finished"))
    Record.reopen(tmp_path / "results" / "new").note("tags", ["later"])
    assert found.sweeps["new"].summary is not None
    with monkeypatch.context() as patched:
        patched.setattr(found._records, "holds", lambda folder: False)
        assert read_on(0.0) == (True, dict.fromkeys(unread, "finished"))  # as it was until it is read
    assert read_on(0.0)[0] is False
    assert found.sweeps["new"].summary.tags == ["later"]


def test_a_record_that_could_not_be_read_for_a_moment_is_read_again(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SweepList([results])

    def no_answer(folder: Path, *, displaces: bool) -> Record:
        raise OSError("Stale file handle")

    with monkeypatch.context() as patched:
        patched.setattr(found._records, "read", no_answer)
        found.read_on()
    assert (found.sweeps["s"].status, found.sweeps["s"].fault) == ("unreadable", "Stale file handle")
    found.read_on()
    assert (found.sweeps["s"].status, found.sweeps["s"].fault) == ("interrupted", "")


def test_records_that_take_long_to_fail_keep_no_others_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        scored(tmp_path / "results" / name, [0.5])
    found, asked, passed = SweepList([tmp_path / "results"]), list[str](), 0.0

    def bad_sector(folder: Path, *, displaces: bool) -> Record:
        nonlocal passed
        asked.append(folder.name)
        passed += 60.0
        if folder.name == "a":
            return Record.read(folder)
        raise OSError("Input/output error")

    monkeypatch.setattr(found._records, "read", bad_sector)
    monkeypatch.setattr(time, "monotonic", lambda: passed)
    assert [found.read_on() for _ in range(3)] == [True, True, False]
    assert {key: each.status for key, each in found.sweeps.items()} == {
        "a": "finished",
        "b": "unreadable",
        "c": "unreadable",
    }
    found.read_on()
    found.read_on()
    assert sorted(asked) == ["a", "b", "b", "c", "c"]


def test_the_status_follows_the_process_that_runs_a_sweep(results: Path, tmp_path: Path) -> None:
    found = SweepList([results])
    for is_held, status in ((False, "interrupted"), (True, "running"), (False, "interrupted")):
        found._looked = -10.0
        if is_held:
            with lock.held(results / "s"):
                found.look()
        else:
            found.look()
        assert found.sweeps["s"].status == status


def test_an_open_page_is_told_of_each_change(results: Path, page: Served) -> None:
    cookie = {"Cookie": cookie_of(page)}

    async def told() -> list[str]:
        seen = []
        async with aiohttp.ClientSession(headers=cookie) as session:
            shown = page.page.sweeps.version
            async with session.get(f"{page.url}/events/sweeps?changed={shown}") as stream:
                seen.append((await stream.content.readline()).decode().strip())
                record = Record.reopen(results / "s")
                record.report(4, 2, 0.95, {"acc": 0.95}, 1.0)
                async for line in stream.content:
                    if line.startswith(b"id: "):
                        seen.append(line.decode()[4:].strip().removeprefix("changed="))
                        break
            # What was missed while the connection was down is told at once.
            async with session.get(
                f"{page.url}/events/sweeps?changed={shown}", headers={"Last-Event-ID": f"changed={shown}"}
            ) as stream:
                seen.append((await stream.content.readline()).decode().strip())
        return seen

    page.ask()
    seen = asyncio.run(asyncio.wait_for(told(), 60))
    assert seen == [": alive", page.page.sweeps.version, "event: changed"]
    assert "0.95 " in re.sub("<[^>]+>", "", page.ask().text)


def test_nobody_looks_nothing_is_read(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    page.ask()
    looks: list[int] = []
    monkeypatch.setattr(page.page.sweeps, "look", lambda: looks.append(1))
    asyncio.run(asyncio.sleep(1.2))
    assert (looks, page.page.listeners.number) == ([], 0)


def test_text_that_is_none_costs_no_page(results: Path) -> None:
    half = "half \ud800"
    folder = results / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    about = {"sweep": half, "metric": "acc", "trainable": half, "tags": [half]}
    record = Record.create(folder, half, "max", about)
    propose(record, {"lr": 0.1}, LR)
    record.report(0, 1, 0.5, {"acc": 0.5}, 1.0)
    record.end(0, "failed", half)
    with served(results) as page:
        assert page.page.sweeps.key_of(folder) == r"caf\udce9"
        listed = page.ask()
        assert listed.status == 200
        assert "half \\ud800" in listed.text
        (address,) = re.findall(r'href="(/sweep/caf[^"]+)"', listed.text)
        for path in ("", "/trial/0", "/sections?of=result", "/sections?of=rest", "/trial/0/figure"):
            assert page.ask(address + path).status == 200

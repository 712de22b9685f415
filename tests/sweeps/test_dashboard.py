"""The dashboard over the record of a sweep: right, read-only, and alive while the sweep is. In Chromium:
tests/sweeps/training/data/test_shards.py."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import FloatDistribution

from sweeps import dashboard
from sweeps.analysis import dashboard as analysis_dashboard
from sweeps.common.errors import UserError
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import ROOT, propose
from tests.support import kinds
from tests.sweeps.plan.test_resume import Sweep

LR = {"lr": FloatDistribution(0.0, 1.0)}


def sweep(folder: Path) -> Record:
    """A trial of each end, and one that trains."""
    record = Record.create(folder, "s", "max", {"sweep": "s", "metric": "acc", "trainable": "t"})
    trials: list[tuple[Status, list[float], str]] = [
        ("finished", [0.1, 0.3, 0.2], ""),
        ("pruned", [0.1, 0.2], ""),
        ("failed", [0.5], "RuntimeError: the toy broke"),
        ("diverged", [0.4, float("nan")], "acc was nan in epoch 2"),
        ("unfinished", [0.6], ""),
    ]
    for number, (status, scores, reason) in enumerate(trials):
        propose(record, {"lr": number / 10}, LR)
        for epoch, score in enumerate(scores, start=1):
            record.report(number, epoch, score, {"acc": score}, 1.0)
        if status != "unfinished":
            record.end(number, status, reason)
    return record


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of a server in a thread of this process."""
    server = analysis_dashboard.listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.serve, args=(folder,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, method: str = "GET", **content: Any) -> Any:
    data = json.dumps(content).encode() if content else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def shown(url: str) -> dict[str, Any]:
    study: dict[str, Any] = ask(f"{url}/api/studies/0")
    return study


def attributes(trial: dict[str, Any]) -> dict[str, str]:
    return {attribute["key"]: attribute["value"] for attribute in trial["user_attrs"]}


def test_states_params_epochs_and_reasons_are_those_of_the_record(tmp_path: Path) -> None:
    sweep(tmp_path)
    with served(tmp_path) as url:
        study = shown(url)
    trials = study["trials"]
    assert [trial["state"] for trial in trials] == ["Complete", "Pruned", "Fail", "Fail", "Running"]
    assert [trial["params"][0]["param_internal_value"] for trial in trials] == [0.0, 0.1, 0.2, 0.3, 0.4]
    steps = [[value["step"] for value in trial["intermediate_values"]] for trial in trials]
    assert steps == [[1, 2, 3], [1, 2], [1], [1, 2], [1]]
    assert [trial.get("values") for trial in trials] == [[0.3], [0.2], None, None, None]
    assert trials[3]["intermediate_values"][1]["value"] == "nan"
    assert attributes(trials[2])["reason"] == "RuntimeError: the toy broke"
    assert attributes(trials[3])["reason"] == "acc was nan in epoch 2"
    assert [next(iter(attributes(trial))) for trial in trials[2:4]] == ["reason", "reason"], "seen at once"
    assert [attributes(trial).get("status") for trial in trials][:4] == [
        *("finished", "pruned", "failed", "diverged")
    ]
    assert study["objective_names"] == ["acc"]
    assert study["best_trials"][0]["number"] == 0


def test_reruns_are_not_taken_for_trials(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    kinds.rerun(record, 0, 0.9)
    with served(tmp_path) as url:
        study = shown(url)
    assert [trial["number"] for trial in study["trials"]] == [0, 1, 2, 3, 4]
    assert study["best_trials"][0]["number"] == 0


def test_what_is_written_meanwhile_is_seen_and_a_torn_line_waits_for_its_rest(tmp_path: Path) -> None:
    record = sweep(tmp_path)
    journal = tmp_path / JOURNAL
    with served(tmp_path) as url:
        ask(f"{url}/api/studies")
        before = journal.stat().st_size
        record.report(4, 2, 0.7, {"acc": 0.7}, 1.0)
        record.end(4, "finished")
        written = journal.read_bytes()
        os.truncate(journal, len(written) - 9)  # as if the last line were still being written
        assert shown(url)["trials"][4]["state"] == "Running"
        with journal.open("ab") as file:
            file.write(written[-9:])
        assert len(written) > before
        until = time.monotonic() + 30  # the dashboard keeps what it read for 2 s
        while shown(url)["trials"][4]["state"] == "Running" and time.monotonic() < until:
            time.sleep(0.2)
        assert shown(url)["trials"][4]["state"] == "Complete"


def test_a_record_that_is_cut_or_made_anew_is_read_anew(tmp_path: Path) -> None:
    sweep(tmp_path)
    with served(tmp_path) as url:
        assert len(shown(url)["trials"]) == 5
        (tmp_path / JOURNAL).unlink()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            shown(url)
        other = Record.create(tmp_path, "other", "min", {"sweep": "other"})
        propose(other, {"lr": 0.5}, LR)
        assert (shown(url)["name"], len(shown(url)["trials"])) == ("other", 1)


def test_a_record_that_was_cut_and_has_grown_since_is_read_anew(tmp_path: Path) -> None:
    sweep(tmp_path)
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    begun = whole.index(b"the toy broke")
    with served(tmp_path) as url:
        assert len(shown(url)["trials"]) == 5
        os.truncate(journal, whole.rindex(b"\n", 0, begun) + 1)  # an older copy, in the same file
        record = Record.reopen(tmp_path)
        for _ in range(9):
            propose(record, {"lr": 0.5}, LR)
        assert journal.stat().st_size > len(whole)
        assert len(shown(url)["trials"]) == 3 + 9


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("DELETE", "studies/0", {"remove_associated_artifacts": True}),
        ("POST", "studies", {"study_name": "x", "directions": ["minimize"]}),
        ("POST", "studies/0/rename", {"study_name": "x"}),
        ("PUT", "studies/0/note", {"version": 1, "body": "x"}),
        ("PUT", "studies/0/4/note", {"version": 1, "body": "x"}),
        ("POST", "trials/4/tell", {"state": "fail"}),
        ("POST", "trials/4/user-attrs", {"user_attrs": {"x": 1}}),
        ("POST", "artifacts/0/4", {"file": "data:text/plain;base64,eA=="}),
    ],
)
def test_it_writes_nothing_and_says_so(
    method: str, path: str, content: dict[str, Any], tmp_path: Path
) -> None:
    sweep(tmp_path)
    before = (tmp_path / JOURNAL).read_bytes()
    with served(tmp_path) as url, pytest.raises(urllib.error.HTTPError, match="405") as refused:
        ask(f"{url}/api/{path}", method, **content)
    assert json.load(refused.value)["reason"].startswith("this page is read-only")
    assert (tmp_path / JOURNAL).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [JOURNAL]


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example"])
def test_a_name_that_a_page_of_the_web_gave_this_pc_reads_nothing(name: str, tmp_path: Path) -> None:
    sweep(tmp_path)
    with served(tmp_path) as url:
        rebound = urllib.request.Request(f"{url}/api/studies/0", headers={"Host": name})
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(rebound, timeout=30)
        assert ask(url.replace("127.0.0.1", "localhost") + "/api/studies/0")["name"] == "s"
    assert "answers to 127.0.0.1 and localhost only" in json.load(refused.value)["reason"]


def test_what_would_write_on_another_way_is_refused_by_the_file(tmp_path: Path) -> None:
    from optuna.storages import JournalStorage

    from sweeps.record.journal_reader import ReadOnlyJournal

    sweep(tmp_path)
    storage = JournalStorage(ReadOnlyJournal(tmp_path / JOURNAL))
    with pytest.raises(PermissionError, match="only its sweep writes it"):
        storage.delete_study(0)


def command(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps.dashboard", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_says_its_url_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    sweep(tmp_path)
    with command(str(tmp_path), "--port", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Reading ")
        url = process.stdout.readline().split()[0]
        assert shown(url)["name"] == "s"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "The dashboard has ended.\n")


def test_a_port_that_is_taken_is_a_mistake_only_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(
            UserError, match=f"--port {taken}: can't listen on port {taken} of 127.0.0.1: Addr"
        ):
            analysis_dashboard.listen("127.0.0.1", taken)
        monkeypatch.setattr(analysis_dashboard, "PORT", taken)
        with analysis_dashboard.listen("127.0.0.1", None) as server:
            assert server.server_port not in (taken, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the folder of a sweep, as results/NAME"),
        (["SWEEPS/ss"], r"ss: no such folder\. Did you mean '.*/s'\?"),
        (["SWEEPS/missing"], r"missing: no such folder\. Existing sweeps: .*/s$"),
        (["SWEEPS"], "a folder of sweeps, not a sweep. Give one of .*/s$"),
        (["SWEEPS/s", "--prt", "1"], "--prt: no such flag. Did you mean '--port'?"),
        (["SWEEPS/s", "--port", "70000"], "--port 70000: must be from 0 .* to 65535"),
        (["SWEEPS/s", "--port", "x"], "--port x: must be a whole number"),
        (["SWEEPS/s", "b"], "b: not a flag; give one sweep"),
    ],
)
def test_a_mistake_is_a_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    sweep(tmp_path / "s")
    with pytest.raises(UserError, match=message):
        dashboard.parse([argument.replace("SWEEPS", str(tmp_path)) for argument in arguments])


def test_a_record_that_can_not_be_read_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep(tmp_path)
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    (tmp_path / JOURNAL).write_bytes(b"".join([*lines[:5], b"{damaged\n", *lines[5:]]))
    assert dashboard.main([str(tmp_path), "--port", "0"]) == 2
    assert "line 6 is damaged" in capsys.readouterr().err


def test_beside_a_sweep_it_serves_as_long_as_the_sweep_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path, dashboard=True)
    of.trial(1.0)
    with analysis_dashboard.beside(of.plan.folder, True):
        url = capsys.readouterr().out.split()[1]
        assert shown(url)["name"] == "s"
    with pytest.raises(urllib.error.URLError):
        shown(url)


def test_it_is_gone_when_the_sweep_was_killed(tmp_path: Path) -> None:
    sweep(tmp_path)
    code = """
import sys, time
from pathlib import Path
from sweeps.analysis import dashboard
with dashboard.beside(Path(sys.argv[1]), True):
    time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        url = driver.stdout.readline().split()[1]
        assert shown(url)["name"] == "s"
        driver.kill()
    for _ in range(100):
        try:
            shown(url)
        except (OSError, json.JSONDecodeError):  # refused, or broken off in the middle
            return
        time.sleep(0.1)
    pytest.fail("the dashboard outlives its sweep")


def test_without_the_flag_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with analysis_dashboard.beside(Sweep(tmp_path).plan.folder, False):
        assert capsys.readouterr().out == ""

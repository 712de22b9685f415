"""The dashboard over the record of a sweep: right, read-only, and alive while the sweep is."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.config.sweep_folder import JOURNAL
from sweeps.execution.output import dashboard_server
from tests.support import kinds
from tests.support.dashboards import ask, attributes, served, shown, sweep
from tests.sweeps.plan.test_resume import Sweep


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


@pytest.mark.slow
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
            dashboard_server.listen("127.0.0.1", taken)
        monkeypatch.setattr(dashboard_server, "PORT", taken)
        with dashboard_server.listen("127.0.0.1", None) as server:
            assert server.server_port not in (taken, 0)


@pytest.mark.slow
def test_beside_a_sweep_it_serves_as_long_as_the_sweep_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path, dashboard=True)
    of.trial(1.0)
    with dashboard_server.beside(of.plan.folder, True):
        url = capsys.readouterr().out.split()[1]
        assert shown(url)["name"] == "s"
    with pytest.raises(urllib.error.URLError):
        shown(url)


def test_without_the_flag_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with dashboard_server.beside(Sweep(tmp_path).plan.folder, False):
        assert capsys.readouterr().out == ""

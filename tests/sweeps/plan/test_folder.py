"""The sweep's folder: there at once and whole, of one process alone, and gone when it was a mistake."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sweeps.common import atomic_io
from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import JOURNAL, SWEEP_FILE
from sweeps.plan import run_start
from sweeps.plan.build import make_plan
from sweeps.plan.folder import opened
from sweeps.plan.plan import Plan
from sweeps.record import lock
from sweeps.record.control_requests import CONTROL_FOLDER, Inbox, NotRunning, ask
from sweeps.record.lock import LOCK_FILE
from sweeps.record.record import Record
from tests.conftest import ROOT, propose
from tests.support.lab import wait_until

PATIENCE_S = 60.0


def config(results: Path, **changes: Any) -> SweepConfig:
    base = SweepConfig.from_settings(
        name="s",
        trainable="tests.faulty.toy",
        search_space="tests.faulty.slopes",
        results_dir=str(results),
        gpus_per_trial=0,
        num_trials=6,
        min_free_gb=0.0,
    )
    return base.changed(**changes)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return make_plan(config(tmp_path / "results"))


def again(plan: Plan, **changes: Any) -> Plan:
    """The plan of a resume."""
    return make_plan(plan.config.changed(resume=str(plan.folder), **changes))


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def begin(record: Record, plan: Plan) -> None:
    propose(record, {"slope": 0.5})


def test_a_new_folder_holds_the_settings_and_the_record(plan: Plan) -> None:
    with opened(plan) as record:
        assert names(plan.folder) == [LOCK_FILE, CONTROL_FOLDER, JOURNAL, SWEEP_FILE]
        assert names(plan.folder.parent) == ["s"]
        begin(record, plan)
    assert cli.parse(["--config", str(plan.folder / SWEEP_FILE)]) == plan.config
    written = Record.read(plan.folder)
    assert len(written.trials) == 1
    assert (written.objective.mode, written.about["metric"], written.about["max_epochs"]) == (
        "max",
        "score",
        27,
    )
    assert written.about["identity"]["settings"]["num_trials"] == 6


def test_the_folder_appears_under_its_name_only_when_it_is_whole(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    really = Record.create

    def create(*arguments: Any) -> Record:
        seen.append(names(plan.folder.parent))
        return really(*arguments)

    monkeypatch.setattr(Record, "create", create)
    with opened(plan):
        pass
    ((name,),) = seen
    assert name.startswith(".s.")


def test_a_folder_that_could_not_be_made_whole_is_not_there(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(*arguments: Any) -> Record:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Record, "create", create)
    with pytest.raises(UserError, match=r"results/s: .*No space left on device"), opened(plan):
        raise AssertionError("was opened")
    assert names(plan.folder.parent) == []


def test_a_folder_that_came_between_plan_and_start_is_refused_and_left_alone(plan: Plan) -> None:
    plan.folder.mkdir(parents=True)
    (plan.folder / "mine").touch()
    with pytest.raises(UserError, match=r"--name s: .*results/s exists already; give another"), opened(plan):
        raise AssertionError("was opened")
    assert names(plan.folder) == ["mine"]
    assert names(plan.folder.parent) == ["s"]


@pytest.mark.parametrize("round_", range(10))
def test_of_starts_with_one_name_at_one_moment_one_gets_it(round_: int, plan: Plan) -> None:
    """And its process holds it as soon as it is there: a command to it is kept."""
    forked = multiprocessing.get_context("fork")
    together, is_over = forked.Barrier(4), forked.Event()

    def start() -> None:
        together.wait(PATIENCE_S)
        try:
            with opened(plan):
                is_over.wait(PATIENCE_S)
        except UserError as error:
            os._exit(2 if f"{plan.folder} exists already" in str(error) else 1)
        os._exit(0)

    starts = [forked.Process(target=start) for _ in range(3)]
    for each in starts:
        each.start()
    together.wait(PATIENCE_S)
    while not plan.folder.exists() and any(each.is_alive() for each in starts):
        pass
    assert lock.is_held(plan.folder)
    wait_until(lambda: sum(each.is_alive() for each in starts) == 1, "the others are refused")
    is_over.set()
    for each in starts:
        each.join()
    assert sorted(each.exitcode or 0 for each in starts) == [0, 2, 2]
    assert names(plan.folder.parent) == ["s"]
    assert Record.read(plan.folder).name == "s"


def test_a_mistake_that_shows_before_the_first_trial_leaves_no_folder(plan: Plan) -> None:
    with pytest.raises(UserError, match="no PC has that"), opened(plan):
        raise UserError("no PC has that")
    assert names(plan.folder.parent) == []


def test_a_mistake_that_shows_in_a_trial_leaves_the_folder(plan: Plan) -> None:
    def fail_in_a_trial() -> None:
        with opened(plan) as record:
            begin(record, plan)
            raise UserError("metric 'x' was not logged")

    with pytest.raises(UserError, match="was not logged"):
        fail_in_a_trial()
    assert len(Record.read(plan.folder).trials) == 1


def test_a_mistake_in_a_resume_leaves_the_folder_even_without_a_trial(plan: Plan) -> None:
    with opened(plan):
        pass
    with pytest.raises(UserError, match="no PC has that"), opened(again(plan)):
        raise UserError("no PC has that")
    assert Record.read(plan.folder).trials == []


@pytest.mark.parametrize("error", [RuntimeError("ours"), KeyboardInterrupt(), SystemExit(1)])
def test_another_error_leaves_the_folder_and_says_how_to_go_on(
    error: BaseException, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(type(error)), opened(plan):
        raise error
    assert Record.read(plan.folder).trials == []
    said = capsys.readouterr().err
    assert "All results so far are recorded. Resume: " in said
    assert f"sweeps run --resume {plan.folder}" in said


def test_a_resume_goes_on_with_the_record_and_writes_its_settings_down(plan: Plan) -> None:
    with opened(plan) as record:
        begin(record, plan)
    other = again(plan, num_trials=9, ray_dashboard=False, force=True)
    with opened(other) as record:
        assert len(record.trials) == 1
        run_start.begin_run(other, record)
        begin(record, plan)
        assert names(plan.folder) == [LOCK_FILE, CONTROL_FOLDER, JOURNAL, SWEEP_FILE]
    assert len(Record.read(plan.folder).trials) == 2
    read = cli.parse(["--config", str(plan.folder / SWEEP_FILE)])
    assert read == other.config.changed(resume=None, force=False)


def test_a_resume_mends_what_the_driver_left(plan: Plan) -> None:
    with opened(plan) as record:
        begin(record, plan)
    with (plan.folder / JOURNAL).open("ab") as file:
        file.write(b'{"torn')
    with opened(again(plan)) as record:
        begin(record, plan)
    assert len(Record.read(plan.folder).trials) == 2


def test_a_folder_that_is_gone_is_a_mistake_and_is_not_made(plan: Plan) -> None:
    with (
        pytest.raises(UserError, match=r"results/s: no sweep in .*: there is no such folder"),
        opened(again(plan)),
    ):
        raise AssertionError("was opened")
    assert not plan.folder.exists()


HOLDER = """
import sys
from pathlib import Path
from sweeps.record import lock
from tests.conftest import ROOT, propose
from tests.support.lab import wait_until
with lock.held(Path(sys.argv[1])):
    print("open", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(plan: Plan) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs the sweep."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(plan.folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        try:
            yield holder
        finally:
            holder.kill()


def test_only_one_process_has_a_sweep_and_its_lock_goes_with_it(plan: Plan) -> None:
    with opened(plan) as record:
        begin(record, plan)
    with held(plan) as holder:
        before = (plan.folder / JOURNAL).read_bytes()
        running = rf"s: this sweep is already running, in process {holder.pid}$"
        with pytest.raises(UserError, match=running), opened(again(plan)):
            raise AssertionError("was opened")
        assert (plan.folder / JOURNAL).read_bytes() == before
        os.kill(holder.pid, signal.SIGKILL)
        assert holder.wait() == -signal.SIGKILL
        with opened(again(plan)) as record:
            begin(record, plan)
            assert (plan.folder / LOCK_FILE).read_text() == str(os.getpid())
    assert len(Record.read(plan.folder).trials) == 2


def test_a_sweep_that_is_open_in_this_process_is_running_too(plan: Plan) -> None:
    with opened(plan):
        mine = rf"already running, in process {os.getpid()}$"
        with pytest.raises(UserError, match=mine), opened(again(plan)):
            raise AssertionError("was opened")
    with opened(again(plan)):
        pass


def test_the_lock_is_free_after_any_end(plan: Plan) -> None:
    with pytest.raises(RuntimeError, match="ours"), opened(plan):
        raise RuntimeError("ours")
    with opened(again(plan)):
        pass


def test_a_small_file_is_written_beside_and_renamed(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    atomic_io.write(path, "first")
    descriptor = os.open(path, os.O_RDONLY)
    atomic_io.write(path, "second, and with an ümlaut")
    assert os.read(descriptor, 99) == b"first", "who reads the old one reads it to its end"
    os.close(descriptor)
    assert path.read_text(encoding="utf-8") == "second, and with an ümlaut"
    assert names(tmp_path) == ["sweep.yaml"]


def test_commands_are_kept_while_the_sweep_starts(plan: Plan) -> None:
    """Ray starts, and data is prepared, before its trials take them up."""
    with opened(plan):
        assert ask(plan.folder, ["pause"], wait_s=0) is None
        assert [request.words for request in Inbox(plan.folder).take()[0]] == [("pause",)]
    assert not (plan.folder / CONTROL_FOLDER / "requests").exists()
    with pytest.raises(NotRunning):
        ask(plan.folder, ["go"])


def test_commands_that_came_before_a_sweep_could_not_start_are_kept_for_its_resume(plan: Plan) -> None:
    with opened(plan):
        ask(plan.folder, ["pause"], wait_s=0)
    with opened(again(plan)):
        assert [request.words for request in Inbox(plan.folder).take()[0]] == [("pause",)]


def test_a_sweep_that_can_not_be_steered_says_so_and_is_opened(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(plan) as record:
        begin(record, plan)
    (plan.folder / CONTROL_FOLDER).write_text("a file where the folder should be")
    with opened(again(plan)):
        assert "This sweep can't be steered: " in capsys.readouterr().out

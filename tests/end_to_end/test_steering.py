"""A running sweep is steered from a second terminal, with the page beside it."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch

from sweeps.page import server
from sweeps.record.control_requests import CONTROL_FOLDER, REQUESTS_FOLDER
from sweeps.record.record import Record
from sweeps.record.steering import KEPT
from tests.support.steered import RunningSweep, epochs, is_alive, running

TOY = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--max-epochs", "4000"),
    *("--searcher", "random", "--scheduler", "none", "--params", "epoch_s=0.2", "--max-concurrent", "2"),
)


@pytest.fixture(scope="module")
def steered(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSweep]:
    """Two trials at a time that would train for long; the first one is the user's."""
    folder = tmp_path_factory.mktemp("steered") / "toy"
    variables = {**environment, "XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    more = ("--num-trials", "4", "--try", "slope=0.75", "--dashboard")
    with running(folder, variables, *TOY, *more) as sweep:
        sweep.wait_until("two trials train", lambda record: epochs(record, 1) > 0)
        yield sweep


@pytest.fixture(scope="module")
def shown(steered: RunningSweep) -> Iterator[Callable[[], str]]:
    """The words of the page that the sweep has opened; its address with the token is asked once."""
    steered.wait_for("dashboard  http")
    found = re.search(r"dashboard  ((http://127\.0\.0\.1:\d+)/\?token=\S+)", steered.printed)
    assert found is not None
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

    def read(address: str = found[2]) -> str:
        with opener.open(address, timeout=60) as answer:
            return " ".join(re.sub("<[^>]+>", " ", answer.read().decode()).split())

    (page,) = [each for each in server.open_pages() if each.url == found[2]]
    process = psutil.Process(page.pid)
    read(found[1])
    with opener.open(f"{found[2]}/events/sweeps", timeout=60):  # somebody looks: it does not end by itself
        yield read
    process.terminate()


def test_a_trial_of_one_s_own_choosing_comes_first(steered: RunningSweep) -> None:
    first = steered.record().trials[0]
    assert (first.params, first.origin) == ({"slope": 0.75}, "chosen by the user")


def test_the_page_follows_it(shown: Callable[[], str]) -> None:
    assert re.search(r"toy \S+ running", shown())


def test_what_can_not_be_done_is_refused_with_the_reason(steered: RunningSweep) -> None:
    before = steered.record().info.steered
    assert steered.refuses("stop", "7") == (
        "stop 7: no such trial; 2 trials have begun, and the first is trial 0. "
        "Trials that have not ended: 0, 1"
    )
    assert steered.refuses("try", "slope=3") == "slope=3: must be 0.1 to 1; the nearest is 1"
    assert steered.refuses("try", "slop=0.5").splitlines() == [
        "slope: missing; 0.1 to 1",
        "slop: no hyperparameter of this search space. Did you mean 'slope'? Hyperparameters: slope",
    ]
    assert steered.refuses("try", "slope=0.75").startswith("try: trial 0 has these hyperparameters")
    assert steered.refuses("go") == "go: the sweep is not paused"
    assert steered.refuses("set", "num-trials=0").endswith("must be at least 1 and at most 1,000,000")
    assert steered.refuses("set", "time-budget-hours=1e-6").startswith(
        "set time-budget-hours 1e-06: the sweep has run "
    )
    assert "Did you mean 'pause'?" in steered.refuses("pase")
    assert steered.record().info.steered == before


def test_a_stopped_trial_counts_and_makes_room_for_the_next(steered: RunningSweep) -> None:
    steered.does("try", "slope=0.5")
    said = steered.does("stop", "1")
    assert said.startswith("Trial 1 stops at its next step")
    again = steered.refuses("stop", "1")
    assert again.startswith(("stop 1: trial 1 is being stopped", "stop 1: it has ended"))
    record = steered.wait_until("trial 2 trains", lambda record: epochs(record, 2) > 0)
    stopped = record.trials[1]
    assert (stopped.status, stopped.reason) == ("stopped", "stopped by the user")
    assert stopped.number in record.leaders(3)
    assert record.trials[2].params == {"slope": 0.5}


def test_the_limits_change_while_it_runs(steered: RunningSweep) -> None:
    said = steered.does("set", "num-trials=6", "max-concurrent=1", "time-budget-hours=2")
    assert "6 trials in all: 3 are still to begin." in said
    assert "At most 1 trial at a time. Trials that train now go on." in said
    assert "The sweep stops in " in said
    steered.does("stop", "0")
    record = steered.wait_until("trial 0 has ended", lambda record: record.trials[0].status == "stopped")
    assert [trial.number for trial in record.live] == [2]
    assert record.planned_trials == [4, 6]
    steered.does("set", "num-trials=5", "max-concurrent=2")
    record = steered.wait_until("trial 3 trains", lambda record: epochs(record, 3) > 0)
    assert record.planned_trials == [4, 5]


def test_a_pause_frees_the_processes_and_go_continues(steered: RunningSweep) -> None:
    pids = [trial.place["pid"] for trial in steered.record().live]
    assert len(pids) == 2
    steered.does("pause")
    steered.wait_for("Paused since ")
    steered.wait_until("their processes have ended", lambda record: not any(map(is_alive, pids)))
    left = steered.record()
    assert [trial.left["position"] for trial in left.live] == [
        f"the end of epoch {len(trial.epochs)}" for trial in left.live
    ]
    assert steered.refuses("pause").startswith("pause: the sweep has been paused since ")
    steered.does("stop", "2")
    assert steered.record().trials[2].status == "stopped"
    assert steered.does("go").startswith("The sweep continues where it was left, with 1 unfin")
    record = steered.wait_until("trial 4 trains", lambda record: epochs(record, 4) > 0)
    assert epochs(record, 3) >= epochs(left, 3)


def test_it_finishes_in_order(steered: RunningSweep) -> None:
    """The trials that have begun would train on: they are stopped, too."""
    steered.does("set", "num-trials=50")
    assert steered.does("finish").startswith("No new trial begins; the unfinished ones (2) end as usual")
    steered.does("stop", "3")
    steered.does("stop", "4")
    assert steered.wait() == 0
    record = Record.read(steered.folder)
    assert record.info.outcome == "finished"
    assert [trial.status for trial in record.trials] == ["stopped"] * 5
    best = record.best()
    assert best is not None
    assert (steered.folder / "best" / "weights.pt").is_file()
    assert (steered.folder / "report.html").is_file()
    assert f"Best       trial {best.number}: score " in steered.printed
    assert "the sweep is finished. For more trials: " in steered.refuses("pause")
    commands = [each.command for each in record.info.steered]
    assert commands == [
        *("try", "try", "stop", "set", "stop", "set", "pause", "stop", "go", "set", "finish", "stop", "stop")
    ]
    times = [each.time for each in record.info.steered]
    assert times == sorted(times)
    assert all(each.answer for each in record.info.steered)


def test_the_page_outlives_it(shown: Callable[[], str]) -> None:
    """It has started in another session: another sweep may be on it."""
    assert re.search(r"toy \S+ finished 5 of ", shown())


STEPWISE = (
    "--no-baseline",
    *("--trainable", "tests.faulty.stepwise", "--searcher", "random", "--scheduler", "none"),
    *("--num-trials", "2", "--max-epochs", "3"),
)


@pytest.mark.long
def test_a_pause_inside_an_epoch_repeats_no_step(environment: dict[str, str], tmp_path: Path) -> None:
    prepared = environment | {"SWEEPS_PREPARED_DIR": str(tmp_path / "prepared")}
    with running(tmp_path / "whole", prepared, *STEPWISE) as whole:
        assert whole.wait() == 0, whole.printed
    with running(tmp_path / "paused", prepared | {"STEP_S": "0.1"}, *STEPWISE) as sweep:
        sweep.wait_until("an epoch of both", lambda record: min(epochs(record, 0), epochs(record, 1)) > 0)
        sweep.does("pause")
        sweep.wait_for("Paused since ")
        positions = [trial.position for trial in sweep.record().live]
        assert len(positions) == 2
        assert all(" of 50" in position for position in positions)
        sweep.does("go")
        assert sweep.wait() == 0, sweep.printed
    for one, other in zip(sweep.record().trials, whole.record().trials, strict=True):
        assert {epoch: dict(row.metrics) for epoch, row in one.epochs.items()} == {
            epoch: dict(row.metrics) for epoch, row in other.epochs.items()
        }
    weights = [torch.load(each.folder / "best" / "weights.pt") for each in (sweep, whole)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


HALVING = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--max-epochs", "9"),
    *("--num-trials", "30", "--max-concurrent", "2", "--params", "epoch_s=1", "--checkpoint-epochs", "1"),
)


@pytest.mark.long
def test_each_command_survives_kill_9_and_a_resume(environment: dict[str, str], tmp_path: Path) -> None:
    """The driver is killed right behind the answer, before the command has had its effect."""
    with running(tmp_path / "killed", environment, *HALVING) as sweep:
        sweep.wait_until("two trials train", lambda record: epochs(record, 1) > 0)
        sweep.does("try", "slope=0.55")
        sweep.does("stop", "0")
        sweep.kill()
        assert "no process runs this sweep; it is interrupted. Resume it: " in sweep.refuses("go")
        sweep.start()
        sweep.wait_until("trial 0 has ended", lambda record: record.trials[0].status == "stopped")
        sweep.wait_until("the chosen trial trains", lambda record: bool(_epochs_of(record, slope=0.55)))

        narrow = "slope=0.2..0.3"
        sweep.does("set", "num-trials=25", "max-concurrent=1", "time-budget-hours=5", narrow)
        of_both_ranges = len(sweep.record().trials)
        sweep.does("pause")
        sweep.kill()
        sweep.start()
        sweep.wait_for("Paused since ")
        before = sweep.record()
        assert before.planned_trials == [25]
        assert (before.info.identity["settings"]["max_concurrent"], before.info.paused_at is None) == (
            1,
            False,
        )
        sweep.does("go")
        record = sweep.wait_until("an epoch more", lambda record: _trained(record) > _trained(before))

        sweep.does("finish")
        sweep.kill()
        begun = len(sweep.record().trials)
        sweep.start()
        assert sweep.wait() == 0, sweep.printed
    record = sweep.record()
    assert (len(record.trials), record.info.outcome) == (begun, "finished")
    assert begun < 25
    assert not record.live
    assert [each.command for each in record.info.steered] == ["try", "stop", "set", "pause", "go", "finish"]
    assert all(0.2 <= float(trial.params["slope"]) <= 0.3 for trial in record.trials[of_both_ranges:])
    for trial in record.trials:
        assert list(trial.epochs) == list(range(1, len(trial.epochs) + 1))
        assert all(
            row.score == pytest.approx(float(trial.params["slope"]) * e) for e, row in trial.epochs.items()
        )


def _epochs_of(record: Record, slope: float) -> list[int]:
    """Epochs of the trial with this slope."""
    return [epoch for trial in record.trials if trial.params["slope"] == slope for epoch in trial.epochs]


def _trained(record: Record) -> int:
    return sum(len(trial.epochs) for trial in record.trials)


@pytest.mark.long
def test_a_request_that_was_kept_is_taken_up_by_the_resume(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """The driver is stopped, so that it answers nothing, and is killed then."""
    with running(tmp_path / "busy", environment, *HALVING) as sweep:
        sweep.wait_until("two trials train", lambda record: epochs(record, 1) > 0)
        sweep.suspend()
        done = sweep.control("finish")
        assert (done.returncode, done.stdout) == (
            0,
            f"{KEPT}\n",
        )
        sweep.kill()
        sweep.start()
        assert sweep.wait() == 0, sweep.printed
    assert "finish: No new trial begins" in sweep.printed
    assert len(sweep.record().trials) < 30


@pytest.mark.long
def test_ctrl_c_of_whoever_asks_does_no_harm(environment: dict[str, str], tmp_path: Path) -> None:
    with running(tmp_path / "asked", environment, *HALVING) as sweep:
        sweep.wait_until("two trials train", lambda record: epochs(record, 1) > 0)
        sweep.suspend()
        asking = sweep.begin_control("pause")
        requests = sweep.folder / CONTROL_FOLDER / REQUESTS_FOLDER
        sweep.wait_until("the command waits", lambda record: any(requests.glob("*.json")))
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate(timeout=60)
        assert (asking.returncode, said.strip()) == (130, "Withdrawn: nothing has changed.")
        sweep.go_on()
        before = sweep.record()
        record = sweep.wait_until("it trains on", lambda record: _trained(record) > _trained(before) + 4)
        assert record.info.steered == ()


CONFIRMED = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--max-epochs", "9"),
    *("--num-trials", "2", "--params", "epoch_s=2", "--confirm", "2", "--confirm-top", "1"),
)


@pytest.mark.long
def test_the_confirmation_pauses_and_continues(environment: dict[str, str], tmp_path: Path) -> None:
    with running(tmp_path / "confirmed", environment, *CONFIRMED) as sweep:
        sweep.wait_until("reruns train", lambda record: epochs(record, 3) > 0)
        assert "its best trials are being confirmed" in sweep.refuses("set", "num-trials=9")
        sweep.does("pause")
        sweep.wait_for("Paused since ")
        sweep.does("go")
        assert sweep.wait() == 0, sweep.printed
    record = sweep.record()
    assert len(record.confirmed()) == 1
    assert not record.is_to_be_confirmed


HANGS = (
    "--no-baseline",
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--searcher", "random"),
    *("--scheduler", "none", "--params", "fault=hangs", "--num-trials", "2", "--max-epochs", "3"),
    *("--checkpoint-epochs", "1", "--no-preflight", "--stop-grace", "1"),
)


@pytest.mark.long
def test_a_leader_that_hangs_is_stopped_with_its_weights(environment: dict[str, str], tmp_path: Path) -> None:
    """It has no checkpoint: it trains its epoch again, saves it, hangs again, and is not tried once more."""
    words = (*HANGS, "--num-trials", "1", "--checkpoint-epochs", "3")
    with running(tmp_path / "s", environment, *words) as sweep:
        sweep.wait_until("it hangs", lambda record: epochs(record, 0) == 1)
        sweep.does("stop", "0")
        assert sweep.wait() == 0
        assert sweep.record().trials[0].status == "stopped"
        assert (tmp_path / "s" / "best" / "weights.pt").is_file()


@pytest.mark.long
def test_a_trial_that_hangs_is_ended(environment: dict[str, str], tmp_path: Path) -> None:
    """Each one in its second epoch, in a call that lets nothing else of its process run."""
    with running(tmp_path / "s", environment, *HANGS) as sweep:
        sweep.wait_until("both hang", lambda record: epochs(record, 0) == epochs(record, 1) == 1)
        pids = [trial.place["pid"] for trial in sweep.record().trials]
        assert "and after 1 s (--stop-grace) in any case" in sweep.does("stop", "0")
        record = sweep.wait_until("it is stopped", lambda record: record.trials[0].status == "stopped")
        sweep.wait_until("its process has ended", lambda record: not is_alive(pids[0]))
        assert is_alive(pids[1])
        assert len(record.trials[0].epochs) == 1, "its score counts"
        sweep.interrupt()
        assert sweep.wait() == 130, "another one that hangs does not keep the sweep"
        sweep.start("--epoch-timeout-minutes", "1")
        assert sweep.wait() == 0
        failed = sweep.record().trials[1]
        reason = "no epoch within 1 min (--epoch-timeout-minutes)"
        assert (failed.status, failed.reason) == ("failed", reason)
        assert f"Trial 1 has reported {reason}: its process is ended" in sweep.printed

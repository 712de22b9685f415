"""A running sweep is steered from a second terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.record.record import Record
from sweeps.record.requests import CONTROL_FOLDER
from tests.support.steered import RunningSweep, epochs, is_alive, running

TOY = (
    *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes", "--max-epochs", "200"),
    *("--searcher", "random", "--scheduler", "none", "--params", "epoch_s=0.2", "--max-concurrent", "2"),
)


@pytest.fixture(scope="module")
def steered(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSweep]:
    """Two trials at a time that would train for a minute each; the first one is the user's."""
    folder = tmp_path_factory.mktemp("steered") / "toy"
    with running(folder, environment, *TOY, "--num-trials", "4", "--try", "slope=0.75") as sweep:
        sweep.wait_until("two trials train", lambda record: epochs(record, 1) > 0)
        yield sweep


def test_a_trial_of_one_s_own_choosing_comes_first(steered: RunningSweep) -> None:
    first = steered.record().trials[0]
    assert (first.params, first.origin) == ({"slope": 0.75}, "chosen by the user")


def test_what_can_not_be_done_is_refused_with_the_reason(steered: RunningSweep) -> None:
    before = steered.record().info.steered
    assert steered.refuses("stop", "7") == (
        "stop 7: no such trial; 2 trials have begun, and the first is trial 0. "
        "Trials that have not ended: 0, 1"
    )
    assert steered.refuses("try", "slope=3") == "slope=3: must be 0.1 to 1; the nearest is 1"
    assert steered.refuses("try", "slop=0.5").splitlines() == [
        "slope: missing; 0.1 to 1",
        "slop: no hyperparameter of this trial. Did you mean 'slope'? Hyperparameters: slope",
    ]
    assert steered.refuses("try", "slope=0.75").startswith("try: trial 0 has these hyperparameters")
    assert steered.refuses("go") == "go: the sweep is not paused"
    assert steered.refuses("set", "num-trials=0").endswith("the nearest is 1")
    assert steered.refuses("set", "time-budget-hours=1e-6").startswith(
        "set time-budget-hours 1e-06: the sweep has run "
    )
    assert "Did you mean 'pause'?" in steered.refuses("pase")
    assert steered.record().info.steered == before


def test_a_folder_that_others_can_write_takes_no_command(steered: RunningSweep) -> None:
    control = steered.folder / CONTROL_FOLDER
    assert control.stat().st_mode & 0o777 == 0o700
    control.chmod(0o770)
    try:
        assert "others can use it (mode 770), so no command is taken: chmod 700" in steered.refuses("pause")
    finally:
        control.chmod(0o700)


def test_a_stopped_trial_counts_and_makes_room_for_the_next(steered: RunningSweep) -> None:
    steered.does("try", "slope=0.5")
    said = steered.does("stop", "1")
    assert said.startswith("Trial 1 stops at its next step")
    assert steered.refuses("stop", "1").startswith("stop 1: trial 1 is")
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

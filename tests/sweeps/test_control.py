"""The command that steers a sweep: what it accepts, and what it says where no sweep answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps import control
from sweeps.config import sweep_folder
from sweeps.control import parse
from sweeps.record import lock, steering
from sweeps.record.control_requests import Inbox
from tests.support.searched import peak, searched


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("results/a stop 7", ("results/a", ("stop", "7"), None)),
        (
            "results/a --address head:6379 try lr=0.1 n=2",
            ("results/a", ("try", "lr=0.1", "n=2"), "head:6379"),
        ),
        ("results/a pause --address=auto", ("results/a", ("pause",), "auto")),
        ("a stop 7", ("a", ("stop", "7"), None)),
        ("stop 7", ("", ("stop", "7"), None)),
        ("go", ("", ("go",), None)),
        ("pause go", ("pause", ("go",), None)),
        ("stop go", ("stop", ("go",), None)),
    ],
)
def test_a_folder_a_command_and_an_address_are_read(
    typed: str, asked: tuple[str, tuple[str, ...], str | None]
) -> None:
    assert parse(typed.split()) == asked


@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("", "give a command. Choices: stop, try, retry, set, pause, go, finish, note, tag, untag"),
        ("stop 7 --address head:6379", "--address: give the folder of the sweep on the head, as in "),
        ("stop seven", "stop seven: give the number of one trial, as in stop 7"),
        ("results/a", "give a command. Choices: stop, try, retry, set, pause, go, finish, note, tag, untag"),
        ("results/a stpo 7", "stpo: no such command. Did you mean 'stop'?"),
        ("results/a pause --adress x", "--adress: no such flag. Did you mean '--address'?"),
        ("results/nothing pause", "nothing: no such folder"),
    ],
)
def test_a_mistake_is_named(typed: str, fault: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert control.main(typed.split()) == 2
    said = capsys.readouterr().err
    assert fault in said
    assert "Traceback" not in said


def test_a_sweep_that_has_ended_says_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searched(tmp_path, "ended", peak(0.03), num_trials=2)
    assert control.main([str(tmp_path / "ended"), "pause"]) == 2
    said = capsys.readouterr().err
    assert "the sweep is finished. For more trials: " in said
    assert said.rstrip().endswith("--num-trials 4")


def test_a_command_that_is_kept_is_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks into the inbox of this process."""
    folder = searched(tmp_path, "busy", peak(0.03), num_trials=2).record.folder
    monkeypatch.setattr("sweeps.record.control_requests.ask.__defaults__", (0.0,))
    with lock.held(folder):
        inbox = Inbox(folder)
        inbox.open()
        assert control.main([str(folder), "stop", "1"]) == 0
        assert capsys.readouterr().out.startswith("The sweep is starting or busy. It keeps the command")
        assert [request.words for request in inbox.take()[0]] == [("stop", "1")]
        assert inbox.close()
        assert control.main([str(folder), "stop", "1"]) == 2
        assert "the sweep takes no command now" in capsys.readouterr().err


RESUMED = {
    "retry failed": "--retry failed",
    "try slope=0.2": "--try slope=0.2",
    "set max_epochs=27 lr-schedule=anew": "--max-epochs 27 --lr-schedule anew",
    "set slope=0.1..0.2": "--num-trials 4 --ranges slope=0.1..0.2",
    "set target=0.9": "--num-trials 4 --target 0.9",
    "set num-trials=9 time-budget-hours=none": "--num-trials 9 --time-budget-hours null",
}


@pytest.mark.parametrize("words", RESUMED)
def test_a_resume_does_what_a_command_to_a_sweep_that_has_ended_asks(words: str, tmp_path: Path) -> None:
    folder = searched(tmp_path, "ended", peak(0.03), num_trials=2).record.folder
    resume = sweep_folder.resume_command(folder, *RESUMED[words].split())
    assert str(steering.how_to_go_on(folder, words.split())).endswith(f"A resume does that: {resume}")


def test_a_sweep_that_is_resumed_meanwhile_is_asked_again(tmp_path: Path) -> None:
    """Its process may begin between the question whether there is one and the answer what to do."""
    folder = searched(tmp_path, "ended", peak(0.03), num_trials=2).record.folder
    assert "For more trials: " in str(steering.how_to_go_on(folder))
    with lock.held(folder):
        assert steering.how_to_go_on(folder) is None


def test_without_a_name_the_only_sweep_that_runs_is_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert control.main(["pause"]) == 2
    assert "no sweep in results/ here" in capsys.readouterr().err
    folders = [searched(tmp_path / "results", name, peak(0.03), num_trials=2).record.folder for name in "ab"]
    assert control.main(["pause"]) == 2
    assert "results/b: the sweep is finished. For more trials: " in capsys.readouterr().err
    monkeypatch.setattr("sweeps.record.control_requests.ask.__defaults__", (0.0,))
    with lock.held(folders[0]):
        inbox = Inbox(folders[0])
        inbox.open()
        assert control.main(["stop", "1"]) == 0
        assert [request.words for request in inbox.take()[0]] == [("stop", "1")]
        capsys.readouterr()
        with lock.held(folders[1]):
            assert control.main(["stop", "1"]) == 2
        assert "several sweeps run here: give the name of one first. Names: a, b" in capsys.readouterr().err
        inbox.close()

"""Which loggers may be named, what one that is missing asks for, and what holds for each."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config import cli, plugins
from sweeps.loggers import _follower
from tests.conftest import fill_up, skip_without
from tests.sweeps.loggers.logged import EPOCHS_IN, Epochs, log, log_anew
from tests.sweeps.plan.test_resume import Sweep

PATIENCE_S = 60.0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["tensorbord"], "--loggers tensorbord: no such logger. Did you mean 'tensorboard'?"),
        (["mlflow", "mlflow"], "--loggers mlflow mlflow: a name is given twice"),
        (["mlflow,tensorboard"], "--loggers mlflow,tensorboard: separate names by spaces"),
    ],
)
def test_a_mistake_is_a_line(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plugins.find("logger", cli.parse(["--loggers", *names]).logger_names[0])


def test_one_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)  # as if it were not there
    with pytest.raises(UserError, match=r"mlflow is not installed: \S+ -m pip install 'raysweeps\[mlflow\]'"):
        plugins.find("logger", "mlflow")


def test_one_or_several_may_be_named() -> None:
    assert cli.parse(["--loggers", "mlflow"]).logger_names == ["mlflow"]
    both = cli.parse(["--loggers", "tensorboard", "mlflow", "--seed", "1"])
    assert (both.logger_names, both.seed) == (["tensorboard", "mlflow"], 1)
    assert cli.parse([]).logger_names == []
    assert dataclasses.replace(both, loggers=None).logger_names == []


@pytest.fixture(params=plugins.choices("logger"))
def name(request: pytest.FixtureRequest) -> str:
    """Each logger of this program."""
    found: str = request.param
    skip_without("mlflow" if found == "tensorboard" else found)  # the extra has TensorBoard's reader
    return found


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, f"not in {PATIENCE_S:g} s"
        time.sleep(0.05)


def written(name: str, folder: Path) -> Epochs:
    """What is there, also while it is being written."""
    try:
        return EPOCHS_IN[name](folder)
    except Exception:  # a database that is being made, say
        return {}


class Said:
    """What was printed so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self._text = capsys, ""

    def __str__(self) -> str:
        self._text += self._capsys.readouterr().out
        return self._text


def followed(
    of: Sweep, name: str, end_s: float = 60.0, answer_s: float = 90.0
) -> contextlib.AbstractContextManager[None]:
    """Retries come at once."""
    intervals = _follower.Intervals(every_s=0.05, retry_s=0.05, end_s=end_s, answer_s=answer_s)
    return _follower.following([name], of.folder, intervals)


@pytest.mark.slow
def test_each_epoch_is_there_once_after_two_resumes(name: str, tmp_path: Path) -> None:
    of = Sweep(tmp_path)
    with followed(of, name):
        of.trial(1.0, 2.0, ended="pruned")
        of.trial(1.0)
    of.trial(4.0, ended="finished")
    log(name, of.record)
    with followed(of, name):
        of.record.report(1, 2, 3.0, {"score": 3.0}, 1.0)
        of.record.end(1, "finished")
    assert EPOCHS_IN[name](of.folder) == {0: [(1, 1.0), (2, 2.0)], 1: [(1, 1.0), (2, 3.0)], 2: [(1, 4.0)]}


@pytest.mark.slow
def test_a_resume_of_a_sweep_that_has_ended_writes_what_is_missing(name: str, tmp_path: Path) -> None:
    of = Sweep(tmp_path)
    of.trial(1.0, ended="finished")
    _follower.catch_up([name], of.folder)
    assert EPOCHS_IN[name](of.folder) == {0: [(1, 1.0)]}


@pytest.mark.long
def test_a_full_disk_costs_a_line_and_nothing_else(
    name: str, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(small_disk)
    of.trial(1.0, 2.0, ended="finished")
    others = fill_up(small_disk)
    said = Said(capsys)
    with followed(of, name):
        until(lambda: f"--loggers {name}: " in str(said))
        others.unlink()
        until(lambda: written(name, of.folder) == {0: [(1, 1.0), (2, 2.0)]})
    assert str(said).count(f"--loggers {name}: ") == 1


@pytest.mark.long
def test_files_that_are_removed_under_it_cost_at_most_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = Sweep(tmp_path)
    before = set(of.folder.iterdir())
    with followed(of, name):
        of.trial(1.0, ended="finished")
        until(lambda: 0 in written(name, of.folder))
        for path in set(of.folder.iterdir()) - before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        of.trial(2.0, ended="finished")
    assert capsys.readouterr().out.count("The sweep continues") <= 1
    assert [trial.status for trial in of.record.trials] == ["finished", "finished"]
    log_anew(name, of.record)
    assert EPOCHS_IN[name](of.folder) == {0: [(1, 1.0)], 1: [(1, 2.0)]}


@pytest.mark.parametrize(
    ("logger", "error"), [("raising_logger", "ValueError: of a library"), ("exiting_logger", "SystemExit: 3")]
)
def test_one_that_raises_is_told_once_and_at_the_end(
    logger: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"tests.faulty.{logger}"
    of = Sweep(tmp_path)
    said = Said(capsys)
    with followed(of, name):
        of.trial(1.0)
        until(lambda: "The sweep continues" in str(said))
        time.sleep(0.5)  # it is tried again
    first, last = (line for line in str(said).splitlines() if line.startswith("--loggers"))
    reason = f"--loggers {name}: {error}."
    assert first == f"{reason} The sweep continues; the logger retries every 0.05 s."
    assert last == f"{reason} Some results were not written."

"""The tutorial leads a reader to its end, and the report's page explains each part that has a number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.analysis import figures
from sweeps.config import cli
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.record.record import Record
from tests.conftest import ROOT
from tests.docs import marked_report, tutorial
from tests.docs.pages import BY_NAME, PAGES, WALKED
from tests.support.lab import Lab
from tests.support.searched import peak, searched

RUNS = [command for command in WALKED.commands if command.startswith("sweeps run")]


def test_each_command_is_walked_or_has_its_reason() -> None:
    programs = {command.split()[0] for command in tutorial.commands()}
    assert programs == {"sweeps", "rsync", "RAY_AUTH_MODE=token", "ray"}
    left_out = [command for command in WALKED.commands if command and command not in tutorial.commands()]
    assert all(any(each.startswith(words) for each in left_out) for words in tutorial.NOT_WALKED)


@pytest.mark.parametrize("command", RUNS)
def test_its_sweeps_are_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tutorial.write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if {"--resume", "--refine"} & set(command.split()):
        searched(tmp_path / "results", "first", peak(0.03), num_trials=8)
        cli.parse(shlex.split(command)[2:])
    else:
        assert "5 hyperparameters" in describe(make_plan(cli.parse(shlex.split(command)[2:])))


@pytest.mark.long
def test_a_reader_comes_to_its_end(lab_of: Callable[..., Lab]) -> None:
    reader = tutorial.Reader(lab_of(3, net=tutorial.NET))
    tutorial.walk(reader)
    assert reader.left == set()
    trained_once = reader.recordings["sweeps fit tune_digits --test"].lines()
    assert not [line for line in trained_once if "%|" in line], "its bar is gone at the end"
    second = Record.read(reader.folder("second"))
    assert {place["pc"] for trial in second.trials for place in trial.places} == {"pc1", "pc2"}
    assert len(second.confirmed_with_score()) > 1


def test_each_number_beside_a_report_is_explained() -> None:
    marked = [selector for part in marked_report.PARTS for selector in part.marked]
    assert marked_report.numbers_explained() == list(range(1, len(marked) + 1))
    shown = re.findall(r"\(images/report/([\w-]+)\.png\)", BY_NAME["reading-the-report"].text)
    assert shown == [part.name for part in marked_report.PARTS]


def test_each_figure_of_a_report_has_a_number() -> None:
    """But that of several objectives."""
    marked = " ".join(selector for part in marked_report.PARTS for selector in part.marked)
    assert set(re.findall(r"#figure-(\w+)", marked)) == set(figures.FIGURES) - {"front"}


def test_each_picture_is_shown() -> None:
    shown = {
        name for page in PAGES for name in re.findall(r"images/((?:tutorial|report)/[\w.-]+)", page.text)
    }
    images = ROOT / "docs" / "images"
    assert shown == {
        str(file.relative_to(images)) for name in ("tutorial", "report") for file in (images / name).iterdir()
    }

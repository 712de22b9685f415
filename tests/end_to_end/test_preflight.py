"""What can't train is found before the first epoch, and what a trial takes is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.conftest import Command

EARLY = (
    "--no-baseline",
    *("--trainable", "tests.faulty.early", "--no-ray-dashboard", "--max-concurrent", "1"),
    *("--num-trials", "3", "--max-epochs", "2", "--scheduler", "none", "--searcher", "random"),
)


def named(folder: Path) -> tuple[str, ...]:
    return ("--name", folder.name, "--results-dir", str(folder.parent))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("mute", "preflight: metric 'score' was not logged; logged: other"),
        pytest.param("build", "preflight: RuntimeError: the toy can't be built", marks=pytest.mark.long),
        pytest.param("step", "preflight: RuntimeError: the toy can't take a step", marks=pytest.mark.long),
    ],
)
def test_what_no_trial_can_do_ends_the_sweep_before_an_epoch(
    fault: str, reason: str, sweep: Command, tmp_path: Path
) -> None:
    done = sweep(*EARLY, "--params", f"fault={fault}", *named(tmp_path / "s"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert reason in done.stderr
    assert "Nothing was trained. Repair the code, and resume: " in done.stderr
    assert ("Traceback" in done.stdout) == (fault != "mute"), "of the user's code, not of a mistake in a flag"
    assert not any(trial.epochs for trial in Record.read(tmp_path / "s").trials)


@pytest.fixture(scope="module")
def only_large(sweep: Command, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("preflight") / "s"
    done = sweep(*EARLY, "--params", "fault=step", "only_large=true", "--seed", "3", *named(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, folder


@pytest.mark.long
def test_what_only_the_largest_trials_can_t_do_is_told(only_large: tuple[str, Path]) -> None:
    output, folder = only_large
    assert "size=4: such a trial will fail: RuntimeError: the toy can't take a step" in output
    assert "Traceback" not in output
    for trial in Record.read(folder).trials:
        assert trial.status == ("failed" if trial.params["size"] == 4 else "finished")


@pytest.mark.long
def test_a_resume_does_not_repeat_it(only_large: tuple[str, Path], sweep: Command) -> None:
    _, folder = only_large
    done = sweep("--resume", str(folder), "--num-trials", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Preflight" not in done.stdout


@pytest.mark.long
def test_a_process_that_dies_in_it_costs_no_other_trial(sweep: Command, tmp_path: Path) -> None:
    """The trial that waited for it begins again in another process, which has no preflight."""
    words = ("--params", "fault=dies", "only_large=true", "--seed", "3")
    done = sweep(*EARLY, *words, *named(tmp_path / "s"))
    assert done.returncode == 0, done.stdout + done.stderr
    trials = Record.read(tmp_path / "s").trials
    for trial in trials:
        assert trial.status == ("failed" if trial.params["size"] == 4 else "finished")
    assert trials[0].params["size"] != 4, "it is the one that waited"
    assert " ended: exit status 7; such trials may end so, too: size=4. Trial 0 had not begun" in done.stdout
    assert "Trial 0 lost its process" not in done.stdout


@pytest.mark.long
def test_it_tells_what_a_trial_takes_and_changes_no_result(sweep: Command, tmp_path: Path) -> None:
    words = ("--trainable", "digits_mlp", "--num-trials", "2", "--max-epochs", "2", "--no-ray-dashboard")
    outputs = {}
    for flag in ("--preflight", "--no-preflight"):
        done = sweep(*words, flag, "--max-concurrent", "1", *named(tmp_path / flag.strip("-")))
        assert done.returncode == 0, done.stdout + done.stderr
        outputs[flag] = done.stdout
    assert "Preflight   " in outputs["--preflight"]
    assert "on the CPU, about" in outputs["--preflight"]
    assert "Disk: at most" in outputs["--preflight"]
    assert "Preflight" not in outputs["--no-preflight"]
    with_it, without = (Record.read(tmp_path / name).trials for name in ("preflight", "no-preflight"))
    for ours, theirs in zip(with_it, without, strict=True):
        assert ours.params == theirs.params
        assert [row.metrics for row in ours.epochs.values()] == [
            row.metrics for row in theirs.epochs.values()
        ]


@pytest.mark.long
def test_a_batch_that_does_not_fit_is_told(sweep: Command, tmp_path: Path, attempts: Path) -> None:
    os.makedirs(attempts, exist_ok=True)  # noqa: PTH103
    done = sweep(
        "--no-baseline",
        *("--trainable", "tests.faulty.hungry", "--search-space", "tests.faulty.one_hungry"),
        *("--no-ray-dashboard", "--max-concurrent", "1", "--max-epochs", "1"),
        *("--scheduler", "none", "--searcher", "grid", *named(tmp_path / "s")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "case=quarter: on the CPU, such a trial runs out of memory: it goes on with micro-b" in done.stdout

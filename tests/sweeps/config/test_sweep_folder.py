"""A folder that is no sweep is answered with the nearest that is one."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config.cli import parse
from sweeps.config.sweep_folder import JOURNAL, newest_sweep, no_sweep, repeat_command, sweep_named
from sweeps.kinds import params_file, registry
from tests.sweeps.config.typed import faults, sweep_in


def test_a_folder_that_is_not_there_is_answered_with_the_nearest(tmp_path: Path) -> None:
    for name in ("digits-1", "fashion-7"):
        sweep_in(tmp_path, name)
    (tmp_path / "no-sweep").mkdir()
    (fault,) = faults("--resume", f"{tmp_path}/fasion-7")
    assert fault == f"--resume {tmp_path}/fasion-7: no such folder. Did you mean '{tmp_path}/fashion-7'?"
    (fault,) = faults("--resume", f"{tmp_path}/x")
    assert fault.endswith(f"Existing sweeps: {tmp_path}/digits-1, {tmp_path}/fashion-7")


@pytest.mark.parametrize("name", ["best of May (kept)", "modèle-20260131-101112", "模型", "x" * 100])
def test_a_name_that_is_made_of_another_one_is_taken(name: str, tmp_path: Path) -> None:
    """By --refine without --name, and by the command that repeats a sweep; a folder may have been renamed."""
    folder = sweep_in(tmp_path, name, "trainable: net\nnum_trials: 5\n")
    assert str(parse(["--refine", str(folder)]).name).endswith("-refined")
    words = shlex.split(repeat_command(folder, name))
    assert parse(words[words.index("--config") :]).num_trials == 5
    assert parse(["--name", registry.new_name([name])]).name


def test_the_name_of_a_sweep_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_in(tmp_path / "results", "fashion-7")
    monkeypatch.chdir(tmp_path)
    for given in ("fashion-7", "results/fashion-7", str(tmp_path / "results" / "fashion-7")):
        assert sweep_named(given).resolve() == tmp_path / "results" / "fashion-7"
    (fault,) = faults("--resume", "fasion-7")
    assert fault == "--resume fasion-7: no sweep of this name, no folder. Did you mean 'results/fashion-7'?"
    (tmp_path / "fashion-7").mkdir()
    assert sweep_named("fashion-7") == Path("results/fashion-7"), "a folder beside it is no sweep"
    (tmp_path / "fashion-7").rmdir()
    sweep_in(tmp_path, "fashion-7")
    assert sweep_named("fashion-7") == Path("fashion-7"), "the sweep that was typed is there"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder of two sweeps, as someone sees it who may not look into the second one."""
    with tempfile.TemporaryDirectory() as made:
        folder, me = Path(made), os.geteuid()
        folder.chmod(0o755)
        for name in ("mine", "theirs"):
            sweep_in(folder, name)
        (folder / "results").symlink_to("theirs")
        (folder / "theirs").chmod(0)
        try:
            if me == 0:  # to whom nothing is closed
                os.seteuid(65534)
            yield folder
        finally:
            os.seteuid(me)
            (folder / "theirs").chmod(0o755)


def test_a_sweep_that_only_its_owner_may_read_is_told_as_such(shared: Path) -> None:
    from sweeps import results

    theirs = shared / "theirs"
    closed = f"{theirs}: it can't be read (Permission denied): only its owner may open it"
    assert no_sweep(theirs) == closed
    assert faults("--resume", str(theirs)) == [f"--resume {closed}"]
    assert faults("--refine", f"{theirs}/{JOURNAL}") == [f"--refine {closed}"]
    assert params_file.named(str(theirs)) == f"{theirs}/best/params.yaml", "reading it says why not"
    folders, _ = results.parse([str(theirs), str(shared / "mine")])
    assert folders == [theirs, shared / "mine"], "a table of the others names it"


def test_a_pair_is_no_folder_where_only_others_may_look_into_results(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared)
    assert params_file.named("lr=0.1") == ""
    assert params_file.named("mine-7") == "results/mine-7/best/params.yaml", "reading it says why not"


def test_the_newest_sweep_is_the_one_that_changed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="no sweep in results/ here"):
        newest_sweep()
    for name in ("a", "c", "b"):
        sweep_in(tmp_path / "results", name)
    for age, name in enumerate(("b", "c", "a")):
        os.utime(tmp_path / "results" / name / JOURNAL, (1e9 - age, 1e9 - age))
    assert newest_sweep() == Path("results/b")
    assert parse(["--resume"]).name == "b"
    assert parse(["--refine", "--dry-run"]).refine == "results/b"
    assert parse(["--refine=c", "a"]).refine == parse(["--refine", "c", "a"]).refine
    assert parse(["--refine", "c", "a"]).refine == ["results/c", "results/a"]
    assert faults("--submit", "--address", "h:1", "--resume")[0].startswith("--resume: give the name")


def test_a_single_run_is_told_as_such_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "f1").mkdir(parents=True)
    (tmp_path / "results" / "f1" / "fit.yaml").touch()
    assert faults("--resume", "f1") == ["--resume results/f1: a single run of sweeps fit, not a sweep."]


def test_only_the_last_sweeps_of_many_are_listed(tmp_path: Path) -> None:
    for number in range(20):
        sweep_in(tmp_path, f"s{number:02d}")
    (fault,) = faults("--resume", f"{tmp_path}/x")
    assert fault.count(str(tmp_path)) < 12
    assert fault.endswith(f"{tmp_path}/s19 and 12 more")


def test_a_folder_without_settings_is_no_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    assert faults("--resume", f"{tmp_path}/s") == ["--resume s: not a sweep: record.journal is missing."]

"""The command that lists sweeps, and what it says of what is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from sweeps import results
from sweeps.analysis import sweep as analysis_sweep
from sweeps.config.sweep_folder import JOURNAL
from sweeps.execution.output.folder_files import TRIALS_FILE, write_tables
from sweeps.record.journal import RecordUnreadable
from tests.conftest import ROOT, propose
from tests.support.scored import make


def command(*arguments: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python -m sweeps.results ...` as it is typed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    typed = [sys.executable, "-m", "sweeps.results", *map(str, arguments)]
    return subprocess.run(typed, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60)


def test_the_command_has_the_functions_that_notebooks_use(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1, 0.2], [0.3]])
    sweep = results.load(tmp_path / "a")
    assert sweep.trials.num_rows == 2
    assert results.compare([sweep, tmp_path / "a"])["name"].to_pylist() == ["a", "a"]


def test_the_command_prints_sweeps_oldest_first_in_a_line_each_without_colour(tmp_path: Path) -> None:
    for name, started in (("younger", 2e9), ("older", 1e9)):
        record = make(tmp_path / "results" / name, [[0.1, 0.25]])
        record.note("started", started)
        record.note("outcome", "finished")
    record.note("parents", [{"name": "wide", "folder": "results/wide", "started": 5.0}])
    done = command(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    header, *lines = [line.split() for line in done.stdout.splitlines()]
    assert header == ["name", "date", "trainable", "status", "trials", "best", "hours", "parent"]
    assert [line[0] for line in lines] == ["older", "younger"]
    assert lines[0][3:] == ["digits_mlp", "finished", "1", "val_acc", "0.25", "0.00", "wide"]
    assert "\x1b" not in done.stdout


def test_what_is_no_sweep_is_named_in_a_line_and_ends_nothing(tmp_path: Path) -> None:
    make(tmp_path / "good", [[0.5]])
    make(tmp_path / "many" / "one", [[0.5]])
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / "fit.yaml").touch()
    (tmp_path / "ladder").mkdir()
    (tmp_path / "ladder" / "ladder.json").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.txt").touch()
    names = ("a.txt", "empty", "fit", "good", "goood", "ladder", "many")
    done = command(*names, cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3, "the titles, good, and the one in many"
    assert done.stderr.splitlines() == [
        "a.txt: not a folder. Existing sweeps: good",
        f"empty: not a sweep: {JOURNAL} is missing. Existing sweeps: good",
        "goood: no sweep of this name, no folder. Did you mean 'good'?",
    ]
    (tmp_path / "results").mkdir()
    for name in ("fit", "good", "ladder"):
        (tmp_path / name).rename(tmp_path / "results" / name)
    done = command(cwd=tmp_path)
    assert (done.stderr, len(done.stdout.splitlines())) == ("", 2), "single runs are no sweep by intention"
    alone = command("results/fit", "results/ladder", cwd=tmp_path)
    assert alone.returncode == 2
    assert "results/ladder: a ladder of sweeps ladder, not a sweep." in alone.stderr


def test_without_a_sweep_the_exit_status_is_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command("nothing", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    missing, error = done.stderr.splitlines()
    assert missing == "nothing: no sweep of this name, no folder."
    assert error.startswith("error: no sweep in nothing: give folders of sweeps, as in ")
    monkeypatch.chdir(tmp_path)
    assert results.main([]) == 2
    assert capsys.readouterr().err.startswith("error: no sweep in results/ here: give folders")
    assert results.main(["--jsn"]) == 2
    assert "--jsn: no such flag. Did you mean '--json'?" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    make(tmp_path / "a", [[0.1]])
    reader, writer = os.pipe()
    os.close(reader)
    typed = [sys.executable, "-m", "sweeps.results", str(tmp_path / "a")]
    done = subprocess.run(typed, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_command_answers_in_json_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "a", [[0.5, 0.6]])
    assert results.main([str(tmp_path / "a"), "--json"]) == 0
    end = json.loads(capsys.readouterr().out)
    assert (end["event"], end["exit_status"]) == ("end", 0)
    (row,) = end["sweeps"]
    assert (row["name"], row["best_score"], row["epochs"]) == ("a", 0.6, 2)
    assert datetime.fromisoformat(row["date"]).tzinfo is not None


# What may be wrong with a record.


@pytest.mark.parametrize("damage", [b"\x00\x00\n", b'{"op_code":8\n', b"17\n", b'{"op_code":99}\n'])
def test_damage_inside_a_record_is_named(
    damage: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, [[0.1, 0.2]])
    lines = (tmp_path / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[8] = damage
    (tmp_path / JOURNAL).write_bytes(b"".join(lines))
    named = "damaged" if b"99" in damage else "line 9 is damaged, and intact lines follow it"
    with pytest.raises(RecordUnreadable, match=f"{JOURNAL}: {named}"):
        analysis_sweep.load(tmp_path)
    assert results.main([str(tmp_path)]) == 2
    assert named in capsys.readouterr().err.replace("\n", " ")


def test_a_table_that_is_half_written_changes_nothing(tmp_path: Path) -> None:
    record = make(tmp_path, [[0.1, 0.2], [0.3]])
    before = analysis_sweep.load(tmp_path).trials
    write_tables(record, tmp_path)
    content = (tmp_path / TRIALS_FILE).read_bytes()
    (tmp_path / TRIALS_FILE).write_bytes(content[: len(content) // 2])
    (tmp_path / f".{TRIALS_FILE}.part").write_bytes(content[:10])
    assert analysis_sweep.load(tmp_path).trials.equals(before)
    assert analysis_sweep.compare([tmp_path])["best_score"].to_pylist() == [0.3]
    assert results.main([str(tmp_path)]) == 0


def test_a_sweep_without_a_trial_that_ended_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = make(tmp_path, [])
    propose(record, {"lr": 0.1})
    record.end(0, "failed", "ValueError: no")
    sweep = analysis_sweep.load(tmp_path)
    assert sweep.best() is None
    (row,) = analysis_sweep.compare([sweep]).to_pylist()
    assert (row["best_score"], row["failed"], row["epochs"]) == (None, 1, 0)
    assert results.main([str(tmp_path)]) == 0
    assert " none " in capsys.readouterr().out


@pytest.mark.long
def test_ten_thousand_trials_are_read(tmp_path: Path) -> None:
    make(tmp_path, [[number / 10_000] for number in range(10_000)])
    sweep = analysis_sweep.load(tmp_path)
    assert (sweep.trials.num_rows, sweep.epochs.num_rows) == (10_000, 10_000)
    assert "10000" in command(tmp_path).stdout

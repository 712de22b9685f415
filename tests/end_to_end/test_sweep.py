"""A whole sweep, as a user runs it without flags for the search: digits_mlp on a local Ray."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml

from sweeps import sweep as whole_sweep
from sweeps.analysis import advice, figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.config import cli
from sweeps.plan.build import make_plan
from sweeps.record.record import Record
from tests.conftest import Command
from tests.docs.test_notebook import figures_in, run, share_right, text_of
from trainables import digits_mlp

NUM_TRIALS = 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results") / "whole"


@pytest.fixture(scope="module")
def done(sweep: Command, folder: Path) -> subprocess.CompletedProcess[str]:
    return sweep(
        *("--trainable", "digits_mlp", "--num-trials", str(NUM_TRIALS), "--max-epochs", "9"),
        *("--name", folder.name, "--results-dir", str(folder.parent), "--seed", "7"),
    )


@pytest.fixture(scope="module")
def trials(done: subprocess.CompletedProcess[str], folder: Path) -> list[dict[str, object]]:
    assert done.returncode == 0, done.stdout + done.stderr
    return pq.read_table(folder / "trials.parquet").to_pylist()


def test_says_what_it_will_do_what_it_found_and_where_it_is(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    # "Starting or joining" where the Ray of the sweep before is about to end.
    plan, outcome = re.split(r"\n(?:Starting|Joining)\b.* Ray\b", done.stdout, maxsplit=1)
    said = " ".join(plan.split())
    assert (
        "halving: 10 trials to epoch 3, of them the best 3 to epoch 9, chosen as they arrive; at most 3 wait"
        in said
    )
    assert "digits, inside the scikit-learn package: 1,200 rows" in plan
    assert "; its dashboard: http://127.0.0.1:" in outcome
    assert f"trials {NUM_TRIALS}/{NUM_TRIALS} ended" in outcome
    assert "saved by pruning" in outcome
    assert "defaults   trial 0: lr=0.05, momentum=0.9, hidden=32\n" in plan
    assert re.search(r"\nDefaults   trial 0: val_acc 0\.\d+ in epoch \d, (rank|and no)", outcome)
    assert "test_acc" in outcome
    assert str(folder / "best") in outcome
    assert f"--config {folder / 'sweep.yaml'}" in outcome


def test_keeps_quiet_otherwise(done: subprocess.CompletedProcess[str]) -> None:
    assert done.stderr == ""
    assert "Warning" not in done.stdout


def test_trials_end_at_rungs_only(trials: list[dict[str, object]]) -> None:
    assert len(trials) == NUM_TRIALS
    ended = {(trial["status"], trial["epochs"]) for trial in trials}
    assert ended <= {("pruned", 3), ("finished", 9)}
    assert ("finished", 9) in ended


def test_every_epoch_is_a_row(trials: list[dict[str, object]], folder: Path) -> None:
    epochs = pq.read_table(folder / "epochs.parquet")
    assert epochs.num_rows == sum(int(str(trial["epochs"])) for trial in trials)
    assert {"id", "epoch", "val_acc", "val_loss", "train_loss", "seconds", "time"} <= set(epochs.column_names)


def test_params_are_typed_columns_swept_and_fixed(trials: list[dict[str, object]], folder: Path) -> None:
    schema = pq.read_schema(folder / "trials.parquet")
    assert schema.field("params_lr").type == pa.float64()
    assert schema.field("params_hidden").type == pa.int64()
    assert {trial["params_batch_size"] for trial in trials} == {64}


def test_trials_share_warm_processes(trials: list[dict[str, object]]) -> None:
    assert len({trial["pid"] for trial in trials}) <= 2


def test_the_winner_alone_is_kept_and_its_weights_are_those_of_its_best_epoch(
    trials: list[dict[str, object]], folder: Path
) -> None:
    winner = max(trials, key=lambda trial: float(str(trial["best_val_acc"])))
    about = yaml.safe_load((folder / "best" / "params.yaml").read_text())
    assert about["params"]["lr"] == winner["params_lr"]
    model = digits_mlp.build_model(digits_mlp.Params(**about["params"]))
    model.load_state_dict(torch.load(folder / "best" / "weights.pt", weights_only=True))
    inputs, labels = next(iter(digits_mlp.build_data(digits_mlp.Params()).val_dataloader()))
    accuracy = (model(inputs).argmax(1) == labels).float().mean().item()
    assert accuracy == pytest.approx(winner["best_val_acc"])
    assert [path.parent.name for path in (folder / "checkpoints").glob("trial_*/epoch_*")] == [
        f"trial_{winner['id']:04d}"
    ]


def test_the_record_alone_gives_the_same_tables(trials: list[dict[str, object]], folder: Path) -> None:
    loaded = analysis_sweep.load(folder)
    assert loaded.trials.select(["id", "status", "epochs", "best_val_acc"]).to_pylist() == [
        {key: trial[key] for key in ("id", "status", "epochs", "best_val_acc")} for trial in trials
    ]
    assert loaded.about["test"]["test_acc"] > 0.5


def test_the_folder_tells_how_it_was_made(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert done.returncode == 0
    environment = (folder / "environment.txt").read_text()
    for word in ("command", "--num-trials 10", "torch", "ray", "commit", "CPUs"):
        assert word in environment
    assert yaml.safe_load((folder / "sweep.yaml").read_text())["metric"] == "val_acc"


def test_the_notebook_shows_it(
    trials: list[dict[str, object]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = run(monkeypatch, folder)
    assert sorted(figures_in(cells)) == sorted(figures.FIGURES)
    assert "finished" in text_of(cells, "compare([sweep])")
    assert "params_lr" in text_of(cells, "sweep.trials")
    step, *_ = advice.advise(analysis_sweep.load(folder)).steps
    assert step.text in text_of(cells, "advice.advise")
    assert text_of(cells, "compare(folders)").count("digits_mlp") == 1
    score = float(re.findall(r"score=([\d.]+)", text_of(cells, "best = sweep.best()"))[0])
    assert share_right(cells) == pytest.approx(score, abs=0.01)


@pytest.mark.long
def test_the_same_seed_from_its_own_yaml_trains_the_same_trials(
    trials: list[dict[str, object]], folder: Path, sweep: Command
) -> None:
    again = sweep(
        *("--config", str(folder / "sweep.yaml"), "--name", "again"),
        *("--num-trials", "3", "--no-ray-dashboard"),
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert "its dashboard" not in again.stdout
    third = Record.read(folder.parent / "again").trials
    # The first points fill the space, whatever scores; and a trial trains alike whatever ran before it.
    for first, second in zip(Record.read(folder).trials[:3], third, strict=True):
        assert first.params == second.params
        shared = first.epochs.keys() & second.epochs.keys()
        assert shared
        assert [first.epochs[e].score for e in shared] == [second.epochs[e].score for e in shared]


@pytest.mark.long
def test_more_trials_may_keep_the_best_weights_that_fit_in_a_size(
    trials: list[dict[str, object]], folder: Path, sweep: Command
) -> None:
    """Until now the best one alone was kept."""
    most = 150_000
    more = sweep(
        *("--resume", str(folder), "--num-trials", "20", "--keep-checkpoints", "150kB", "--no-ray-dashboard")
    )
    assert more.returncode == 0, more.stdout + more.stderr
    assert "  disk: at most " in more.stdout
    assert yaml.safe_load((folder / "sweep.yaml").read_text())["keep_checkpoints"] == "150kB"
    record, fitting, taken = Record.read(folder), set(), 0
    for number in record.leaders(20):
        taken += record.trials[number].checkpoint_bytes
        if fitting and taken > most:
            break
        fitting.add(number)
    there = list((folder / "checkpoints").glob("trial_*/epoch_*/*"))
    kept = {int(path.parts[-3].removeprefix("trial_")) for path in there}
    assert record.leaders(1)[0] in kept <= fitting
    assert {number for number in fitting - kept if record.trials[number].checkpoint_bytes} < set(range(10))
    assert sum(path.stat().st_size for path in there) <= most


def test_a_resume_of_a_finished_sweep_writes_its_report_and_its_tables_again_as_they_were(
    done: subprocess.CompletedProcess[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pq.read_table(folder / "trials.parquet").to_pylist()
    before = (folder / "report.html").read_text()
    assert "The sweep is finished: " in before
    assert "--confirm 3" in before
    (folder / "report.html").unlink()
    (folder / "trials.parquet").write_bytes(b"PAR1 and no more")
    assert whole_sweep.run(make_plan(cli.parse(["--resume", str(folder)])), None) == 0
    assert f"is finished: {len(rows)} trials ended" in capsys.readouterr().out
    again = (folder / "report.html").read_text()
    made = re.compile(r"made from its record on \d{4}-\d\d-\d\d at \d\d:\d\d")
    assert made.search(again)
    assert made.sub("", again) == made.sub("", before)
    moments = ["start", "end"]  # Optuna notes them by its own clock
    restored = pq.read_table(folder / "trials.parquet").drop_columns(moments).to_pylist()
    assert restored == [{key: row[key] for key in row if key not in moments} for row in rows]

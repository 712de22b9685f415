"""Trials of two workers: the same training as one, and whole again when a worker is lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.training.config import FitConfig
from tests.conftest import Command
from tests.faulty import pair
from tests.support.trainables import as_trainable, run_through

EPOCHS = 4
TOLERANCE = 1e-5
"""Of a loss: two halves of a batch are summed in another order than the whole."""
METRICS = ("train_loss", "val_loss", "val_acc")
TWO = ("--workers-per-trial", "2", "--no-ray-dashboard", "--no-preflight", "--name", "s")
PAIR = ("--no-baseline", "--trainable", "tests.faulty.pair", *TWO)
FAULTS = (
    *("--search-space", "tests.faulty.pair_faults", "--searcher", "grid", "--scheduler", "none"),
    *("--max-epochs", str(EPOCHS), "--checkpoint-epochs", "1", "--max-failures", "1"),
)
STRATEGIES = ["deepspeed_stage_2", "fsdp", "ddp"]


@pytest.fixture(scope="module", params=STRATEGIES)
def by_fault(
    request: pytest.FixtureRequest, sweep: Command, tmp_path_factory: pytest.TempPathFactory, attempts: Path
) -> dict[str, TrialRow]:
    """Fault to the trial that had it, of a sweep by each strategy."""
    forget(attempts)
    folder = tmp_path_factory.mktemp("results")
    strategy = ("--strategy", request.param)
    done = sweep(*PAIR, *FAULTS, *strategy, "--results-dir", str(folder), timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return {str(trial.params["fault"]): trial for trial in Record.read(folder / "s").trials}


def forget(attempts: Path) -> None:
    """Let faults that occur once occur again."""
    for file in attempts.iterdir():
        file.unlink()


def losses(trial: TrialRow) -> list[dict[str, float]]:
    return [{name: each.metrics[name] for name in METRICS} for each in trial.epochs.values()]


def alone(seed: int, folder: Path) -> list[dict[str, float]]:
    """The same training in one process, without a sweep."""
    from sweeps.training.runs.fit_loop import Fit

    seen = []
    config = FitConfig(max_epochs=EPOCHS, metric="val_loss", mode="min", seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOY_ATTEMPTS", str(folder))
        run_through(
            Fit(as_trainable(pair), pair.Params(), config), lambda epoch: seen.append(epoch.metrics) is None
        )
    return [{name: metrics[name] for name in METRICS} for metrics in seen]


@pytest.mark.long
@pytest.mark.parametrize("fault", ["none", "flaky", "killed", "killed_first"])
def test_two_workers_train_as_one_whatever_happens_to_one_of_them(
    fault: str, by_fault: dict[str, TrialRow], tmp_path: Path
) -> None:
    trial = by_fault[fault]
    assert (trial.status, list(trial.epochs)) == ("finished", [1, 2, 3, 4])
    for one, other in zip(losses(trial), alone(trial.seed, tmp_path), strict=True):
        assert one == pytest.approx(other, abs=TOLERANCE)


@pytest.mark.long
def test_a_worker_is_lost_and_no_epoch_of_the_checkpoint_is_trained_again(
    by_fault: dict[str, TrialRow], attempts: Path
) -> None:
    for fault in ("killed", "killed_first", "flaky"):
        for rank in (0, 1):
            epochs = [epoch for epoch, _ in pair.begun(attempts, fault, rank)]
            assert epochs == [1, 2, 3, 3, 4], f"{fault}, worker {rank}"


@pytest.mark.long
def test_the_process_of_a_trial_stays_warm_as_long_as_no_worker_is_lost(
    by_fault: dict[str, TrialRow],
) -> None:
    quiet = {by_fault[fault].place["pid"] for fault in ("none", "flaky")}
    assert len(quiet) == 1, "it lives on when a worker raises, and starts its workers anew"


@pytest.mark.long
def test_what_fails_one_worker_fails_the_trial_with_that_reason(by_fault: dict[str, TrialRow]) -> None:
    trial = by_fault["raises"]
    assert (trial.status, list(trial.epochs)) == ("failed", [1, 2])
    assert trial.reason.startswith("RuntimeError: the last worker broke (in another worker, on ")


@pytest.mark.long
def test_the_log_of_a_trial_has_what_all_its_workers_printed(
    sweep: Command, environment: dict[str, str], attempts: Path, tmp_path: Path
) -> None:
    """The last worker is killed in epoch 3, when its words of that epoch are not in the log yet."""
    forget(attempts)
    one = ("--search-space", "tests.faulty.pair_rates", "--searcher", "grid", "--scheduler", "none")
    more = ("--params", "fault=killed", "--num-trials", "1", "--max-epochs", "4", "--checkpoint-epochs", "1")
    # Ray's sockets are there too, whose paths must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as printed, pytest.MonkeyPatch.context() as patch:
        patch.setitem(environment, "TMPDIR", printed)
        done = sweep(*PAIR, *one, *more, "--results-dir", str(tmp_path), timeout_s=280)
        assert not list(Path(printed).glob("sweeps-trial-*.out")), "nothing is left behind"
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "s" / "logs" / "trial_0000.log").read_text().splitlines()
    for mark in ("epoch {} of 0", "[worker 1] epoch {} of 1"):
        found = [lines.count(mark.format(epoch)) for epoch in (1, 2, 3, 4)]
        assert found == [1, 1, 2, 1], (mark, lines, done.stdout)

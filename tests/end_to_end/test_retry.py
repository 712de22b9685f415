"""What failed is trained again: by a resume that is killed meanwhile, and in a sweep that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps import results
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests.support.steered import RunningSweep, running

AWAY = (
    *("--trainable", "tests.faulty.away", "--searcher", "random", "--max-epochs", "9", "--num-trials", "12"),
    *("--no-preflight", "--checkpoint-epochs", "1", "--max-concurrent", "2"),
)


def failed(record: Record) -> list[TrialRow]:
    return [trial for trial in record.trials if trial.status == "failed"]


@pytest.mark.long
def test_what_failed_goes_on_from_its_checkpoint_after_a_kill_of_the_retry_too(
    environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "back"
    with running(tmp_path / "s", {**environment, "AWAY_UNTIL": str(file), "EPOCH_S": "0.2"}, *AWAY) as sweep:
        assert sweep.wait() == 0
        before = sweep.record()
        assert len(failed(before)) == 3
        assert "--retry failed" in sweep.printed
        file.touch()
        sweep.start("--retry", "failed")
        sweep.wait_until("it trains them", lambda record: any(len(t.epochs) > 5 for t in record.live))
        sweep.kill()
        sweep.start()
        assert sweep.wait() == 0
        assert "goes on after epoch 4." in sweep.printed
        check(before, sweep)


@pytest.mark.long
def test_what_fails_is_retried_while_others_train(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "back"
    with running(tmp_path / "s", {**environment, "AWAY_UNTIL": str(file), "EPOCH_S": "0.5"}, *AWAY) as sweep:
        sweep.wait_until("one has failed", lambda record: bool(failed(record)))
        file.touch()
        before = sweep.record()
        assert "goes on after epoch 4" in sweep.does("retry", "failed")
        assert sweep.wait() == 0
        check(before, sweep)


def check(before: Record, sweep: RunningSweep) -> None:
    after = sweep.record()
    for old in before.trials:
        new = after.trials[old.number]
        if old.status == "failed":
            assert (new.status, len(new.epochs), new.attempt) == ("finished", 9, 1)
            assert {epoch: new.epochs[epoch] for epoch in old.epochs} == old.epochs
            (attempt,) = new.attempts
            assert attempt.log is not None
            assert "the data was away" in (sweep.folder / attempt.log).read_text()
        elif old.status != "unfinished":
            assert (new.status, new.epochs) == (old.status, old.epochs)
    assert [trial.number for trial in after.trials] == list(range(12))
    attempts = results.load(sweep.folder).trials.column("attempts").to_pylist()
    assert attempts == [trial.attempt + 1 for trial in after.trials]

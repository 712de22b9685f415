"""Whose weights stay."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.record.reruns import seeds
from sweeps.record.trials import Ending
from sweeps.storage import retention
from sweeps.storage.open import Folder
from sweeps.storage.protocol import StorageError
from sweeps.training.checkpoints import checkpoint_store
from tests.conftest import propose
from tests.support.confirmed import ASKED, rerun, searched


def write_weights(at: Path, number: int) -> None:
    checkpoint_store.write(
        checkpoint_store.folder_of(at, number), 1, lambda into: (into / "weights.pt").touch()
    )


def test_of_reruns_the_weights_of_the_best_stay_and_in_the_end_of_the_winner_alone(tmp_path: Path) -> None:
    config, record = SweepConfig.from_settings(keep_checkpoints=1), searched(tmp_path, 0.1, 0.9, 0.8)
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    a = rerun(record, 1, first, 0.5)
    write_weights(tmp_path, a.number)
    b = rerun(record, 2, first, 0.6)
    write_weights(tmp_path, b.number)
    assert retention.kept(config, record, Folder(tmp_path)) == {1, a.number, b.number}
    c = rerun(record, 1, second, 0.7, "unfinished")
    assert retention.would_be_kept(config, record, Folder(tmp_path), c.number)
    d = rerun(record, 2, second, 0.1, "unfinished")
    assert not retention.would_be_kept(config, record, Folder(tmp_path), d.number)
    write_weights(tmp_path, c.number)
    record.end(c.number, "finished")
    record.end(d.number, "finished")
    assert retention.kept(config, record, Folder(tmp_path)) == {1, c.number}


class SilentFolder(Folder):
    """A storage that does not answer."""

    def epochs(self, number: int) -> list[int]:
        raise StorageError("no answer")


def test_a_confirmation_outlives_a_storage_that_does_not_answer_for_some_seconds(tmp_path: Path) -> None:
    config, record = SweepConfig.from_settings(keep_checkpoints=1), searched(tmp_path, 0.1, 0.9)
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    rerun(record, 1, first, 0.5)
    last = rerun(record, 1, second, 0.4, "unfinished")
    assert retention.would_be_kept(config, record, SilentFolder(tmp_path), last.number)
    plan: Any = SimpleNamespace(config=config, storage=SilentFolder(tmp_path))
    assert Plan.end_trial(plan, record, last.number, Ending("finished")) == "no answer"
    assert record.trials[last.number].status == "finished"


def test_a_rerun_that_was_not_to_be_saved_does_not_lack_its_weights_after_a_silence(tmp_path: Path) -> None:
    config, record = SweepConfig.from_settings(keep_checkpoints=1), searched(tmp_path, 0.1, 0.9)
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    write_weights(tmp_path, rerun(record, 1, first, 0.5).number)
    last = rerun(record, 1, second, 0.4, "unfinished")
    assert not retention.lacks_weights(config, record, Folder(tmp_path), last.number)
    answers = iter([SilentFolder(tmp_path).epochs, Folder(tmp_path).epochs])
    once_silent: Any = SimpleNamespace(epochs=lambda number: next(answers)(number))
    with pytest.raises(StorageError, match="no answer"):
        retention.lacks_weights(config, record, once_silent, last.number)


def test_of_trials_that_failed_those_that_trained_furthest_keep_a_checkpoint_for_a_retry(
    tmp_path: Path,
) -> None:
    config, record = SweepConfig.from_settings(), Record.create(tmp_path, "s", "max", {})
    for epochs in (2, 1, 5, 4, 3):
        number = propose(record, {}).number
        for epoch in range(1, epochs + 1):
            record.report(number, epoch, 0.5, {}, 1.0)
        record.note_trial(number, checkpoint_bytes=0 if epochs == 4 else 100)
        write_weights(tmp_path, number)
        before = retention.kept(config, record, Folder(tmp_path))
        record.end(number, "diverged" if epochs == 1 else "failed")
        retention.drop(config, record, Folder(tmp_path), number, before)
    assert retention.kept(config, record, Folder(tmp_path)) == {0, 2, 4}
    assert sorted(Folder(tmp_path).numbers()) == [0, 2, 4]
    record.open_again(2, 1, "retried")
    assert retention.kept(config, record, Folder(tmp_path)) == {0, 4}


SIZES = {0: 300, 1: 900, 2: 400, 3: 200}
"""Bytes of the weights of each trial; the order of their scores is 1, 2, 0, 3."""


@pytest.mark.parametrize(
    ("keep", "fitting"),
    [
        ("0.1kB", {1}),  # the best one is always kept
        ("1.2kB", {1}),  # the second does not fit, so those behind it are not kept
        ("1.3kB", {1, 2}),
        ("1.6kB", {1, 2, 0}),
        ("1MB", {0, 1, 2, 3}),
    ],
)
def test_of_the_best_as_many_are_kept_as_fit_in_the_size(
    keep: str, fitting: set[int], tmp_path: Path
) -> None:
    config, record = SweepConfig.from_settings(keep_checkpoints=keep), Record.create(tmp_path, "s", "max", {})
    for (number, size), score in zip(SIZES.items(), (0.7, 0.9, 0.8, 0.6), strict=True):
        propose(record, {"lr": score})
        record.report(number, 1, score, {}, 1.0)
        record.note_trial(number, checkpoint_bytes=size)
        record.end(number, "finished")
    assert retention.kept(config, record, Folder(tmp_path)) == fitting
    assert retention.kept(config, Record.read(tmp_path), Folder(tmp_path)) == fitting


def test_a_trial_that_ends_is_kept_where_it_fits_behind_those_that_are_better(tmp_path: Path) -> None:
    config, record = (
        SweepConfig.from_settings(keep_checkpoints="1kB"),
        Record.create(tmp_path, "s", "max", {}),
    )

    def would_stay(score: float, size: int) -> bool:
        number = propose(record, {"lr": score}).number
        record.report(number, 1, score, {}, 1.0)
        stays_unseen = retention.would_be_kept(config, record, Folder(tmp_path), number)
        record.note_trial(number, checkpoint_bytes=size)
        stays = retention.would_be_kept(config, record, Folder(tmp_path), number)
        assert stays_unseen or not stays, "its size is known only when its checkpoint is written"
        record.end(number, "finished")
        assert (number in retention.kept(config, record, Folder(tmp_path))) == stays
        return stays

    assert would_stay(0.5, 5_000), "the best one, whatever its size"
    assert not would_stay(0.4, 1)
    assert would_stay(0.9, 600)
    assert not would_stay(0.8, 500)
    assert would_stay(0.85, 400)
    assert retention.kept(config, record, Folder(tmp_path)) == {2, 4}

"""Whose weights stay."""

from __future__ import annotations

from pathlib import Path

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.reruns import seeds
from sweeps.storage import retention
from sweeps.storage.folder import Folder
from sweeps.training import checkpoint_store
from tests.support.confirmed import ASKED, rerun, searched


def write_weights(at: Path, number: int) -> None:
    checkpoint_store.write(
        checkpoint_store.folder_of(at, number), 1, lambda into: (into / "weights.pt").touch()
    )


def test_of_reruns_the_weights_of_the_best_stay_and_in_the_end_of_the_winner_alone(tmp_path: Path) -> None:
    config, record = SweepConfig.of(keep_checkpoints=1), searched(tmp_path, 0.1, 0.9, 0.8)
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

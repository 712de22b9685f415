"""Whether a fault is of a PC, which is left out, or of what all PCs use, and the sweep ends."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.faults import away_pcs
from sweeps.execution.faults.away_pcs import AwayPCs
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.nodes import HEAD
from sweeps.ray_start import ray_connection
from sweeps.record.record import Record
from sweeps.training.report import Report
from sweeps.trial.messages import SAVED, Message, NotSaved, Saved
from tests.conftest import propose
from tests.support.contexts import context_of
from tests.support.nodes import node

FULL = "the disk is full"


class Where:
    """As Processes answer: here a trial's number says its PC."""

    def actor_of(self, trial: Any) -> None:
        """None of them has a process."""

    def node_of(self, trial: Any) -> str:
        return f"id{trial.config['number'] % 10}"

    def nodes_of(self, trial: Any) -> frozenset[str]:
        return frozenset({self.node_of(trial)})


class Judged:
    """The PCs of a cluster of four, the first of them the head, and what it says."""

    def __init__(self, folder: Path, fitting: tuple[int, ...] = (0, 1, 2, 3)) -> None:
        folder = Path(tempfile.mkdtemp(dir=folder))
        self.record = Record.create(folder, "s", "max", {"metric": "m"})
        for number in range(22):
            propose(self.record, {"lr": number})
        pcs = [
            node(
                number, has={"CPU": 2.0 if number in fitting else 1.0, **({HEAD: 1.0} if not number else {})}
            )
            for number in range(4)
        ]
        self.cluster = Cluster(pcs, lambda: pcs, leaving=dict)
        config = SweepConfig(cpus_per_trial=2, gpus_per_trial=0)
        where: Any = Where()
        self.context = context_of(folder, self.record, config, self.cluster)
        self.away_pcs = AwayPCs(self.context, where)

    @property
    def noted(self) -> list[str]:
        """What the record has of trials."""
        return [f"{each.number}: {notice}" for each in self.record.trials for notice in each.notices]

    def meets(self, number: int, node: str = "", reason: str = FULL) -> bool:
        """A fault; whether the sweep goes on."""
        return self.away_pcs.leave_out(trial(number), reason, node)

    def begins(self, number: int) -> None:
        self.away_pcs.on_trial_start(0, [], trial(number))
        self.away_pcs.on_trial_result(
            0, [], trial(number), Message(report=Report(1, 0.5, {}, 1.0)).to_result()
        )

    def saves(self, number: int, fault: str = "", node: str = "") -> None:
        missing = NotSaved(reason=fault, node=node or f"id{number % 10}")
        metrics = {SAVED: [missing if fault else Saved(1)]}
        self.away_pcs.on_trial_save(0, [], trial(number, SimpleNamespace(metrics=metrics)))


def trial(number: int, saved: Any = None) -> Any:
    return SimpleNamespace(config={"number": number}, latest_checkpoint_result=saved)


def test_a_pc_that_can_not_train_is_left_out_once_with_its_reason(tmp_path: Path) -> None:
    judged = Judged(tmp_path)
    assert judged.meets(1)
    assert judged.meets(11), "another trial there"
    assert judged.noted == [f"1: pc1 (10.0.0.1) gets no more trials in this run: {FULL}"]
    assert judged.cluster.away == {"id1"}


def test_of_several_workers_the_pc_is_left_out_that_can_not_train(tmp_path: Path) -> None:
    """A trial with its first worker on pc1, another on pc2."""
    judged = Judged(tmp_path)
    assert judged.meets(1, node="id2")
    assert judged.cluster.away == {"id2"}
    judged = Judged(tmp_path)
    for _ in range(2):
        judged.saves(1, FULL, node="id2")
        judged.saves(3)
    assert judged.cluster.away == {"id2"}


def test_a_second_pc_with_nobody_at_work_in_between_ends_the_sweep(tmp_path: Path) -> None:
    judged = Judged(tmp_path)
    assert judged.meets(1)
    assert not judged.meets(2)
    assert judged.cluster.away == {"id1"}


@pytest.mark.parametrize("works", ["begins", "saves"])
def test_a_second_pc_is_left_out_once_another_was_seen_to_work(works: str, tmp_path: Path) -> None:
    judged = Judged(tmp_path)
    assert judged.meets(1)
    getattr(judged, works)(3)
    assert judged.meets(2)
    assert judged.cluster.away == {"id1", "id2"}


def test_what_the_pc_that_is_left_out_still_does_proves_nothing(tmp_path: Path) -> None:
    judged = Judged(tmp_path)
    assert judged.meets(1)
    judged.begins(21)
    judged.saves(21)
    assert not judged.meets(2)


def test_the_head_and_the_last_pc_are_never_left_out(tmp_path: Path) -> None:
    assert not Judged(tmp_path).meets(0)
    judged = Judged(tmp_path, fitting=(1,))
    assert not judged.meets(1)
    for _ in range(3):
        judged.saves(1, FULL)
        judged.saves(2)
    assert not judged.cluster.away, "without it no trial has room"


def test_a_pc_that_writes_no_checkpoint_while_others_do_is_left_out(tmp_path: Path) -> None:
    judged = Judged(tmp_path)
    judged.saves(1, FULL)
    judged.saves(2)
    assert not judged.cluster.away, "once is no proof"
    judged.saves(1, FULL)
    assert not judged.cluster.away, "nobody else has written one since"
    judged.saves(2)
    assert judged.cluster.away == {"id1"}
    assert judged.noted == [
        f"1: pc1 (10.0.0.1) gets no more trials in this run: no checkpoint can be written there: {FULL}"
    ]


def test_a_pc_that_writes_again_is_as_good_as_any(tmp_path: Path) -> None:
    judged = Judged(tmp_path)
    for fault in (FULL, "", FULL):
        judged.saves(1, fault)
        judged.saves(2)
    assert not judged.cluster.away


@pytest.mark.slow
def test_after_a_failed_start_one_is_tried_on_each_pc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise OSError("No space left on device")

    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        judged = Judged(tmp_path)
        judged.context.cluster = judged.away_pcs._cluster = Cluster(
            nodes.living(), nodes.living, leaving=dict
        )
        assert judged.away_pcs.leave_out_without_starts(trial(1)) is None
        monkeypatch.setattr(away_pcs, "_do_nothing", fails)
        why = judged.away_pcs.leave_out_without_starts(trial(1))
    finally:
        ray_connection.shut_down(ray)
    assert why is not None, "the only PC"
    assert why.startswith("no process of a trial starts on ")
    assert why.endswith("OSError: No space left on device")

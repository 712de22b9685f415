"""Trials of two workers on PCs of a lab: shards travel, and no trial waits with half of its workers."""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from tests.conftest import ROOT
from tests.support.cluster_of_pcs import PYTHON, RAY, give_token, nodes, start_head
from tests.support.lab import PC, Lab, wait_until

TOKEN = {"RAY_AUTH_MODE": "token"}
ENVIRONMENT = {"TOY_ATTEMPTS": "/tmp", "PYTHONPATH": str(ROOT)}
EPOCHS = 6
FOLDER = Path("/tmp/results/s")
PAIRS = {"asha": "tpe", "bohb": "bohb"}
"""Scheduler to searcher."""


@pytest.fixture
def cluster_of(lab_of: Callable[..., Lab]) -> Callable[..., list[PC]]:
    """So many PCs, of so many cores each. No folder of theirs is shared."""

    def begin(count: int, cpus: int = 1) -> list[PC]:
        head, *others = pcs = lab_of(count).pcs
        head.sshd("Subsystem=sftp internal-sftp")
        address = start_head(head, cpus, **ENVIRONMENT)
        for pc in others:
            give_token(pc)
            wait_until(functools.partial(joins, pc, address, cpus), f"{pc.name} to join", timeout_s=240)
        wait_until(lambda: len(nodes(head)) == count, "all to join", timeout_s=240)
        return pcs

    return begin


def joins(pc: PC, address: str, cpus: int) -> bool:
    """Whether it does; Ray gives a start up after 30 s, on a PC that has much to do."""
    small = (f"--num-cpus={cpus}", "--object-store-memory=100000000", "--disable-usage-stats")
    command = (RAY, "start", f"--address={address}", *small)
    return pc.run(*command, env={**TOKEN, **ENVIRONMENT}, timeout_s=120, check=False).returncode == 0


def start(head: PC, *flags: str, workers: int = 2) -> subprocess.Popen[str]:
    """A sweep whose trials have their workers on two PCs, and leave their checkpoints on the head."""
    return head.start(
        *(PYTHON, "-m", "sweeps.run", "--address", "auto", "--workers-per-trial", str(workers)),
        *("--precision", "bf16-mixed", "--storage", f"sftp://{head.address}/tmp/store", "--min-free-gb", "0"),
        *("--results-dir", str(FOLDER.parent), "--name", FOLDER.name, *flags),
        env={**TOKEN, **ENVIRONMENT},
    )


def trials(head: PC) -> list[TrialRow]:
    folder = head.path(FOLDER)
    return list(Record.read(folder).trials) if (folder / JOURNAL).is_file() else []


@pytest.mark.long
@pytest.mark.parametrize(("scheduler", "of_each"), [("asha", 1), ("bohb", 1), ("bohb", 2)])
def test_trials_are_pruned_and_paused_in_warm_processes_of_two_pcs(
    scheduler: str, of_each: int, cluster_of: Callable[..., list[PC]]
) -> None:
    """BOHB pauses: what goes on later goes on from shards, which each worker of another PC gets."""
    head, other = cluster_of(2, of_each)
    size = ("--trainable", "digits_mlp", "--num-trials", "6", "--max-epochs", "9", "--checkpoint-epochs", "1")
    pair = ("--scheduler", scheduler, "--searcher", PAIRS[scheduler])
    sweep = start(head, *size, *pair, workers=2 * of_each)
    said, _ = sweep.communicate(timeout=900)
    assert sweep.returncode == 0, said
    ended = trials(head)
    assert [trial.reason for trial in ended if trial.status == "failed"] == []
    for trial in ended:
        assert {trial.place["pc"], *trial.place["others"]} == {head.name, other.name}
        assert list(trial.epochs) == list(range(1, len(trial.epochs) + 1))
    assert {len(trial.epochs) for trial in ended} == {3, 9}
    assert len({trial.place["pid"] for trial in ended}) == 1
    assert "starts again" not in said


@pytest.mark.long
@pytest.mark.parametrize("lost", ["one of each", "both of one"])
def test_two_pcs_are_lost_at_once_and_what_is_left_is_room_for_one_trial(
    lost: str, cluster_of: Callable[..., list[PC]]
) -> None:
    """One of each: both trials would hold a core and wait for ever for the other's. They end one by one."""
    head, *others = cluster_of(4)
    pair = ("--no-baseline", "--trainable", "tests.faulty.pair", "--search-space", "tests.faulty.pair_rates")
    size = ("--max-epochs", str(EPOCHS), "--checkpoint-epochs", "1", "--params", "epoch_s=2")
    sweep = start(head, *pair, *size, "--searcher", "grid", "--scheduler", "none")

    def both_train() -> bool:
        assert sweep.poll() is None, sweep.communicate()[0]
        return [len(trial.epochs) >= 2 for trial in trials(head)] == [True, True]

    wait_until(both_train, "both trials to train", timeout_s=600)
    groups = [{trial.place["pc"], *trial.place["others"]} for trial in trials(head)]
    assert groups[0].isdisjoint(groups[1])
    of = [[pc for pc in others if pc.name in group] for group in groups]  # never the head
    victims = [of[0][0], of[1][0]] if lost == "one of each" else max(of, key=len)
    assert len(victims) == 2
    before = [len(trial.epochs) for trial in trials(head)]
    began = time.time()
    for pc in victims:
        pc.power_cut()

    def goes_on() -> bool:
        is_hit = [any(pc in victims for pc in pcs_of) for pcs_of in of]
        now = [len(trial.epochs) for trial in trials(head)]
        return any(is_hit[n] and now[n] > before[n] + 1 for n in range(2))  # one may have been on its way

    wait_until(goes_on, "a trial that lost a worker to go on", timeout_s=400)
    print(f"MEASURED {lost} lost: work on it went on after {time.time() - began:.1f} s", flush=True)
    said, _ = sweep.communicate(timeout=600)
    assert sweep.returncode == 0, said
    for trial in trials(head):
        assert (trial.status, list(trial.epochs)) == ("finished", list(range(1, EPOCHS + 1)))
    assert "starts again" not in said, "each goes on from its shards"

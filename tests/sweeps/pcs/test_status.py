"""`python -m sweeps.pcs status` of a real cluster of two PCs: what runs where, who waits, who is lost."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.pcs import status as status_command
from sweeps.pcs.__main__ import main
from sweeps.pcs.status import Use, why_waiting
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.nodes import Node
from sweeps.ray_start.ray_folder import State
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.cluster_of_pcs import PYTHON, RAY, give_token, start_head
from tests.support.lab import PC, Lab, wait_until

RESERVES = """
import ray, time
from ray.util.placement_group import placement_group
ray.init(address="auto", logging_level="ERROR")
ray.get(placement_group([{"CPU": 1, "GPU": 1}]).ready())
waiting = [placement_group([{"CPU": 1, "GPU": gpus}]) for gpus in (1, 1, 4)]
print("up", flush=True)
time.sleep(600)
"""


def pc(number: int, has: dict[str, float], taken: dict[str, float]) -> Use:
    return Use(Node(f"id{number}", f"pc{number}", f"10.0.0.{number}", has), taken)


BUSY = [pc(0, {"CPU": 4, "GPU": 1}, {"CPU": 1, "GPU": 0.3333 * 2}), pc(1, {"CPU": 8, "memory": 8e9}, {})]


@pytest.mark.parametrize(
    ("bundles", "reason"),
    [
        ([{"CPU": 1, "GPU": 0.3333}], "Ray to start it"),
        ([{"CPU": 1, "GPU": 1}], "1 CPU, 1 GPU: not free now"),
        ([{"CPU": 1, "memory": 2e10}], "1 CPU, 20 GB memory: more than the PCs have"),
        ([{"CPU": 1, "my_card": 1}], "1 CPU, 1 my_card: more than the PCs have"),
        ([{"CPU": 4}] * 2, "Ray to start it"),
        ([{"CPU": 4}] * 3, "3 times 4 CPU: not free now"),
        ([{"CPU": 4}] * 4, "4 times 4 CPU: more than the PCs have"),
    ],
)
def test_why_a_trial_waits(bundles: list[dict[str, float]], reason: str) -> None:
    assert why_waiting(bundles, BUSY) == reason


def test_a_process_is_shown_by_the_trial_that_it_trains_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc", "trainable": "toy", "max_epochs": 9})
    for number in range(2):  # trial 1 is paused, and its process goes on with trial 0
        propose(record, {"lr": 0.1})
        record.place(number, {"pc": "pc0", "pid": 4711, "gpu": ""})
        record.report(number, 1, 0.5, {"acc": 0.5}, 1.0)
        record.note_pause(number)
    record.note_continued(0)
    use = Use(Node("id0", "pc0", "10.0.0.1", {"CPU": 4.0}), processes=[("TrialProcess", 4711)])
    monkeypatch.setattr(status_command, "look", lambda address: ([use], [], []))
    assert status_command.run("auto", tmp_path) == 0
    said = capsys.readouterr().out
    assert "trial 0 (epoch 1)" in said
    assert "trial 1" not in said


def test_a_ray_of_this_pc_without_a_dashboard_is_told_as_such_and_the_others_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [
        State(address=f"127.0.0.1:{port}", boot="", processes={}, versions={}, dashboard_url=url)
        for port, url in ((1, ""), (2, "127.0.0.1:8265"))
    ]
    states.append(replace(states[0], address=""))  # another release of this program wrote of it
    looked = list[str]()

    def look(address: str) -> tuple[list[Use], list[str], list[Any]]:
        assert "RAY_API_SERVER_ADDRESS" not in os.environ
        looked.append(address)
        return [], [], []

    folders = [SimpleNamespace(state=functools.partial(replace, each)) for each in states]
    monkeypatch.setattr(status_command, "ray_folders", lambda: folders)
    monkeypatch.setattr(status_command, "look", look)
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://10.0.0.9:8265")  # Ray's API would ask there
    assert main(["status"]) == 2
    assert looked == ["127.0.0.1:2"]
    said = " ".join(capsys.readouterr().err.split())
    assert "error: Ray at 127.0.0.1:1, of your sweeps here, runs without its dashboard" in said
    assert "sweeps queue shows the sweeps" in said


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def pair(lab_of: Callable[..., Lab], shared: Path) -> list[PC]:
    """A head of one CPU, and a worker of one CPU and what says that it is a GPU."""
    head, worker = pcs = lab_of(2, shared=[shared]).pcs
    address = start_head(head)
    give_token(worker)
    small = ("--num-cpus=1", "--num-gpus=1", "--object-store-memory=100000000")
    worker.run(RAY, "start", f"--address={address}", *small, env={"RAY_AUTH_MODE": "token"})
    return pcs


@pytest.fixture(scope="module")
def open_head(lab_of: Callable[..., Lab]) -> PC:
    """A head that requires no token."""
    (head,) = lab_of(1).pcs
    start_head(head, RAY_AUTH_MODE="disabled")
    return head


@pytest.fixture
def program(pair: list[PC]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts one on the head, which is gone after the test."""
    running = []

    def start(*command: str) -> subprocess.Popen[str]:
        running.append(pair[0].start(*command, env={"RAY_AUTH_MODE": "token"}))
        return running[-1]

    yield start
    for process in running:
        pair[0].signal(process, 9)
        process.communicate(timeout=60)


def status(pc: PC, *arguments: str) -> str:
    return pc.run(PYTHON, "-m", "sweeps.pcs", "status", *arguments).stdout


@pytest.mark.long
def test_what_is_free_and_who_waits_for_what(
    pair: list[PC], program: Callable[..., subprocess.Popen[str]]
) -> None:
    head, worker = pair
    process = program(PYTHON, "-c", RESERVES)
    assert process.stdout is not None
    assert next(line for line in process.stdout if line == "up\n")
    said = ""

    def are_listed() -> bool:
        """All of them: Ray lists one after another."""
        nonlocal said
        said = status(head)
        return " trials wait for " in said and " trial waits for " in said and "1 of 1" in said

    wait_until(are_listed, "the groups to be listed")
    lines = said.splitlines()
    rows = [re.split("  +", line.rstrip()) for line in lines]
    table = next(place for place, row in enumerate(rows) if row[0] == "pc")
    assert rows[table : table + 3] == [
        ["pc", "GPUs in use", "CPUs in use", "runs"],
        [f"{head.address} (head)", "0 of 0", "0 of 1", "nothing"],
        [worker.address, "1 of 1", "1 of 1", "nothing"],
    ]
    assert re.fullmatch(r"1 trial waits for .*4 GPU.*: more than the PCs have", lines[-1])
    assert re.fullmatch(r"2 trials wait for .*1 GPU.*: not free now", lines[-2])


def test_the_dashboard_of_another_ray_on_this_pc_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both listen at the loopback of their PC: on a worker that has a Ray of its own, that one answers."""
    monkeypatch.setattr(status_command, "joined", nullcontext)
    monkeypatch.setattr(nodes, "listed", lambda: [Node("id1", "pc1", "10.0.0.1", {})])
    answers = dict.fromkeys(("list_actors", "list_tasks", "list_placement_groups"), lambda *_, **__: [])
    for node, is_refused in (("id1", False), ("other", True)):
        there = [SimpleNamespace(node_id=node)]
        api = SimpleNamespace(list_nodes=lambda *_, there=there, **__: there, **answers)
        monkeypatch.setattr(status_command, "state", api)
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")  # Ray's API would ask there
        with pytest.raises(UserError, match="answers on the head alone") if is_refused else nullcontext():
            status_command.look("10.0.0.1:6379")
        assert "RAY_ADDRESS" not in os.environ


@pytest.mark.long
def test_a_worker_is_sent_to_the_head(pair: list[PC]) -> None:
    """Ray's dashboard, which has the answers, listens on the head's loopback."""
    head, worker = pair
    command = (PYTHON, "-m", "sweeps.pcs", "status", f"--address={head.address}:6379")
    done = worker.run(*command, check=False)
    assert done.returncode == 2
    assert "error: --address " in done.stdout
    assert "it answers on the head alone, so type the command there" in done.stdout.splitlines()[-1]


@pytest.mark.long
def test_which_trial_runs_where_and_who_is_lost(
    pair: list[PC], shared: Path, program: Callable[..., subprocess.Popen[str]]
) -> None:
    """Ends the worker, hence the last test."""
    head, worker = pair
    sweep = ("--trainable", "digits_mlp", "--scheduler", "none", "--max-epochs", "20000", "--num-trials", "3")
    where = ("--address", "auto", "--gpus-per-trial", "0", "--name", "shown", "--results-dir", str(shared))
    program(PYTHON, "-m", "sweeps.run", *sweep, *where)
    said = ""

    def both_train() -> bool:
        nonlocal said
        done = head.run(PYTHON, "-m", "sweeps.pcs", "status", str(shared / "shown"), check=False)
        said = done.stdout
        return len(re.findall(r"trial \d \(epoch [1-9]\d*\)", said)) == 2

    wait_until(both_train, "two trials", timeout_s=120)
    (at_head,) = re.findall(rf"^{head.address} \(head\) .*  (trial \d) ", said, flags=re.M)
    (at_worker,) = re.findall(rf"^{worker.address} .*  (trial \d) ", said, flags=re.M)
    assert at_head != at_worker
    assert len(re.findall(r"  sweep shown \(process \d+\) *$", status(head), flags=re.M)) == 2

    worker.power_cut()
    wait_until(lambda: f"\n{worker.address} is lost: " in status(head), "the loss to be seen")


@pytest.mark.long
@pytest.mark.parametrize("where", [(), ("--address=auto",)])
def test_a_ray_without_a_token_is_shown_to_a_user_who_has_one(where: tuple[str, ...], open_head: PC) -> None:
    assert f"{open_head.address} (head)" in status(open_head, *where)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--address", "127.0.0.1:9"], "error: --address 127.0.0.1:9: no Ray cluster answers there"),
        (["/nowhere"], "error: /nowhere"),
        (["--adress", "auto"], "Did you mean '--address'?"),
        (["a", "b"], "give one sweep, by its name"),
    ],
)
def test_a_mistake_is_answered(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", *arguments]) == 2
    assert message in capsys.readouterr().err

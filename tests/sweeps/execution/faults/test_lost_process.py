"""Why a process was lost, by what it printed last and by what the kernel counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeps.common.errors import oom_kills
from sweeps.execution.faults.requeue import loss_of
from sweeps.execution.trial_actors import TrialActor
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.nodes import Node
from sweeps.ray_start import ray_connection
from sweeps.trial import output
from sweeps.trial.messages import EARLIER_ERROR
from sweeps.trial.output import EXIT, GIVEN_UP, LOST, Introduction
from tests.support import memory_groups


@pytest.fixture(scope="module")
def here() -> Iterator[Node]:
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield nodes.living()[0]
    ray_connection.shut_down(ray)


@pytest.mark.slow
def test_what_the_kernel_has_killed_is_told(here: Node, tmp_path: Path) -> None:
    nothing: Any = None
    process = TrialActor(
        None,
        None,
        nothing,
        "name",
        own=Introduction(here.id, output_file=str(tmp_path / "printed"), oom_kills=oom_kills()),
    )
    assert loss_of(process).why == "it ended without a trace (most often signal 9, SIGKILL)"
    memory_groups.exhaust()
    assert loss_of(process).why == "killed by the kernel: out of memory"


@pytest.mark.slow
def test_the_loss_of_the_pc_of_another_worker_is_one_of_a_pc(here: Node) -> None:
    nothing: Any = None
    for nodes_of, is_of_a_pc in (({here.id}, False), ({here.id, "gone"}, True)):
        own = Introduction(here.id)
        process = TrialActor(None, None, nothing, "name", own=own, nodes=frozenset(nodes_of))
        assert loss_of(process).is_of_the_pc is is_of_a_pc


def test_a_process_that_never_answered_ended_while_it_started() -> None:
    loss = loss_of(None)
    assert (loss.why, loss.last_words, loss.is_of_the_pc) == ("it ended while it started", "", False)


@pytest.mark.parametrize(
    ("last_words", "is_oom", "why"),
    [
        ("step 1\n", False, "it ended without a trace (most often signal 9, SIGKILL)"),
        ("step 1\n", True, "killed by the kernel: out of memory"),
        (f"bye\n{EXIT}3\n", True, "exit status 3"),
        (f"bye\n{EXIT}{LOST}\n", False, f"exit status {LOST}"),
        (f"{GIVEN_UP}{EARLIER_ERROR}\n{EXIT}{LOST}\n", False, EARLIER_ERROR),
        (
            f"{EXIT}3\n{GIVEN_UP}a worker is lost: exit status 3\n{EXIT}{LOST}\n",
            True,
            "a worker is lost: exit status 3",
        ),
        (
            "Fatal Python error: Segmentation fault\n\nThread 0x00",
            False,
            "Fatal Python error: Segmentation fault",
        ),
        ("Fatal Python error: Aborted\n", True, "Fatal Python error: Aborted"),
    ],
)
def test_it_is_told_by_what_is_known(last_words: str, is_oom: bool, why: str) -> None:
    assert output.why_ended(last_words, is_oom=is_oom) == why

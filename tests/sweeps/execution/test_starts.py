"""What is known of processes that do not start, from Ray's own errors and placement groups."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray import PlacementGroupID
from ray.exceptions import ActorUnschedulableError, RayActorError, RuntimeEnvSetupError
from ray.tune.experiment import Trial
from ray.util.placement_group import PlacementGroup, placement_group_table

from sweeps.cluster import nodes, placement
from sweeps.cluster.membership import Membership
from sweeps.cluster.nodes import Node
from sweeps.common import ray_connection
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.faults.requeue import of_text
from sweeps.execution.starts import LOOK_EVERY_S, MOST_FAILED, START_S, Starts
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.trial.trainable import Introduction

ALONE = SweepConfig(cpus_per_trial=1, gpus_per_trial=0)


class Known(TrialActors):
    """Those that a test tells of."""

    def __init__(self) -> None:
        super().__init__()
        self.of_now: list[TrialActor] = []

    def all(self) -> list[TrialActor]:
        return self.of_now


class Lacking:
    def __init__(self) -> None:
        raise ModuleNotFoundError("No module named 'pandas'")


class Ending:
    def __init__(self) -> None:
        os._exit(3)


@pytest.fixture(scope="module")
def here() -> Iterator[Node]:
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield nodes.living()[0]
    ray_connection.shut_down(ray)


def error_of(of: type) -> RayActorError:
    """Ray's, of an actor that does not start."""
    actor: Any = ray.remote(of).options(num_cpus=0)
    with pytest.raises(RayActorError) as raised:
        ray.get(actor.remote().__ray_ready__.remote())
    return raised.value


def started_on(node: Node, group: Any = None) -> TrialActor:
    trial: Any = None
    return TrialActor(None, None, trial, "its name", node=node.id, group=group)


def a_trial(status: str) -> Trial:
    trial = Trial("trivial", stub=True)
    trial.set_status(status)
    return trial


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (Lacking, "ModuleNotFoundError: No module named 'pandas' (is it installed on every PC?)"),
        (Ending, "its process ends at once (is the disk full, or the memory?)"),
    ],
)
def test_a_second_start_in_a_row_that_fails_is_a_fault_of_the_pc(of: type, why: str, here: Node) -> None:
    processes, error = Known(), error_of(of)
    starts = Starts(Membership([here], lambda: [here], leaving=dict), processes)
    found = [starts.failed(error) for _ in range(MOST_FAILED)]
    assert [start and (start.node, start.pc, start.why) for start in found] == [(here.id, here.name, why)] * 2
    assert [start and start.is_of_the_pc for start in found] == [False, True]
    processes.of_now = [started_on(here)]
    again = starts.failed(error)
    assert again is not None
    assert not again.is_of_the_pc, "one has started since"


def test_a_pc_where_the_code_can_not_be_unpacked_is_named_with_the_reason(here: Node) -> None:
    title = "Failed to set up runtime environment."
    said = f"{title}\nIt can't be made.\n[Node {here.address}] Traceback:\nOSError: full"
    error = of_text(
        f"Failure # 1 (occurred at 10:00)\nTuneError: before\nFailure # 2 (occurred at 11:00)\n{said}\n"
    )
    assert isinstance(error, RuntimeEnvSetupError)
    found = Starts(Membership([here], lambda: [here], leaving=dict), Known()).failed(error)
    assert found == (here.id, here.name, "OSError: full", False)


def test_an_error_that_tune_keeps_as_text_is_what_it_was() -> None:
    removed = of_text(
        f"Failure # 1 (occurred at 10:00)\n{ActorUnschedulableError('its group was removed')}\n"
    )
    assert isinstance(removed, ActorUnschedulableError)
    assert str(of_text("Failure # 1 (occurred at 10:00)\nno such trainable\n")) == "no such trainable"


def test_the_start_on_a_pc_that_is_lost_is_no_fault(here: Node) -> None:
    other = Node("0" * 56, "pc9", "10.0.0.9", {"CPU": 1})
    starts = Starts(Membership([other], lambda: [other], leaving=dict), Known())
    error = error_of(Ending)
    assert {starts.failed(error) for _ in range(MOST_FAILED + 1)} == {
        ("", here.address, "its PC is lost", False)
    }
    assert starts.failed(RayActorError()) is None, "it names no PC"


def test_a_process_that_has_not_begun_in_time_is_a_fault_of_the_pc_of_its_group(here: Node) -> None:
    now, processes = [0.0], Known()
    starts = Starts(Membership([here], lambda: [here], leaving=dict), processes, clock=lambda: now[0])
    group = placement.of_trial(ALONE, 0).to_placement_group()
    assert group.wait(30)
    trials = [ended, pending] = [a_trial(Trial.TERMINATED), a_trial(Trial.PENDING)]
    looks = 0
    while (late := starts.overdue(trials)) is None:
        assert starts.overdue(trials) is None, "the last look was just now"
        now[0], looks = now[0] + LOOK_EVERY_S, looks + 1
    assert looks * LOOK_EVERY_S == START_S
    assert (late.trial, late.group, late.start.node) == (pending, group, here.id)
    assert late.start.is_of_the_pc
    now[0] += LOOK_EVERY_S
    assert starts.overdue([ended]) is None, "no trial waits for a process"
    processes.of_now = [started_on(here, group)]
    now[0] += LOOK_EVERY_S
    assert starts.overdue(trials) is None, "its process has begun"
    ray.util.remove_placement_group(group)


def test_a_group_that_ray_does_not_know_is_on_no_pc(here: Node) -> None:
    """It knows the groups of this Ray; the weak set may hold some of the one before."""
    known = placement.of_trial(ALONE, 0).to_placement_group()
    assert known.wait(30)
    forgotten = PlacementGroup(PlacementGroupID.from_random())
    placement._GROUPS.add(forgotten)
    assert placement_group_table(forgotten) == {}
    assert placement.placed() == {known: here.id}
    begun: Any = None
    introduction = ray.put(Introduction(here.id, "actor", forgotten, 1, "", 0))
    process = TrialActor(None, introduction, begun, "its name")
    assert process.locate()
    assert process.nodes == {here.id}
    ray.util.remove_placement_group(known)

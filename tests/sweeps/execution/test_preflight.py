"""What the driver makes of the first steps: it tells them, ends the sweep or goes on."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError
from rich.console import Console

from sweeps.common.errors import oom_kills
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.faults.full_gpus import FullGpus
from sweeps.execution.faults.requeue import MOST_INSTANT
from sweeps.execution.preflight import KEY, Preflight, lines
from sweeps.execution.run_context import RunContext
from sweeps.execution.trial_actors import TrialActors
from sweeps.plan.build import make_plan
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_start import ray_connection
from sweeps.record.record import Record
from sweeps.search.search_method import RecordSearcher
from sweeps.storage.disk_guard import Disk
from sweeps.trial.messages import Failed, Finding, Finished, OutOfMemory, TrialEnd
from sweeps.trial.output import Introduction
from tests.conftest import propose
from tests.support.contexts import requeue_of, said
from tests.support.nodes import cluster_of, node
from tests.sweeps.execution.faults.test_full_gpus import USED, shortage

FINISHED = Finished()
_THERE = [node(number, has={"CPU": 1}) for number in range(2)]
TWO_PCS = Cluster(_THERE, lambda: _THERE, leaving=dict)


@pytest.fixture(scope="module", autouse=True)
def ray_session() -> Iterator[None]:
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray_connection.shut_down(ray)


@pytest.fixture(scope="module")
def lost() -> Any:
    """A reference to the answer of a process that has ended in place of it."""

    class Ends:
        def preflight(self) -> None:
            os._exit(7)

    actor: Any = ray.remote(Ends).options(num_cpus=0).remote()
    findings = actor.preflight.remote()
    ray.wait([findings])
    return findings


class Trainer:
    """A process of trials, by the reference to its findings."""

    def __init__(self, findings: Any) -> None:
        here = ray.get_runtime_context().get_node_id()
        introduced = Introduction(here, pid=os.getpid(), oom_kills=oom_kills())
        self.introduce = SimpleNamespace(remote=lambda mailbox, name: ray.put(introduced))
        self.preflight = SimpleNamespace(remote=lambda config: findings)


def found_on(pc: str, end: TrialEnd = FINISHED, **more: Any) -> list[Finding]:
    return [Finding(trainable="early", params={"size": 4, "lr": 0.1}, pc=pc, device="", end=end, **more)]


def failed(reason: str, traceback: str = "Traceback ...\n") -> Failed:
    return Failed(reason=reason, traceback=traceback)


def no_full_gpus(context: RunContext, processes: TrialActors) -> FullGpus:
    no_searcher: Any = None
    return FullGpus(context, no_searcher, processes)


class Sweep:
    """A sweep of which the processes are asked for a preflight.

    Args:
        folder: of the sweep.
        cluster: that it has joined; by default it is on a PC by itself.
        settings: of the sweep.
    """

    def __init__(self, folder: Path, cluster: Cluster | None = None, **settings: Any) -> None:
        config = SweepConfig.from_settings(
            trainable="tests.faulty.early",
            name="s",
            results_dir=str(folder),
            gpus_per_trial=0,
            searcher="random",
        )
        plan = make_plan(config.changed(**settings))
        self.record = Record.create(folder, "s", "max", {"metric": "score"})
        cluster = cluster or cluster_of((32, 0))
        console = Console(file=io.StringIO(), width=1000)
        self.context = RunContext(plan, self.record, cluster, Disk(folder, 0.0, 1), console)
        self.processes = TrialActors()
        self.preflight = Preflight(self.context, self.processes, no_full_gpus(self.context, self.processes))

    def start(self, found: list[Finding] | None = None, findings: Any = None) -> Any:
        """The trial that a new process begins, which finds that, or answers with that reference."""
        handle = Trainer(findings or ray.put(found))
        trial: Any = SimpleNamespace(config={"number": 0}, temporary_state=SimpleNamespace(ray_actor=handle))
        self.processes.on_trial_start(0, [], trial)
        self.preflight.on_trial_start(0, [], trial)
        return trial

    def is_asked(self, trial: Any) -> bool:
        """Whether the process of a trial is in a preflight."""
        process = self.processes.actor_of(trial)
        assert process is not None
        return process.preflight is not None

    def turn(self) -> None:
        """The next turn of Tune's loop, when all have answered."""
        asked = list({each.preflight.findings for each in self.processes.all() if each.preflight is not None})
        ray.wait(asked, num_returns=len(asked))
        self.preflight.on_step_begin(0, [])

    @property
    def end(self) -> tuple[str, str]:
        return self.context.end.outcome, self.context.end.error


def test_one_process_is_asked(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.start(found_on("pc1", memory_gb=0.5, epoch_s=0.98, checkpoint_bytes=10**6))
    other = sweep.start(found_on("pc1", failed("it is not asked")))
    assert not sweep.is_asked(other)
    sweep.turn()
    told = said(sweep.context)
    assert told[0] == "Preflight   size=4: 500 MB on the CPU, about 0.98 s an epoch"
    assert "Disk: at most" in told[2]
    assert sweep.record.about[KEY] == told
    assert sweep.end == ("running", "")


def test_where_no_point_trains_the_sweep_ends(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.start(found_on("pc1", failed("RuntimeError: no")))
    sweep.turn()
    assert sweep.end == ("error", "preflight: RuntimeError: no")
    assert said(sweep.context) == ["Traceback ..."]
    assert KEY not in sweep.record.about


def test_where_a_point_leaves_none_of_the_others_a_process_it_is_told_and_the_sweep_goes_on(
    tmp_path: Path,
) -> None:
    sweep = Sweep(tmp_path)
    sweep.start(found_on("pc1", failed("RuntimeError: CUDA error"), is_last=True))
    sweep.turn()
    assert sweep.end == ("running", "")
    assert said(sweep.context)[0] == "Preflight   size=4: such a trial will fail: RuntimeError: CUDA error"


def test_in_a_cluster_the_pc_is_named(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, TWO_PCS)
    sweep.start(found_on("pc2", failed("RuntimeError: no")))
    sweep.turn()
    assert sweep.end == ("error", "preflight on pc2: RuntimeError: no")


@pytest.mark.parametrize("is_lost", [False, True], ids=["unfit", "lost"])
def test_where_nothing_was_found_out_it_goes_on(is_lost: bool, lost: Any, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.start([], lost if is_lost else None)
    sweep.turn()
    assert sweep.end == ("running", "")
    assert said(sweep.context) == []


def test_once_a_trial_has_an_epoch_it_is_over(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, TWO_PCS)
    sweep.start(found_on("pc2", failed("RuntimeError: no")))
    propose(sweep.record, {"size": 1})
    sweep.record.report(0, 1, 0.5, {}, 1.0)
    sweep.turn()
    assert said(sweep.context) == [
        "Preflight   size=4: on the CPU of pc2, such a trial will fail: RuntimeError: no"
    ]
    assert not sweep.is_asked(sweep.start())


@pytest.mark.parametrize(
    ("trials", "max_epochs", "told"),
    [
        (2, 10, "the 20 epochs of the sweep take about 10 min 0 s, 2 trials at a time"),
        (64, 10, "the 640 epochs of the sweep take about 20 min 0 s, 32 trials at a time"),
    ],
    ids=["fewer than slots", "twice as many"],
)
def test_the_hours_are_those_of_the_trials_that_run_at_a_time(
    trials: int, max_epochs: int, told: str, tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path, num_trials=trials, max_epochs=max_epochs, scheduler="none")
    said_of_it = list(lines(sweep.context, found_on("pc1", epoch_s=60.0)))
    assert said_of_it[1] == f"            At that speed {told}"


@pytest.mark.parametrize(
    ("is_infeasible", "told"),
    [
        (
            False,
            "size=4: on the CPU, such a trial runs out of memory: it goes on with micro-batches of 8 rows",
        ),
        (
            True,
            "size=4: on the CPU, such a trial is infeasible: out of memory: the model itself does not fit",
        ),
    ],
)
def test_one_that_does_not_fit_says_what_comes_of_it(is_infeasible: bool, told: str, tmp_path: Path) -> None:
    _, _, why = told.partition("infeasible: " if is_infeasible else "runs ")
    found = found_on("pc1", OutOfMemory(reason=why, traceback="", micro_batch=None if is_infeasible else 8))
    assert next(lines(Sweep(tmp_path).context, found)) == f"Preflight   {told}"


def test_one_that_lacks_what_another_program_holds_is_not_judged(tmp_path: Path) -> None:
    end = OutOfMemory(reason="the model itself does not fit", traceback="", shortage=shortage())
    sweep = Sweep(tmp_path)
    sweep.start(found_on("pc1", end))
    sweep.turn()
    assert said(sweep.context) == [f"Preflight   size=4: not known, since memory ran out. {USED}"]
    assert KEY not in sweep.record.about, "a resume looks again"


def test_a_process_that_ends_in_it_costs_its_trial_nothing(lost: Any, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, num_trials=1)
    propose(sweep.record, {"size": 1})
    no_space: Any = None
    searcher = RecordSearcher(sweep.record, no_space, lambda nth: iter(()), sweep.context.config)
    searcher.suggest("first")
    requeue = requeue_of(sweep.context, searcher, sweep.processes)
    for _ in range(MOST_INSTANT):
        trial = sweep.start(findings=lost)
        sweep.turn()
        assert requeue.after_lost_process(trial, RayActorError())[0] == ""
        assert (searcher.suggest("again") or {}).get("number") == 0
    first, *others = said(sweep.context)
    assert first.startswith(f"Preflight   its process on {os.uname().nodename} ended: ")
    assert first.endswith("; such trials may end so, too: size=4. Trial 0 had not begun, and is requeued")
    (other,) = others
    assert other.startswith("Trial 0 lost its process")


def test_a_process_that_ends_after_it_is_lost_by_its_trial(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    propose(sweep.record, {"size": 1})
    no_space: Any = None
    searcher = RecordSearcher(sweep.record, no_space, lambda nth: iter(()), sweep.context.config)
    searcher.suggest("first")
    trial = sweep.start(found_on("pc1"))
    sweep.turn()
    requeue_of(sweep.context, searcher, sweep.processes).after_lost_process(trial, RayActorError())
    assert said(sweep.context)[-1].startswith("Trial 0 lost its process")


def test_it_can_be_left_out(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, preflight=False)
    assert not sweep.is_asked(sweep.start())


def test_a_resume_does_not_repeat_it(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.start(found_on("pc1", memory_gb=0.5))
    sweep.turn()
    again = dataclasses.replace(sweep.context, record=Record.read(tmp_path))
    assert Preflight(again, sweep.processes, no_full_gpus(again, sweep.processes))._point is None

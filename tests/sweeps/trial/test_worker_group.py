"""The process of a trial leads two workers, whatever one of them does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.ray_start import ray_connection
from sweeps.storage.open import Folder
from sweeps.training.config import FitConfig
from sweeps.trial import output
from sweeps.trial.job import Job
from sweeps.trial.messages import Left, Message, NotSaved
from sweeps.trial.runner import TrialRunner
from tests.support.trainables import described

pytestmark = pytest.mark.slow


class Process:
    """That of trials."""

    def __init__(self, job: Job) -> None:
        output.start()
        self._runner = TrialRunner(job)

    def begin(self, fault: str) -> None:
        self._runner.begin(
            {"number": 0, "trainable": "pair", "params": {"fault": fault}, "fixed": {}, "seed": 3}
        )

    def step(self) -> Message:
        return self._runner.step()

    def save(self) -> Any:
        return self._runner.save()

    def end(self) -> None:
        self._runner.end()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Of trials with two workers."""
    folder = tmp_path_factory.mktemp("sweep")
    fit = FitConfig(max_epochs=3, metric="val_loss", mode="min", strategy="ddp", num_nodes=2, threads=1)
    job = Job(
        trainables={"pair": described("tests.faulty.pair", "pair")},
        storage=Folder(folder),
        fit=fit,
        max_failures=0,
        checkpoint_epochs=1,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOY_ATTEMPTS", str(folder))
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    placed = PlacementGroupSchedulingStrategy(group, 0)
    actor = ray.remote(Process).options(num_cpus=0, scheduling_strategy=placed).remote(job)
    yield actor
    ray.get(actor.end.remote())
    ray_connection.shut_down(ray)


def test_a_group_whose_workers_wait_for_one_that_could_not_save_is_ended_and_the_next_begins(
    process: Any,
) -> None:
    ray.get(process.begin.remote("unsaved"))
    message = ray.get(process.step.remote())
    assert message.end is None, message.end
    saved = ray.get(process.save.remote())
    assert isinstance(saved, NotSaved)
    assert "the last worker can't save (in another worker, on " in saved.reason
    # A worker that is told to end as its training begins leaves the trial.
    ray.get(process.begin.remote("terminated"), timeout=100)
    assert ray.get(process.step.remote()).end == Left("")


def test_each_worker_may_print_much(process: Any) -> None:
    ray.get(process.begin.remote("chatty"))
    lines = ray.get(process.step.remote()).output.splitlines()
    for mark, rank in (("", 0), ("[worker 1] ", 1)):
        assert f"{mark}first \N{REPLACEMENT CHARACTER} of {rank}" in lines
        assert f"{mark}last of {rank}" in lines

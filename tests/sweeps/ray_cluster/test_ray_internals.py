"""What is private in Ray is there and does what it is used for: each failure names the version of Ray."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray._private.runtime_env import constants
from ray.train._internal.storage import StorageContext
from ray.tune.experiment import Trial

from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.ray_cluster import nodes, ray_internals
from sweeps.ray_start import ray_connection

CHANGED = f"Ray {ray.__version__} has changed it"


@pytest.fixture(scope="module")
def gcs() -> Iterator[str]:
    """The address of the head of a Ray."""
    ray_connection.start(ray, dashboard=False)
    yield ray.get_runtime_context().gcs_address
    ray_connection.shut_down(ray)


def test_no_pc_is_drained_and_this_one_is_there(gcs: str) -> None:
    assert ray_internals.draining_nodes() == {}, CHANGED
    assert ray_internals.is_in_cluster(gcs, nodes.here()), CHANGED
    assert not ray_internals.is_in_cluster(gcs, ray.NodeID.from_random().hex()), CHANGED


def test_a_pc_that_is_not_there_is_not_drained(gcs: str) -> None:
    try:
        ray_internals.drain_node(gcs, ray.NodeID.from_random().hex(), 1)
    except UserError as error:
        assert "refuses" in str(error), CHANGED  # noqa: PT017  (one that is gone may be drained)
    assert ray_internals.draining_nodes() == {}, CHANGED


def test_the_actor_of_a_trial_has_a_name() -> None:
    trial: Any = Trial("no_trainable", stub=True)
    assert ray_internals.actor_of(trial) is None, CHANGED
    actor = SimpleNamespace(get_auto_filled_metrics=SimpleNamespace(remote=lambda **_: {}))
    trial.set_ray_actor(actor)
    assert ray_internals.actor_of(trial) is actor, CHANGED


@pytest.mark.parametrize("error", [ray.exceptions.RayActorError(), ValueError("a mistake")])
def test_the_last_error_of_a_trial_is_found(gcs: str, error: Exception, tmp_path: Path) -> None:
    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="sweep")
    trial: Any = Trial("no_trainable", stub=True, storage=storage)
    trial.init_local_path()
    trial.handle_error(error)
    found = ray_internals.error_of(trial)
    assert type(found) in (type(error), RuntimeError), CHANGED
    assert str(error) in str(found), CHANGED


def test_a_job_of_a_cluster_is_known_by_the_variable_of_ray() -> None:
    assert constants.RAY_JOB_CONFIG_JSON_ENV_VAR == project.RAY_JOB, CHANGED


def test_this_job_has_not_ended(gcs: str) -> None:
    assert ray.get_runtime_context().get_job_id() not in ray_internals.ended_jobs(), CHANGED


def test_a_task_finds_the_environment_with_which_ray_was_started(gcs: str) -> None:
    found = ray.get(ray.remote(lambda: dict(ray_internals.variables_of_this_pc())).remote())
    assert found.get("PYTHONSAFEPATH") == "1", CHANGED


class Ours(ray_internals.KeptHere):
    """Holds what can't be pickled."""

    held: Any = None


def test_a_copy_is_the_object_itself_and_none_where_there_is_no_such_object() -> None:
    ours = Ours()
    ours.held = lambda: 1
    packed = pickle.dumps(ours)
    assert pickle.loads(packed) is ours
    del ours
    gc.collect()
    assert pickle.loads(packed) is None

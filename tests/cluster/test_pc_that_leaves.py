"""A PC that leaves while it is asked: the sweep goes on without it, and asks it anew when it is back."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from sweeps.config.sweep_config import SweepConfig
from sweeps.execution import storage_and_data
from sweeps.plan.build import make_plan
from sweeps.ray_cluster import gpus, nodes
from sweeps.ray_cluster.cluster import Cluster
from sweeps.ray_cluster.nodes import Node
from sweeps.ray_start import ray_connection

LEFT = Node("0" * 56, "pc9", "10.0.0.9", {"CPU": 8, "GPU": 1})
"""Ray does not have it any more."""


@pytest.fixture(scope="module")
def there() -> Iterator[list[Node]]:
    """Who is there, and who was."""
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield [*nodes.living(), LEFT]
    ray_connection.shut_down(ray)


def test_its_cards_are_not_too_small(there: list[Node]) -> None:
    assert list(gpus.list_gpus_of_every_pc(there)) == there[:1]


def test_it_is_let_in_by_nobody_and_left_out_by_nobody(there: list[Node]) -> None:
    assert gpus.fault_of_joining(8e9, LEFT) is None


def test_it_needs_no_storage(there: list[Node], tmp_path: Path) -> None:
    plan = make_plan(
        SweepConfig.from_settings(name="mine", trainable="digits_mlp", results_dir=str(tmp_path))
    )
    plan.storage.make()
    context: Any = SimpleNamespace(plan=plan, cluster=Cluster(there))
    storage_and_data.check_storage(context)
    assert not list(plan.folder.iterdir())

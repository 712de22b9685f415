"""A trial of two workers, the second of them on a PC that can't train it: two real Rays, of one core each."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.common.errors import PCUnfit
from sweeps.ray_cluster import nodes
from sweeps.ray_start import ray_connection
from sweeps.storage.data_source import Say
from sweeps.storage.open import Folder
from sweeps.training.config import FitConfig
from sweeps.trial.job import Job
from sweeps.trial.messages import Unfit, message_of
from sweeps.trial.trainable import SweepTrial
from tests.support.trainables import described

FULL = "the disk of /prepared is full"


@dataclass(frozen=True)
class NotOn:
    """Data that all PCs have but one."""

    node: str

    def here(self, say: Say) -> Path:
        if nodes.here() == self.node:
            raise PCUnfit(FULL)
        return Path("/none")


@pytest.fixture
def group() -> Iterator[PlacementGroup]:
    """Places of two workers, on a PC each."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    places = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD")
    ray.get(places.ready())
    yield places
    ray_connection.shut_down(ray)
    cluster.shutdown()


@pytest.mark.long
def test_the_pc_that_is_named_is_that_of_the_worker(group: PlacementGroup, tmp_path: Path) -> None:
    nodes = placement_group_table(group)["bundles_to_node_id"]
    job = Job(
        trainables={"unfit": described("tests.faulty.pair", "unfit")},
        storage=Folder(tmp_path),
        fit=FitConfig(max_epochs=1, metric="val_loss", mode="min", num_nodes=2),
        max_failures=0,
        checkpoint_epochs=None,
        prepared={("unfit", ()): NotOn(nodes[1])},
    )

    class Trial(SweepTrial):
        def setup(self, config: dict[str, Any], **shared: Any) -> None:
            super().setup(config, job=job)

    config = {"number": 0, "trainable": "unfit", "params": {}, "fixed": {}, "seed": 1}
    place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    first: Any = ray.remote(Trial).options(num_cpus=1, scheduling_strategy=place).remote(config)
    end = message_of(ray.get(first.train.remote())).end
    assert isinstance(end, Unfit), "the trial has not failed"
    assert (end.reason, end.node) == (FULL, nodes[1])

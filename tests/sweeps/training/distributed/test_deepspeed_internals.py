"""What is taken from DeepSpeed beyond its documentation: each failure names DeepSpeed's version."""

from __future__ import annotations

import pytest

from sweeps.training.distributed import deepspeed_internals
from tests.support.versions import relied_on

pytest.importorskip("deepspeed", reason="deepspeed is not installed")


def test_an_all_reduce_of_its_own_is_not_compiled() -> None:
    with relied_on("deepspeed"):
        deepspeed_internals.reduce_by_gloo()
        from deepspeed.ops import __compatible_ops__ as ops

        assert ops["deepspeed_shm_comm"] is False


def test_what_stage_3_caches_by_its_model_is_found() -> None:
    with relied_on("deepspeed"):
        from deepspeed.runtime.zero import parameter_offload
        from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

        cells = [
            cell.cell_contents
            for method in vars(PartitionedParameterCoordinator).values()
            for cell in getattr(method, "__closure__", None) or ()
        ]
        assert any(hasattr(each, "cache_clear") for each in cells)
        parameter_offload.FWD_MODULE_STACK.append(object())
        deepspeed_internals.forget_stage_3()
        assert not parameter_offload.FWD_MODULE_STACK

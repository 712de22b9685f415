"""Parts of DeepSpeed that its documentation does not promise. No other module of this room uses any.

A test of each names DeepSpeed's version where it has changed. It is imported on first use: it is heavy.
"""

from __future__ import annotations


def reduce_by_gloo() -> None:
    """Let several processes of a CPU reduce by gloo. DeepSpeed would compile an all-reduce of its own, which
    takes a minute and needs a compiler; gloo is as fast."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def forget_stage_3() -> None:
    """Clear what `destroy()` leaves of stage 3: a list of models, and the cache of a method, by its model.

    https://github.com/deepspeedai/DeepSpeed/issues/7204
    """
    from deepspeed.runtime.zero import parameter_offload
    from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

    parameter_offload.FWD_MODULE_STACK.clear()
    for method in vars(PartitionedParameterCoordinator).values():
        for cell in getattr(method, "__closure__", None) or ():  # of the function that wraps the cached one
            if hasattr(cell.cell_contents, "cache_clear"):
                cell.cell_contents.cache_clear()

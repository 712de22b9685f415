"""Who has started this process: the user, or torchrun or Slurm as one of the workers of a run.

Both say in the environment how many there are; Lightning finds its place among them by itself. Imports
nothing heavy, so that `--help` answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sweeps.training.distributed import launch


@dataclass(frozen=True)
class Launch:
    """The workers that somebody has started together."""

    by: str
    """`torchrun` or `Slurm`."""
    devices: int
    """Of each PC."""
    num_nodes: int
    """PCs."""


def found(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """Who has started the workers; None when a run starts them itself.

    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables and
    https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        devices, workers = int(environment["LOCAL_WORLD_SIZE"]), int(environment["WORLD_SIZE"])
        return Launch("torchrun", devices, workers // devices)
    # A shell of salloc has a name of its own, and no tasks (Lightning looks at the same).
    is_shell = environment.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if "SLURM_NTASKS" in environment and "SLURM_PROCID" in environment and not is_shell:
        num_nodes = int(environment.get("SLURM_NNODES", 1))
        return Launch("Slurm", int(environment["SLURM_NTASKS"]) // num_nodes, num_nodes)
    return None


def is_first(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is the first of the run's workers: the one that writes and speaks.

    Slurm, torchrun and Lightning, which starts the others of a PC, each say so in the environment.
    """
    if "RANK" in environment:
        return int(environment["RANK"]) == 0
    started = found(environment)
    if started is not None:
        return int(environment["SLURM_PROCID"]) == 0
    return all(int(environment.get(name) or 0) == 0 for name in ("NODE_RANK", "LOCAL_RANK"))


def say(text: str) -> None:
    """To the screen, once for all workers."""
    if launch.is_first():
        print(text, flush=True)

"""How this process was started: by the user, or by torchrun or Slurm as one worker of a run.

Both set the number of workers in the environment. Imports nothing heavy: it is needed before `--help`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

STARTED_IN = "SWEEPS_STARTED_IN"
"""Variable of the folder in which the command was typed."""


@dataclass(frozen=True)
class Launch:
    """Workers that torchrun or Slurm has started together."""

    by: str
    """`torchrun` or `Slurm`."""
    devices: int
    """Workers on each PC."""
    num_nodes: int
    """PCs of the run."""


def find_launch(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """The launch of this process; None where the run starts its workers itself.

    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables and
    https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        devices, workers = int(environment["LOCAL_WORLD_SIZE"]), int(environment["WORLD_SIZE"])
        return Launch("torchrun", devices, workers // devices)
    # A shell of salloc has a job name of its own and runs no task (Lightning checks the same names).
    is_shell = environment.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if "SLURM_NTASKS" in environment and "SLURM_PROCID" in environment and not is_shell:
        num_nodes = int(environment.get("SLURM_NNODES", 1))
        return Launch("Slurm", int(environment["SLURM_NTASKS"]) // num_nodes, num_nodes)
    return None


def is_first(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is the first worker of its run, which writes files and prints.

    torchrun, Slurm and Lightning each set the rank in variables of their own.
    """
    if "RANK" in environment:
        return int(environment["RANK"]) == 0
    if find_launch(environment) is not None:
        return int(environment["SLURM_PROCID"]) == 0
    return all(int(environment.get(name) or 0) == 0 for name in ("NODE_RANK", "LOCAL_RANK"))


def enter_folder_of_first() -> None:
    """Go where the command was typed: Lightning starts the other workers where the first one is by then."""
    if find_launch() is None and not is_first():
        os.chdir(os.environ.get(STARTED_IN, "."))


def say(text: str) -> None:
    """Print a line, once for all workers."""
    if is_first():
        print(text, flush=True)


def leave(status: int) -> NoReturn:
    """End this process, for example a worker that is not the first and has done all its work, without the end
    of its interpreter.

    A thread of gloo may still let go of a tensor of the last collective operation, for which it waits for the
    interpreter: at the interpreter's end that aborts the process, and torchrun then calls the whole run a
    failure. https://github.com/pytorch/pytorch/pull/179291
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def leave_group(status: int, error: BaseException | None = None) -> None:
    """End this process at once, with those that it has started, where it has failed as one of several workers
    that are connected; else do nothing.

    At the interpreter's end Lightning destroys the process groups, for which NCCL waits for all other workers
    of this PC. They may wait for this one.

    Args:
        status: exit status.
        error: to print.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return
    import psutil  # here: --help needs none

    if error is not None:
        traceback.print_exception(error)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    leave(status)

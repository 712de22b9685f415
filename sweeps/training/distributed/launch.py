"""How this process was started: by the user, or by torchrun or Slurm as one worker of a run; and functions
that train in processes of their own, by `python -m sweeps.training.distributed.launch FOLDER`.

Imports nothing heavy: it is needed before `--help`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from sweeps.common import atomic_io, project
from sweeps.common.cli import stop_signals
from sweeps.common.errors import CannotTrain, UserError, is_out_of_memory

STARTED_IN = "SWEEPS_STARTED_IN"
"""Variable of the folder in which the command was typed."""
OUT_OF_MEMORY = "out of memory"
TIMED_OUT = "timed out"
LINES = 12
"""Last lines of an error that are shown, at most."""
_CALL_FILE, _RESULT_FILE, _REASON = "call", "result", "reason-"
"""Files in the folder of a call; the last one is the beginning of a worker's, whose number follows."""
_OF_A_RUN = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("GROUP_RANK", "SLURM_NTASKS"),
)
"""Variables that make a process a worker of a run; this process may still listen at their port."""
_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")
_LOST = (
    *("onnection closed by peer", "onnection reset by peer", "remote process exited", "onnect timeout"),
    "communicator was aborted",
)
"""Parts of the errors of gloo and NCCL when the process of another worker has ended."""


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


@dataclass(frozen=True)
class Ended:
    """End of a process."""

    status: int
    """Below 0: the signal that ended it."""
    output: str
    """Its own and its workers'."""
    timed_out: bool


def call(
    timeout_s: float, function: Callable[[*_Arguments], _Result], *arguments: *_Arguments
) -> tuple[_Result | None, str]:
    """What a function returns in a process of its own, or None and why that failed (see `failure_of`).

    Lightning may start the same process again for each further worker; the first one's result counts.

    Raises:
        KeyboardInterrupt: Ctrl-C, SIGTERM or a closed terminal.
    """
    with tempfile.TemporaryDirectory(prefix="sweeps-try-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / _CALL_FILE).write_bytes(pickle.dumps((project.folder(), function, arguments)))
        ended = run([sys.executable, "-m", "sweeps.training.distributed.launch", name], timeout_s)
        if failure := failure_of(ended, folder):
            return None, failure
        if not (folder / _RESULT_FILE).is_file():
            return None, "the program has ended itself before its end, with exit status 0"
        return pickle.loads((folder / _RESULT_FILE).read_bytes()), ""


def main(folder: Path) -> None:
    """Call the function in this process."""
    with report_failure(folder):
        chosen, function, arguments = pickle.loads((folder / _CALL_FILE).read_bytes())
        project.use(chosen)
        result = function(*arguments)
        if is_first():
            (folder / _RESULT_FILE).write_bytes(pickle.dumps(result))


def run(command: Sequence[str], timeout_s: float) -> Ended:
    """Run a command until it ends or times out, then kill all processes that it has started.

    Raises:
        KeyboardInterrupt: Ctrl-C, SIGTERM or a closed terminal.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _OF_A_RUN and not name.startswith("TORCHELASTIC_")
    }
    child: subprocess.Popen[bytes] | None = None

    def interrupt() -> None:
        if child is not None:  # else it has just been started, and would be left
            raise KeyboardInterrupt

    # A file, not a pipe: a pipe would stay open until the last worker ends, and workers may wait for ever.
    # A session of its own, so that all of them are killed at the end: no signal reaches it by itself.
    with tempfile.TemporaryFile() as output, stop_signals.handled(interrupt) as come:
        child = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
        timed_out = False
        try:
            if come:
                raise KeyboardInterrupt
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return Ended(child.returncode, output.read().decode(errors="replace"), timed_out)


@contextlib.contextmanager
def report_failure(folder: Path) -> Iterator[None]:
    """Write the reason of this worker's failure into a folder: Lightning kills the first worker when another
    one fails, and its exit status is lost."""
    try:
        yield
    except Exception as error:  # whatever it is, it is noted and raised again
        reason = _last("".join(traceback.format_exception(error)))
        if is_out_of_memory(error):
            reason = OUT_OF_MEMORY
        elif isinstance(error, UserError | CannotTrain):
            reason = str(error)
        atomic_io.write(folder / f"{_REASON}{os.environ.get('LOCAL_RANK', 0)}", reason)
        leave_group(1, error)
        raise


def failure_of(ended: Ended, folder: Path) -> str:
    """Why a training failed: `OUT_OF_MEMORY`, `TIMED_OUT` or an error's last lines; "" if it did not.

    A process killed without a reason was killed by the system for its memory.

    Args:
        folder: where its workers called `report_failure`.
    """
    files = sorted(folder.glob(f"{_REASON}*"), key=lambda file: file.stat().st_mtime_ns)
    reasons = [file.read_text(encoding="utf-8") for file in files]
    causes = [reason for reason in reasons if not is_lost_connection(reason)]
    if OUT_OF_MEMORY in causes:
        return OUT_OF_MEMORY
    if causes:
        return causes[0]
    if ended.timed_out:
        return TIMED_OUT
    if ended.status == 0:
        return ""
    if ended.status == -signal.SIGKILL or reasons:
        return OUT_OF_MEMORY
    return _last(ended.output) or f"exit status {ended.status}"


def is_lost_connection(text: str) -> bool:
    """Whether an error only says that the process of another worker has ended."""
    return any(words in text for words in _LOST)


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-LINES:])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

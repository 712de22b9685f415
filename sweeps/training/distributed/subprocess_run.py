"""Functions that train in processes of their own, and why they failed:
`python -m sweeps.training.distributed.subprocess_run FOLDER`.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from sweeps.common import atomic_io, project
from sweeps.common.cli import stop_signals
from sweeps.common.errors import CannotTrain, UserError, is_out_of_memory
from sweeps.training.distributed import launch
from sweeps.training.distributed.cluster_environment import is_lost_connection

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
        ended = run([sys.executable, "-m", "sweeps.training.distributed.subprocess_run", name], timeout_s)
        if failure := failure_of(ended, folder):
            return None, failure
        return pickle.loads((folder / _RESULT_FILE).read_bytes()), ""


def main(folder: Path) -> None:
    """Call the function in this process."""
    with report_failure(folder):
        chosen, function, arguments = pickle.loads((folder / _CALL_FILE).read_bytes())
        project.use(chosen)
        result = function(*arguments)
        if launch.is_first():
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
    # A file, not a pipe: a pipe would stay open until the last worker ends, and workers may wait for ever.
    # A session of its own, so that all of them are killed at the end: no signal reaches it by itself.
    with tempfile.TemporaryFile() as output, stop_signals.handled(_interrupt):
        child = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
        timed_out = False
        try:
            child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        output.seek(0)
        return Ended(child.returncode, output.read().decode(errors="replace"), timed_out)


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def report_failure(folder: Path) -> Iterator[None]:
    """Write the reason of this worker's failure into a folder: Lightning kills the first worker when another
    one fails, and its exit status is lost."""
    try:
        yield
    except Exception as error:
        reason = _last("".join(traceback.format_exception(error)))
        if is_out_of_memory(error):
            reason = OUT_OF_MEMORY
        elif isinstance(error, UserError | CannotTrain):
            reason = str(error)
        atomic_io.write(folder / f"{_REASON}{os.environ.get('LOCAL_RANK', 0)}", reason)
        launch.leave_group(1, error)
        raise


def failure_of(ended: Ended, folder: Path) -> str:
    """Why a training failed: `OUT_OF_MEMORY`, `TIMED_OUT` or an error's last lines; "" if it did not.

    A process killed without a reason was killed by the system for its memory.

    Args:
        ended: its end.
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


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-LINES:])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

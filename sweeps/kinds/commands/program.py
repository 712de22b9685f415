"""A program that runs in processes of its own, below a supervisor, as long as a trial wants it; and the files
of that trial: its working folder, and its checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from sweeps.common import local_dirs, project
from sweeps.common.errors import PCUnfit, oom_kills
from sweeps.common.param_types import nested
from sweeps.kinds.commands import program_supervisor
from sweeps.kinds.commands.command_words import INSIDE
from sweeps.kinds.commands.printed_metrics import Found, ProgramEpochs
from sweeps.kinds.function import Save

LOOK_EVERY_S = 0.05
"""How often the caller may look at files that the program writes."""
CHUNK_BYTES = 2**16
CHUNKS_AT_THE_END = 64
"""Of output that are read when the program has ended, while processes that it has left go on writing."""
WRITE_S = 60.0
"""For which a file that is being written is waited for."""
KILL_S = 10.0
"""In which the kernel ends a process that is killed, unless a device holds it."""
EVENT_FILE = "events.out.tfevents"
"""In the name of each of TensorBoard's event files."""
WANDB_FILE = "wandb-config.yaml"
NOT_LINKED = (
    *(project.RESULTS, "__pycache__", "lightning_logs", "logs", "mlruns", "multirun", "outputs", "runs"),
    *("tb_logs", "wandb"),
)
"""Entries of the project's folder that programs write to: each trial makes its own."""
_KNOWN_EPOCH = ".sweeps-epoch"
"""In a checkpoint: the last epoch that was reported, as the program counts, in which output, and what it has
reported behind it."""
_PREFIX = "sweeps-command-"
"""Of the folder of a trial."""


class Program:
    """A program and all processes that it starts.

    Args:
        words: of its command.
        folder: in which it runs.
        environment: of it.
        grace_s: seconds that it has after SIGTERM.
    """

    def __init__(
        self, words: Sequence[str], folder: Path, environment: Mapping[str, str], grace_s: float
    ) -> None:
        self._grace_s, self._oom_kills = grace_s, oom_kills()
        orders, self._orders = os.pipe()
        self._output, output = os.pipe()
        self._told, told = os.pipe()
        command = [sys.executable, "-IS", program_supervisor.__file__, str(told), *words]
        try:
            # It forks the supervisor, and ends.
            subprocess.run(
                command,
                stdin=orders,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=environment,
                pass_fds=[told],
                start_new_session=True,
            )
        finally:
            for descriptor in (orders, output, told):
                os.close(descriptor)
        self._lines = b""
        self._supervisor: int | None = None
        """Number of its process."""
        self._end: Mapping[str, Any] | None = None
        """What the supervisor has told of its end."""
        self.is_closed = False
        """Whether its output can be read no more."""

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_raised: object) -> None:
        """End it: SIGTERM, after its grace SIGKILL of all its processes."""
        try:
            if self._end is None:
                self._order(b"t")
                ends = time.monotonic() + self._grace_s
                for _ in self.output():
                    if time.monotonic() >= ends:
                        break
        finally:
            os.close(self._orders)  # now the supervisor kills what is left
            self._wait_for_supervisor()
            self.is_closed = True
            for descriptor in (self._output, self._told):
                os.close(descriptor)

    def output(self) -> Iterator[bytes]:
        """What it writes, until it has ended; b"" where it has written nothing for `LOOK_EVERY_S`."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        poll.register(self._told, select.POLLIN)
        while self._end is None:
            ready = dict(poll.poll(LOOK_EVERY_S * 1000))
            if self._told in ready:  # first: an output that nobody has open is always ready
                self._hear()
            elif self._output in ready:
                yield self._read()
            else:
                yield b""
        os.set_blocking(self._output, False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(CHUNKS_AT_THE_END):
                if not (chunk := self._read()):
                    break
                yield chunk

    def hold(self) -> None:
        """Stop all its processes where they are."""
        if self._end is None:
            self._order(b"s")
            while self._end is None and not self._hear():
                pass

    def go_on(self) -> None:
        """Let them go on."""
        if self._end is None:
            self._order(b"c")

    def hold_between_writes(self, folder: Path, read: Callable[[], object]) -> None:
        """Where one of its processes is writing a file of a folder, let them go on until that is written.

        Args:
            folder: of a checkpoint.
            read: what they have printed; behind a full pipe they would wait.
        """
        ends = time.monotonic() + WRITE_S
        while self._is_writing(folder) and time.monotonic() < ends:
            read()
            self.go_on()
            time.sleep(LOOK_EVERY_S)
            self.hold()

    @property
    def failure(self) -> str:
        """How it has ended; "" where it has ended well."""
        end = self._end or {}
        if "error" in end:
            return str(end["error"])
        status: int = end.get("status", 0)
        signal = -status if status < 0 else status - 128 if 128 < status < 160 else 0
        if signal == 9 and oom_kills() > self._oom_kills:
            return "killed by the kernel: out of memory"
        return f"killed by signal {signal}" if signal else f"exit status {status}" if status else ""

    @property
    def processes_left(self) -> int:
        """How many processes it had left behind when it ended."""
        left: int = (self._end or {}).get("left", 0)
        return left

    @property
    def is_missing(self) -> bool:
        """Whether it is not there, or can't be executed."""
        return bool((self._end or {}).get("is_missing"))

    def _wait_for_supervisor(self) -> None:
        """Wait until it has closed its pipe, which none of its processes has."""
        poll, ends = select.poll(), time.monotonic() + KILL_S
        poll.register(self._told, select.POLLIN)
        while (left_s := ends - time.monotonic()) > 0:
            if poll.poll(left_s * 1000) and not os.read(self._told, CHUNK_BYTES):
                break

    def _is_writing(self, folder: Path) -> bool:
        """Whether one of its processes writes a file of a folder; one that is appended to is a log, as event
        files are, which some writers open otherwise."""
        if self._supervisor is None:
            return False
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._supervisor).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    files = (file for file in process.open_files() if file.mode not in ("r", "a", "a+"))
                    paths = (Path(file.path) for file in files if EVENT_FILE not in file.path)
                    if any(path.is_relative_to(folder) for path in paths):
                        return True
        return False

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the supervisor was killed, which is heard next
            os.write(self._orders, order)

    def _read(self) -> bytes:
        """What it has written next, which is also written to the standard output of this process."""
        chunk = os.read(self._output, CHUNK_BYTES)
        left = chunk
        with contextlib.suppress(OSError):  # the disk is full, or nobody reads
            while left:
                left = left[os.write(1, left) :]
        return chunk

    def _hear(self) -> bool:
        """Read what the supervisor tells; whether the processes have stopped."""
        heard = os.read(self._told, CHUNK_BYTES)
        if not heard:
            self._end = {"error": "its supervisor was killed"}
        *lines, self._lines = (self._lines + heard).split(b"\n")
        texts = [line.decode() for line in lines]
        for text in texts:
            if text.isdigit():
                self._supervisor = int(text)
            elif text != program_supervisor.STOPPED:
                self._end = json.loads(text)
        return program_supervisor.STOPPED in texts


class TrialFolder:
    """The files of a trial on its PC. They are removed when nothing refers to it any more."""

    def __init__(self, of_project: Path) -> None:
        if not of_project.is_dir():
            raise PCUnfit(
                f"{of_project} is not there: a command needs the project's folder at the same path on each PC"
            )
        top, claim = local_dirs.new_claimed_folder(_PREFIX)
        self._remover = weakref.finalize(self, _remove, top, claim)
        self.work, self.checkpoint, self.metrics = top / "work", top / "checkpoint", top / "metrics.jsonl"
        self.work.mkdir()
        self.checkpoint.mkdir()
        self.metrics.touch()
        for entry in of_project.iterdir():
            if not entry.name.startswith(".") and entry.name not in NOT_LINKED:
                (self.work / entry.name).symlink_to(entry)

    def wandb_config(self, values: Mapping[str, Any]) -> Path:
        """The file of hyperparameters that `wandb.init` puts into `wandb.config`, over the program's own."""
        file = self.work.parent / WANDB_FILE
        file.write_text(wandb_config(values))
        return file

    def fill(self, checkpoint: Path | None, metric: str) -> tuple[ProgramEpochs, str, list[Found]]:
        """Copy a checkpoint to where the program looks for it; what it had reported, where, and which reports
        of its were not yet given."""
        if checkpoint is None:
            return ProgramEpochs(metric), "", []
        shutil.copytree(checkpoint, self.checkpoint, symlinks=True, dirs_exist_ok=True)
        known = self.checkpoint / _KNOWN_EPOCH
        last, are_named, source, *ahead = json.loads(known.read_text())
        known.unlink()
        epochs = ProgramEpochs(metric, last, are_named=are_named, before=len(ahead))
        return epochs, source, [Found(*each) for each in ahead]

    def saving(
        self, program: Program, epochs: ProgramEpochs, source: str, read_ahead: Callable[[], Sequence[Found]]
    ) -> Save:
        """What writes a checkpoint of a report, as long as its program is stopped, or has ended."""

        def save(folder: Path) -> None:
            program.hold_between_writes(self.checkpoint, read_ahead)
            _copy(self.checkpoint, folder)
            found: Sequence[Found] = () if program.is_closed else read_ahead()
            ahead = [[each.metrics, each.epoch, each.names_epoch] for each in found]
            known = [epochs.last, epochs.are_named, source, *ahead]
            (folder / _KNOWN_EPOCH).write_text(json.dumps(known))

        return save


def wandb_config(values: Mapping[str, Any]) -> str:
    """Hyperparameters as W&B's files have them."""
    return json.dumps({name: {"value": value} for name, value in nested(values, INSIDE).items()})


def _remove(folder: Path, claim: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(claim)


def _copy(source: Path, target: Path) -> None:
    """Copy the contents of a folder, so that they are whole at any other path: a link that points inside
    becomes a relative one, and what another one points to is copied."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for folder, folders, files in os.walk(target):
        for copy in (Path(folder, name) for name in (*folders, *files)):
            if not copy.is_symlink():
                continue
            link = source / copy.relative_to(target)
            to = Path(os.path.normpath(link.parent / link.readlink()))
            top = next((each for each in (source, source.resolve()) if to.is_relative_to(each)), None)
            copy.unlink()
            if top is not None:
                copy.symlink_to(os.path.relpath(source / to.relative_to(top), link.parent))
            elif link.is_dir():
                shutil.copytree(link, copy, ignore_dangling_symlinks=True)
            elif link.exists():
                shutil.copy2(link, copy)

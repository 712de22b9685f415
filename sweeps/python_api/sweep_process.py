"""The process of a sweep that Python code runs by `sweeps.run`: another one than that of the code.

In it the sweep is as `sweeps run` in a terminal, whatever the program or the kernel of a notebook has
imported, started or changed; and whatever becomes of the sweep, that program stays.

`python -m sweeps.python_api.sweep_process NUMBER PARENT` is this process. It reads a `Request` from its
standard input, and writes lines of JSON to the pipe of this number: `folder`, `error`, or `html` with `text`.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import itertools
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps import results
from sweeps.common import imports, local_dirs, project
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import CannotContinue, CannotTrain, UserError
from sweeps.common.imports import module_command
from sweeps.common.param_types import shown_range
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig, flag, listed
from sweeps.config.sweep_folder import is_foreign, resume_command, sweep_named
from sweeps.kinds import pickled, registry
from sweeps.kinds.pickled import Pickled
from sweeps.python_api.sweep_request import FOLDERS, OF_THE_MACHINE, Request, as_keywords, request_of
from sweeps.record.journal import RecordUnreadable
from sweeps.record.record import Record
from sweeps.sweep_start import start

if TYPE_CHECKING:
    from sweeps.analysis.sweep import Sweep

NOT_PASSED_ON = ("RAY_RAYLET_PID", "RAY_ADDRESS", "RAY_JOB_ID", "FORCE_COLOR", "CLICOLOR")
"""Variables of a Ray that the program has started itself: the sweep has its own. And those by which a kernel
asks for colours, so that programs take a pipe for a terminal."""
PR_SET_PDEATHSIG = 1


def run(trainable: Any, space: Mapping[str, Any], data: Any, settings: Mapping[str, Any]) -> Sweep | None:
    """See `sweeps.run`."""
    imports.refuse_sweep()
    request = request_of(trainable, space, data, settings)
    display = _display_of_cell()
    if display is not None:
        request = replace(request, in_cell=True)
    process = _Process(request, display)
    status = process.run()
    if process.error and status == 2:
        raise UserError(as_keywords(process.error))
    if status == 130 or process.is_interrupted:
        if (folder := Path(process.folder).resolve()).joinpath(project.JOURNAL).is_file():
            named = folder.name if sweep_named(folder.name).resolve() == folder else process.folder
            print(f"In Python  sweeps.run(..., resume={named!r}) goes on; its results:")
            print(f"           from sweeps import results; results.load({process.folder!r})")
        raise KeyboardInterrupt
    if status:
        raise CannotContinue(process.error or f"the sweep has no result (see above): {process.folder}")
    if settings.get("dry_run"):
        return None
    return results.load(process.folder)


class _Process:
    """The process, as the program sees it.

    Args:
        request: what to run.
        display: shows HTML, and the same as text, in a cell; None: there is none.
    """

    def __init__(self, request: Request, display: Callable[[str, str], None] | None) -> None:
        self._request, self._display = request, display
        self.folder = self.error = ""
        self.is_interrupted = False
        """Whether it was, also where it has ended by itself then."""

    def run(self) -> int:
        """Show what it prints until it has ended; its exit status."""
        sys.stdout.flush()  # what was printed before
        reads, writes = os.pipe()
        is_of_terminal = sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__
        with (
            open(reads, "rb", buffering=0) as told,  # noqa: PTH123 (a descriptor)
            subprocess.Popen(
                module_command(__name__, str(writes), str(os.getpid())),
                stdin=subprocess.PIPE,
                stdout=None if is_of_terminal else subprocess.PIPE,
                stderr=None if is_of_terminal else subprocess.STDOUT,
                env=_environment(),
                pass_fds=[writes],
                process_group=0,  # an interrupt comes through this program, in order
            ) as child,
            self._interrupts_passed_to(child),
        ):
            os.close(writes)
            assert child.stdin is not None
            with contextlib.suppress(BrokenPipeError), child.stdin:  # it has ended, which its status tells
                pickle.dump(self._request, child.stdin)
            try:
                self._follow(told.fileno(), None if child.stdout is None else child.stdout.fileno())
            except BaseException:  # of what shows its output
                child.send_signal(signal.SIGINT)
                for pipe in filter(None, (told, child.stdout)):  # nobody reads them any more
                    pipe.close()
                raise
            return child.wait()

    @contextlib.contextmanager
    def _interrupts_passed_to(self, child: subprocess.Popen[bytes]) -> Iterator[None]:
        """Pass Ctrl-C, or the interrupt of a cell, on to the sweep, which ends in order, at the second one at
        once."""

        def interrupt(*_: Any) -> None:
            self.is_interrupted = True
            child.send_signal(signal.SIGINT)

        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            yield
            return
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _follow(self, told: int, printed: int | None) -> None:
        """Take what it tells until it has ended, and print what it prints."""
        decoder, rest = codecs.getincrementaldecoder("utf-8")("replace"), b""
        with selectors.DefaultSelector() as ready:
            for each in (told, *([] if printed is None else [printed])):
                ready.register(each, selectors.EVENT_READ)
            while told in ready.get_map():
                # What it prints first: it was printed before what is told now.
                for key, _ in sorted(ready.select(), key=lambda found: found[0].fd == told):
                    content = os.read(key.fd, 65536)
                    if not content:
                        ready.unregister(key.fd)
                    elif key.fd == printed:
                        print(decoder.decode(content), end="", flush=True)
                    else:
                        *words, rest = (rest + content).split(b"\n")
                        for word in words:
                            self._take(json.loads(word))
            # Behind its end nothing more comes, though processes that it has started may hold the pipe.
            while printed is not None and printed in ready.get_map() and ready.select(0):
                if not (content := os.read(printed, 65536)):
                    break
                print(decoder.decode(content), end="", flush=True)

    def _take(self, word: Mapping[str, str]) -> None:
        self.folder, self.error = word.get("folder", self.folder), word.get("error", self.error)
        if self._display is not None and "html" in word:
            self._display(word["html"], word["text"])


def _environment() -> dict[str, str]:
    """Of the other process: it finds what this one imports, and no Ray of the program's."""
    mine = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    return {**mine, "PYTHONPATH": os.pathsep.join(filter(None, project.path_behind()))}


def _display_of_cell() -> Callable[[str, str], None] | None:
    """Shows HTML in the cell of a notebook, in place of what it showed before; None outside of one."""
    if "ipykernel" not in sys.modules:
        return None
    from ipykernel.zmqshell import ZMQInteractiveShell
    from IPython import get_ipython
    from IPython.display import display, update_display

    if not isinstance(get_ipython(), ZMQInteractiveShell):
        return None
    shown: list[str] = []

    def show(html: str, text: str) -> None:
        content = {"text/html": html, "text/plain": text}
        if not shown:
            shown.append(f"sweep-{time.monotonic_ns()}")
            display(content, raw=True, display_id=shown[0])
        else:
            update_display(content, raw=True, display_id=shown[0])

    return show


def main(number: int, parent: int) -> int:
    """The other process; its exit status."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # then what trains is saved
    if os.getppid() != parent:
        return 130
    os.set_inheritable(number, False)
    request: Request = pickle.load(sys.stdin.buffer)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if request.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = request.python_path

    def tell(**words: str) -> None:
        left = json.dumps(words).encode() + b"\n"
        with contextlib.suppress(OSError):  # the program has ended, and so does this process
            while left:  # a signal may cut a write short
                left = left[os.write(number, left) :]

    return status_of(lambda: _run(request, tell))


def _run(request: Request, tell: Callable[..., None]) -> int:
    try:
        config = config_of(request)
        tell(folder=str(Path(config.results_dir).expanduser() / str(config.name)))
        cell = None
        if request.in_cell:
            from sweeps.common.cli.terminal import Cell

            cell = Cell(lambda html, text: tell(html=html, text=text))
        return start(config, cell)
    except (UserError, CannotTrain, CannotContinue) as error:
        tell(error=str(error))
        return 1 if isinstance(error, CannotContinue) else 2


def config_of(request: Request) -> SweepConfig:
    """The checked settings, with a name. What is trained is found by its own."""
    given = {name: value for name, value in request.settings.items() if name not in OF_THE_MACHINE}
    made, resumed = request.pickled, given.get("resume")
    there = None if resumed is None else sweep_named(str(resumed))
    if made is not None:
        refined = (sweep_named(each) for each in listed(given.get("refine")) if not is_foreign(each))
        pickled.hold(with_names_of(made, refined if there is None else [there]))
    sys.argv[1:] = [word for name, value in given.items() for word in _words(name, value)]  # for the record
    local_dirs.use_typed(*(request.settings.get(name) for name in FOLDERS))
    if there is not None and "ranges" in given:
        given["ranges"] = changed_ranges(there, given["ranges"])
    words = [given["trainable"]] if made is None and "trainable" in given else []  # maybe of a LightningCLI
    config = cli.checked(given, words=words)
    cli.use_gpus(request.settings.get("gpus"), config)
    return config.changed(name=config.name or registry.new_name(config.trainables))


def with_names_of(made: Pickled, earlier: Iterable[Path]) -> Pickled:
    """What is trained, with the hyperparameters that it had in earlier sweeps: their space need not be given
    again.

    Args:
        earlier: folders of these sweeps.
    """
    theirs = (pickled.read(folder).names for folder in earlier if (folder / pickled.FILE).is_file())
    return replace(made, names=tuple(dict.fromkeys([*itertools.chain(*theirs), *made.names])))


def changed_ranges(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The ranges of a call that resumes a sweep, without those that the sweep began with: the same call goes
    on in the ranges that it has now, which may have been changed meanwhile. Those are told.

    Args:
        folder: of the sweep.
        given: hyperparameter to its range, as in --ranges.
    """
    try:
        info = Record.read(folder).info
    except (OSError, RecordUnreadable):  # the resume says so
        return dict(given)
    began = (info.runs[0].ranges if info.runs else None) or {}
    now = info.settings.ranges
    kept = {name: old for name, old in given.items() if name in began and began[name] == old}
    for name, old in kept.items():
        if name in now and now[name] != old:
            back = resume_command(folder, "--ranges", f"{name}={shown_range(old)}")
            stays = f"{name}: its range was changed to {shown_range(now[name])} after the sweep began"
            print(f"{stays}, and stays. To return to {shown_range(old)}: {back}")
    return {name: each for name, each in given.items() if name not in kept}


def _words(name: str, value: Any) -> list[str]:
    """A setting as it would be typed."""
    if isinstance(value, bool):
        return [flag(name)] if value != SweepConfig.settings()[name].default else []
    if isinstance(value, Mapping):
        pairs = {each: ",".join(map(str, of)) if isinstance(of, list) else of for each, of in value.items()}
        return [flag(name), *(f"{each}={of}" for each, of in pairs.items())]
    return [flag(name), *map(str, value if isinstance(value, list) else [value])]


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

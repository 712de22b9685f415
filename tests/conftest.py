"""The command line as a user types it: a process of its own, in the project's folder."""

from __future__ import annotations

import atexit
import contextlib
import errno
import faulthandler
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from optuna.distributions import BaseDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from sweeps.common import local_dirs, project
from sweeps.common.cli import json_output
from sweeps.common.local_dirs import DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from sweeps.record.trials import TrialRow
from sweeps.space.point import OptunaPoint, Point
from tests import ROOT as ROOT
from tests.support import lab
from tests.support.lab import Lab
from tests.support.sweep_on_pcs import Sweep

TOY = ("--no-baseline", "--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes")
"""Flags of a sweep that trains in no time."""
MODE = "RAY_AUTH_MODE"
MODE_OF_ALL = os.environ.get(MODE)
SLOW = {
    "benchmarks", "cluster", "deploy", "docs", "end_to_end", "support",
    "test_architecture.py", "test_import_contracts.py", "test_secrets.py",
}  # fmt: skip
"""What `make check` runs and `make test` does not: whole sweeps, and what is not of the program itself."""

RAYS_FOLDER = "RAY_TMPDIR"


def _own_folder_of_rays() -> Path:
    """Of this process of pytest: sweeps of two that run at a time share no Ray. Its path must be short."""
    if "PYTEST_CURRENT_TEST" in os.environ:  # a program that a test has started has imported this file
        return Path(os.environ[RAYS_FOLDER])
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        (folder := Path(os.environ[RAYS_FOLDER], worker)).mkdir()
        return folder
    given = os.environ.get(RAYS_FOLDER) or tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="t-", dir=given if len(given) < 16 else "/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


os.environ[RAYS_FOLDER] = str(_own_folder_of_rays())

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a script's `make test &` starts it: each program that a test starts would ignore Ctrl-C, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Let no sweep that a failed test has left share its Ray with the sweeps of those that follow."""
    if call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception):
        folder = tempfile.mkdtemp(prefix="t-", dir="/tmp")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[RAYS_FOLDER] = folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in SLOW:
            item.add_marker("slow")


def pytest_runtest_call(item: pytest.Item) -> None:
    """Have a crash of this process told with its stack: a Ray that was started here has taken the handlers of
    its signals, and writes to a log of its own."""
    faulthandler.disable()
    faulthandler.enable(file=item.config.stash[fault_handler_stderr_fd_key])


def propose(
    record: Record,
    params: Mapping[str, Any],
    words: Mapping[str, BaseDistribution] | None = None,
    seed: int = 0,
    origin: str = "",
    **more: Any,
) -> TrialRow:
    """Begin a trial by hand; `more` is the rest of its Point."""
    optuna = OptunaPoint({name: params[name] for name in words or {}}, words or {})
    return record.begin(Point(**{"trainable": "", **more}, params=params), optuna, seed, origin=origin)


def optuna_trials(folder: Path) -> list[FrozenTrial]:
    """The trials of a record as Optuna itself reads them."""
    return JournalStorage(JournalFileBackend(str(folder / JOURNAL))).get_all_trials(0)


def skip_without(extra: str) -> None:
    """Skip a test where the extra `mlflow` or `wandb` is not installed; other names need none."""
    if extra in ("mlflow", "wandb"):
        pytest.importorskip(extra, reason=f"{extra} is not installed (make {extra})")


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk() -> Iterator[None]:
    """In this process a sync only looks at its open file. It would wait 2 to 5 ms for the disk, for each line
    of a record: half of the time of many tests. None cuts the power; processes that one starts do sync."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(autouse=True)
def folders_of_this_machine() -> Iterator[None]:
    """A command with `--data-dir` sets a variable for the processes that it starts; not for other tests."""
    names = (DATA_DIR_VARIABLE, PREPARED_DIR_VARIABLE)
    before = {name: os.environ[name] for name in names if name in os.environ}
    yield
    for name in names:
        os.environ.pop(name, None)
    os.environ.update(before)
    local_dirs.typed.clear()


@pytest.fixture(autouse=True)
def standard_output_is_given_back() -> Iterator[None]:
    """A command with `--json` that is only parsed keeps it, and the next one gives back a closed one."""
    yield
    assert not json_output.is_on(), "parse it within json_output.last_line()"


@pytest.fixture(autouse=True, scope="module")
def projects_of_other_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Projects that the tests of a file made and imported in this process end with that file."""
    yield
    made = str(tmp_path_factory.getbasetemp())
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if not isinstance(spec, ModuleSpec):
            continue
        places = [spec.origin or ""]
        with contextlib.suppress(KeyError):  # a namespace package below one that Ray has unloaded again
            places += spec.submodule_search_locations or []
        if any(str(place).startswith(made) for place in places):  # transformers has Paths there
            del sys.modules[name]
    sys.path[:] = [entry for entry in sys.path if not entry.startswith(made)]
    importlib.invalidate_caches()
    project.use()


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the toys of this module write that they were begun."""
    return tmp_path_factory.mktemp("attempts")


@pytest.fixture(scope="module")
def environment(attempts: Path) -> dict[str, str]:
    """The environment of a command."""
    return {**os.environ, "TOY_ATTEMPTS": str(attempts), "PYTHONWARNINGS": "", "COLUMNS": "120"}


@pytest.fixture(scope="module")
def sweep(environment: dict[str, str]) -> Command:
    """`sweep("--num-trials", "4")` runs `python -m sweeps.run --num-trials 4`."""

    def run(*arguments: str, timeout_s: int = 180) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sweeps.run", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s
        )

    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 3 MB, of which a test may take all."""
    yield from _mounted(tmp_path, "3m")


@pytest.fixture
def disk_of_100_mb(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 100 MB."""
    yield from _mounted(tmp_path, "100m")


def told(folder: Path) -> dict[str, str]:
    """What a `--notify-command` wrote into `told` of a folder: `env | grep ^SWEEP_ > FOLDER/told`."""
    lines = (folder / "told").read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def fill_up(disk: Path, leave: int = 0) -> Path:
    """Write a file until no byte is free, but for those to leave."""
    file = disk / "others"
    try:
        with file.open("wb", buffering=0) as content:
            while (free := shutil.disk_usage(disk).free - leave) > 0:
                content.write(bytes(min(free, 2**20)))
    except OSError as error:
        assert error.errno == errno.ENOSPC  # noqa: PT017  (the whole block may raise it)
    return file


def _mounted(tmp_path: Path, size: str) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture(autouse=True)
def who_asks_for_a_token() -> Iterator[None]:
    """What a command settles for its own process does not outlive the test that called it here, itself or by
    a fixture of its module: a Ray that a later test starts would ask for a token, which this process, having
    read it before, does not show."""
    yield
    if MODE_OF_ALL is None:
        os.environ.pop(MODE, None)
    else:
        os.environ[MODE] = MODE_OF_ALL


@pytest.fixture(scope="module")
def lab_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lab]]:
    """`lab_of(2)` is a lab of two PCs; those of a module are taken down at its end."""
    if (why := lab.why_not()) is not None:
        pytest.skip(why)
    with contextlib.ExitStack() as labs:

        def new(count: int, **more: Any) -> Lab:
            made = labs.enter_context(lab.made(tmp_path_factory.mktemp("lab"), **more))
            made.add(count)
            return made

        yield new


@pytest.fixture
def sweep_on(lab_of: Callable[..., Lab], tmp_path: Path) -> Callable[..., Sweep]:
    """`sweep_on(3, trials=8, epoch_s=1)`: a lab of three PCs, of which a sweep can be started."""

    def new(pcs: int, trials: int, **hyperparameters: float) -> Sweep:
        return Sweep(lab_of(pcs, shared=[tmp_path]), tmp_path, trials, **hyperparameters)

    return new

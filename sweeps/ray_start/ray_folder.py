"""The folder of the Ray of this user on this PC, which all sweeps here share (`shared_ray.py`).

- `ray.json`: its address, its processes and versions. It is believed as long as these processes are there.
- `users/`: a file for each sweep that uses it, which the process of the sweep holds locked.
- `stays`: whether it stays when nobody uses it, as `sweeps up` has asked.
- `start`: locked by the one process that starts or ends it.

The kernel lets go of a lock when its process ends, in whatever way, so that nothing here can be left from a
sweep that was killed or a PC that was switched off. No clock of the PC is read: processes are told apart by
their start, which the kernel counts from its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from sweeps.common import atomic_io, gpus, local_dirs
from sweeps.common.errors import UserError
from sweeps.common.imports import DISTRIBUTION, OF_A_CHECKOUT, release_of
from sweeps.ray_start import ray_connection, ray_environment

OF_ONE = "ray-"
"""Beginning of the name of its folder."""
READS = 3
"""Of the file of a user, which writes it once a second, and may be at it."""
HOLDER, RAYLET, GCS = "holder", "raylet", "gcs_server"
"""Its processes; without one of them it can't be."""
OF_GPUS = (gpus.VISIBLE, gpus.ORDER, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that choose GPUs."""
KEPT_APART = (
    *OF_GPUS,
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "OAR_JOB_ID", "FLUX_JOB_ID",
    "HOME", ray_environment.TOKEN, ray_environment.TOKEN_PATH,
)  # fmt: skip
"""Variables with other values of which there is another Ray: it would see other GPUs, end with another job of
a batch system, or have another token."""


@dataclass(frozen=True, kw_only=True)
class State:
    """What `ray.json` says."""

    address: str
    boot: str
    """The id of this start of the PC."""
    processes: Mapping[str, Sequence[int]]
    """By name: its id, and its start."""
    versions: Mapping[str, str]
    dashboard_url: str
    """"" without Ray's dashboard."""

    @property
    def is_alive(self) -> bool:
        """Whether all its processes are there."""
        return self.boot == boot_id() and all(
            start_of(pid) == start for pid, start in self.processes.values()
        )

    @property
    def pids(self) -> dict[str, int]:
        """The ids of its processes."""
        return {name: pid for name, (pid, _) in self.processes.items()}


@dataclass(frozen=True, kw_only=True)
class User:
    """A sweep that uses it."""

    pid: int
    name: str
    folder: str = ""
    begun: int = field(default_factory=time.monotonic_ns)
    """By the clock that counts from the start of the PC."""
    has_claimed: bool = False
    """Whether it has claimed places, so that others know it; before, it is still about to start."""
    claim: str = ""
    """What it claims and has, as `ray_cluster/places/shared_sweeps.py` reads it; "" for nothing."""

    @property
    def words(self) -> str:
        """`first (process 4711, in /home/ann/results/first)`"""
        return f"{self.name} (process {self.pid}{f', in {self.folder}' if self.folder else ''})"


class RayFolder:
    """The folder of it, which this process can find, read and lock.

    Raises:
        UserError: there is no folder of use.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or _folder()
        self._users = self.folder / "users"
        self._users.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state, self._stays = self.folder / "ray.json", self.folder / "stays"

    def state(self) -> State | None:
        """What is there; None where it has ended."""
        try:
            state = _state(json.loads(self._state.read_text()))
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return state if state.is_alive else None

    def write(self, state: State) -> None:
        """Begin it, by its holder."""
        atomic_io.write(self._state, json.dumps(asdict(state)))

    def remove(self) -> None:
        """End it, by its holder."""
        self._state.unlink(missing_ok=True)
        self._stays.unlink(missing_ok=True)

    @property
    def has_ended_in_order(self) -> bool:
        """Whether its holder has ended the one that was there last."""
        return not self._state.exists()

    def keep_fresh(self) -> None:
        """Touch its files, which a PC that cleans up its folder of temporary files would remove."""
        for path in (*self._users.glob("*"), *self.folder.glob("*"), self.folder):
            with contextlib.suppress(OSError):
                os.utime(path)

    @property
    def stays(self) -> bool:
        """Whether it stays when nobody uses it."""
        return self._stays.exists()

    def set_stays(self, stays: bool) -> None:
        """Let it stay, or end when nobody uses it."""
        if stays:
            self._stays.touch(mode=0o600)
        else:
            self._stays.unlink(missing_ok=True)

    def users(self) -> list[User]:
        """The sweeps that use it, first come first; files of those that have ended are removed."""
        found = []
        for path in self._users.glob("*"):
            try:
                with path.open("rb") as file:
                    if local_dirs.is_claimed(file):
                        found.append(_user(file, path))
                    else:
                        path.unlink()
            except FileNotFoundError:  # it has just ended
                continue
        return sorted(found, key=lambda user: user.begun)

    def process_ids(self) -> set[int]:
        """The processes of it, and of the sweeps that use it."""
        state = self.state()
        first = {*(state.pids.values() if state is not None else ()), *(user.pid for user in self.users())}
        found = set(first)
        for pid in first:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since
                found.update(child.pid for child in psutil.Process(pid).children(recursive=True))
        return found

    @property
    def is_used(self) -> bool:
        """Whether a sweep uses it."""
        return bool(self.users())

    def add_user(self, user: User) -> tuple[int, Path]:
        """Use it; the file of the user, and its descriptor, which holds the lock."""
        path = self._users / f"{user.pid}-{user.begun}"
        return local_dirs.write_claimed(path, json.dumps(asdict(user)), self.folder / path.name), path

    @contextlib.contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[int | None]:
        """Lock it against others that would start or end it; None where one does, and this does not wait.

        The lock is let go of when the last process that has the descriptor has closed it.
        """
        number = os.open(self.folder / "start", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield None
            else:
                yield number
        finally:
            os.close(number)


def ray_folders() -> list[RayFolder]:
    """The places of this user on this PC: there is one for each choice of GPUs.

    Raises:
        UserError: there is no folder of use.
    """
    mine = RayFolder().folder
    return [RayFolder(folder) for folder in sorted(mine.parent.glob(f"{OF_ONE}*"))]


def ray_folder_here() -> RayFolder:
    """That of the Ray for this process: in a service of systemd, which would end it for all others when it
    ends itself, one of the service's own where none is up that others share.

    Raises:
        UserError: there is no folder of use.
    """
    shared = RayFolder()
    services = services_of_systemd(Path("/proc/self/cgroup").read_text())
    return shared if not services or shared.state() is not None else RayFolder(_folder(services))


def state_of(address: str, children: Mapping[str, int], dashboard_url: str) -> State:
    """That of a Ray that this process holds; its children by their names."""
    pids = {HOLDER: os.getpid(), **children}
    return State(
        address=address,
        boot=boot_id(),
        processes={name: [pid, start_of(pid)] for name, pid in pids.items()},
        versions=versions(),
        dashboard_url=dashboard_url,
    )


def versions() -> dict[str, str]:
    """Those that all that use one Ray have alike."""
    releases = {"sweeps": release_of(DISTRIBUTION) or OF_A_CHECKOUT, "Ray": release_of("ray") or ""}
    return {**releases, "Python": platform.python_version()}


def listed(users: Sequence[User]) -> str:
    """Users in words."""
    return " and ".join(user.words for user in users)


def _folder(services: Sequence[str] = ()) -> Path:
    """The folder of the Ray that is for this process, or of one that is for services of systemd alone."""
    chosen = {name: os.environ.get(name) for name in KEPT_APART}
    if any(chosen[name] is not None for name in OF_GPUS) and not gpus.are_there():
        chosen.update(dict.fromkeys(OF_GPUS))  # there is nothing to choose
    facts: list[Any] = [*chosen.values(), *services]
    facts += [os.environ.get(ray_environment.AUTH_MODE, ray_environment.TOKEN_MODE)]  # as it will be settled
    facts += [sorted(os.sched_getaffinity(0))]  # it would have other cores
    facts += [boot_id()]  # PCs may share a folder of temporary files; their names may change while they run
    # From another namespace it can't be seen.
    facts += [str(Path("/proc/self/ns", kind).readlink()) for kind in ("pid", "net")]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]
    parent = ray_connection.folder_for_sockets()
    try:
        folder = local_dirs.folder_of_user(parent) / f"{OF_ONE}{key}"
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{parent}: no folder can be made ({error.strerror}). Set {ray_connection.RAY_TMPDIR} to a "
            "folder of your own"
        ) from None
    return folder


def _state(content: Mapping[str, Any]) -> State:
    try:
        return State(**content)
    except TypeError:  # a program of another version wrote it, which `refuse_other_versions` then says
        processes = {HOLDER: content["processes"][HOLDER]}
        return State(address="", boot=content["boot"], processes=processes, versions={}, dashboard_url="")


def _user(file: BinaryIO, path: Path) -> User:
    pid, begun = map(int, path.name.split("-"))
    for _ in range(READS):
        file.seek(0)
        with contextlib.suppress(ValueError, TypeError):  # it writes at this moment
            return User(**json.loads(file.read()))
    return User(pid=pid, name="a sweep", begun=begun)


def services_of_systemd(cgroups: str) -> list[str]:
    """The services of systemd in which a process is, by its `/proc/PID/cgroup`. Terminals are in scopes."""
    lines = [line.split(":", 2)[1:] for line in cgroups.splitlines()]
    return sorted({path for by, path in lines if by in {"", "name=systemd"} and path.endswith(".service")})


def boot_id() -> str:
    """The kernel's id of this start of the PC."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_of(pid: int) -> int:
    """When a process has started, in the kernel's ticks since the PC did; 0 where it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if words[0] in "ZX" else int(words[19])

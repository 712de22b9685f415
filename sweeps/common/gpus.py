"""The GPUs of this PC as NVIDIA's driver lists them: which there are, which are chosen, and who uses them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sweeps.common.errors import UserError
from sweeps.common.formatting import GB, size

VISIBLE, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
BY_PLACE = "PCI_BUS_ID"
"""The value of ORDER with which CUDA counts as `nvidia-smi` does: by the place in the PC."""
NONE = "none"
"""In place of GPUs: use none."""
CONTEXT_GB = 0.5
"""Of a GPU's memory, taken by CUDA for each process: 0.3 to 0.5 GB, by GPU and driver."""
DESKTOP_GB = 2.0
"""What the screen, a browser and the driver itself take of a GPU, at most, as a plain rule: a program that
draws is in the way of others from there on."""
DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/kfd")
"""PyTorch may find a GPU where one of these exists: NVIDIA's on Linux, in WSL and on a Jetson; AMD's."""
FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""Linux's number of it (PROC_PID_INIT_INO). NVIDIA's driver has the process ids of this one alone: in a
container they are those of other processes, or of none (NVIDIA/nvidia-docker#1483)."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a GPU."""

    pid: int
    """0: it is not known, nor how many there are."""
    used_bytes: int | None
    """Of that memory; None where the driver does not tell."""
    draws: bool = False
    """Whether it draws: a desktop, a browser, a game."""
    user: str = ""
    """Name, or number where it has none; "" where this process may not see it."""
    program: str = ""
    line: frozenset[int] = frozenset()
    """Process ids of it and of those that have started it, one another."""

    @property
    def is_in_the_way(self) -> bool:
        """Whether it takes more than a desktop does, or more than CUDA itself takes for a process."""
        least_gb = DESKTOP_GB if self.draws else CONTEXT_GB
        return not self.draws if self.used_bytes is None else self.used_bytes >= least_gb * GB

    def words(self, memory_bytes: int | None) -> str:
        """`user anna (pid 4711, python, 9.1 of 25.8 GB)`."""
        used = "" if self.used_bytes is None else f"{self.used_bytes / GB:.3g}"
        memory = f"{used} of {size(memory_bytes)}" if used and memory_bytes is not None else ""
        if not self.pid:
            return f"programs that can't be seen from here ({memory})"
        told = (f"pid {self.pid}", self.program, memory or "memory not known")
        return f"user {self.user or 'unknown'} ({', '.join(filter(None, told))})"


@dataclass(frozen=True)
class Card:
    """A GPU."""

    name: str
    driver: str
    """Its version."""
    memory_bytes: int | None
    """None where it shares the memory of the PC."""
    used_bytes: int = 0
    """Of the memory, by whatever runs there now."""
    index: int = 0
    """As `nvidia-smi` numbers it."""
    uuid: str = ""
    processes: tuple[GpuProcess, ...] = ()
    load_percent: int | None = None
    """Of the last moments, in which something ran there; None where the driver does not tell."""
    shows_processes: bool = True
    """Whether the driver's process ids are those of this PC; not in a container."""

    @property
    def words(self) -> str:
        """Its name and memory."""
        return self.name if self.memory_bytes is None else f"{self.name} of {size(self.memory_bytes)}"

    def neighbours(self, own: Collection[int] = (), own_bytes: float = 0) -> list[GpuProcess]:
        """The processes in the way of one's own.

        Args:
            own: process ids of one's own, each with all that it has started.
            own_bytes: of the memory, that those hold: it counts where processes can't be told apart.
        """
        if self.shows_processes:
            return [each for each in self.processes if each.is_in_the_way and not each.line & {*own}]
        rest = int(self.used_bytes - own_bytes)
        return [GpuProcess(0, rest)] if rest >= DESKTOP_GB * GB else []

    def held_bytes(self, own: Collection[int]) -> int:
        """Of the memory, by the processes `own` and all that they have started, as far as it is known."""
        return sum(each.used_bytes or 0 for each in self.processes if each.line & {*own})

    def room_bytes(self, own: Collection[int]) -> int:
        """Of the memory, what nobody but the processes `own` holds."""
        return (self.memory_bytes or 0) - self.used_bytes + self.held_bytes(own)


def lines(cards: Sequence[Card], own: Collection[int] = ()) -> list[str]:
    """By whom GPUs are used: `GPU 0 is used by user 1003 (pid 4711, python, 9.1 of 25.8 GB)`. The
    processes `own`, and what they have started, are left out."""
    return [
        f"GPU {card.index} is used by {' and '.join(each.words(card.memory_bytes) for each in others)}"
        for card in cards
        if (others := card.neighbours(own))
        # Where processes can't be told apart, what is used may be one's own.
        and (card.shows_processes or not own)
    ]


def are_there() -> bool:
    """Whether this PC may have a GPU, shown or hidden."""
    return any(Path(device).exists() for device in DEVICES) or bool(listed({}))


def listed(variables: Mapping[str, str]) -> list[Card]:
    """The GPUs of this PC that CUDA shows a process with these variables of the environment; [] where
    NVIDIA's driver is absent or fails.

    Not by PyTorch: Ray hides all GPUs from a task that takes none.
    """
    import pynvml as nvml  # a tenth of a second, for what most processes never ask

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        cards = [_card(nvml, index, handle, driver) for index, handle in _visible(nvml, variables)]
        return [card for card in cards if card is not None]
    except nvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def choose(text: str) -> dict[str, str]:
    """The variables by which this process and its children see the chosen GPUs alone.

    Args:
        text: what `--gpus` gives: numbers as `nvidia-smi` has them, or UUIDs, with commas.

    Raises:
        UserError: there is no such GPU, or CUDA_VISIBLE_DEVICES hides it.
    """
    if text.strip() == NONE:
        return {VISIBLE: ""}
    shown, of_pc = listed(os.environ), listed({ORDER: BY_PLACE})
    if not of_pc:
        raise UserError(
            f"--gpus {text}: NVIDIA's driver lists no GPU on this PC. Leave --gpus out, or give --gpus {NONE}"
        )
    faults, found = list[str](), list[str]()
    for word in map(str.strip, text.split(",")):
        # Of a GPU in slices the first one is shown, as CUDA has it.
        is_slice = word.startswith("MIG-") and VISIBLE not in os.environ
        among = listed({VISIBLE: word}) if is_slice else shown
        fitting = [card for card in among if _is_named(card, word)]
        if len(fitting) == 1:
            named = fitting[0].uuid if fitting[0].uuid.startswith("MIG-") else str(fitting[0].index)
            faults += [f"--gpus {text}: GPU {word} is given twice"] if named in found else []
            found.append(named)
        elif fitting:
            faults.append(f"--gpus {word}: it is the beginning of {len(fitting)} UUIDs; give more of one")
        elif not word:
            faults.append(f"--gpus {text}: give numbers or UUIDs with one comma between two, as in 0,2")
        elif any(_is_named(card, word) for card in of_pc):
            faults.append(f"--gpus {word}: {VISIBLE}={os.environ.get(VISIBLE)} hides it")
        else:
            faults.append(f"--gpus {word}: there is no such GPU")
    if faults:
        there = "\n".join(f"  {card.index}  {card.words}  {card.uuid}" for card in of_pc)
        faults.append(
            f"Those of this PC, as nvidia-smi numbers them:\n{there}\nor {NONE}, to train on the CPU"
        )
        raise UserError("\n".join(faults))
    return {VISIBLE: ",".join(found), ORDER: BY_PLACE}


def _is_named(card: Card, word: str) -> bool:
    if word.isdecimal():
        return card.index == int(word)
    return bool(word) and card.uuid.lower().startswith(word.lower())


def _visible(nvml: Any, variables: Mapping[str, str]) -> list[tuple[int, Any]]:
    """Numbers and NVML's handles of the GPUs that CUDA shows; NVML itself lists all of the PC.

    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html
    """
    count = nvml.nvmlDeviceGetCount()
    handles = [(index, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    if variables.get(ORDER) != BY_PLACE:  # else CUDA counts from the fastest one
        handles.sort(key=lambda each: -_speed(nvml, each[1]))
    if (words := variables.get(VISIBLE)) is None:
        return handles
    found: list[tuple[int, Any]] = []
    for word in map(str.strip, words.split(",")):
        if word.isdecimal():
            named = handles[int(word) : int(word) + 1]
        elif word.startswith("MIG-"):
            part = nvml.nvmlDeviceGetHandleByUUID(word)
            whole = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)
            named = [(nvml.nvmlDeviceGetIndex(whole), part)]
        else:
            named = [each for each in handles if word and nvml.nvmlDeviceGetUUID(each[1]).startswith(word)]
        if not named:  # CUDA, too, leaves out what follows
            break
        found += named
    return found


def _speed(nvml: Any, handle: Any) -> float:
    """About the operations per second; 0 where they are not known."""
    try:
        clock = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        return float(nvml.nvmlDeviceGetNumGpuCores(handle) * clock)
    except nvml.NVMLError:
        return 0.0


def _card(nvml: Any, index: int, handle: Any, driver: str) -> Card | None:
    """A GPU, of one in MIG mode its first slice, which is the one that CUDA takes; None where it is not known
    (a container may hide it)."""
    try:
        with contextlib.suppress(nvml.NVMLError):
            if nvml.nvmlDeviceGetMigMode(handle)[0]:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
        name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
    except nvml.NVMLError:
        return None
    total, used = None, 0
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        total, used = int(memory.total), int(memory.used)
    except nvml.NVMLError_NotSupported:
        pass
    except nvml.NVMLError:
        return None
    load = None
    with contextlib.suppress(nvml.NVMLError):  # of a slice it is not known
        load = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    shows = Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE
    return Card(name, driver, total, used, index, uuid, _processes(nvml, handle, shows), load, shows)


def _processes(nvml: Any, handle: Any, shows_processes: bool) -> tuple[GpuProcess, ...]:
    """Those that compute and those that draw on a GPU; some do both."""

    def of(kind: Callable[[Any], list[Any]]) -> dict[int, int | None]:
        try:
            return {each.pid: each.usedGpuMemory for each in kind(handle)}
        except nvml.NVMLError:  # an old driver, or one that does not tell this user
            return {}

    drawing = of(nvml.nvmlDeviceGetGraphicsRunningProcesses)
    used = drawing | of(nvml.nvmlDeviceGetComputeRunningProcesses)
    about = _about if shows_processes else lambda pid: {}
    return tuple(GpuProcess(pid, bytes_, pid in drawing, **about(pid)) for pid, bytes_ in used.items())


def _about(pid: int) -> dict[str, Any]:
    """Whose a process is; {} of one that this process may not see, or that has ended."""
    try:
        process = psutil.Process(pid)
        line = frozenset({pid, *(each.pid for each in process.parents())})
        return {"user": process.username(), "program": process.name(), "line": line}
    except psutil.Error:
        return {}

"""NVIDIA's library of a PC that has none: it lists the GPUs of the file $GPUS, one `name, driver, MiB` a
line, and perhaps `used MiB, cores, UUID`. A line that begins with `MIG ` is a slice of the GPU before it.
Processes on them are those of the file $GPU_PROCESSES that are there, one `place of the GPU, C or G, pid,
MiB` a line.

With this folder on $PYTHONPATH it is imported in place of `pynvml`.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from types import SimpleNamespace

from sweeps.common import gpus

gpus.FIRST_PID_NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino
"""The process ids of this driver are those that are seen from here, also where this is a container."""


class NVMLError(Exception):
    """Any failure."""


class NVMLError_NotSupported(NVMLError):
    """The GPU has no such thing."""


class NVMLError_NoPermission(NVMLError):
    """This user may not see it."""


NVML_CLOCK_SM = 1
LOAD_PERCENT = 87


def nvmlInit() -> None:
    if not Path(os.environ.get("GPUS", "")).is_file():
        raise NVMLError("Driver Not Loaded")


def nvmlShutdown() -> None:
    pass


def nvmlSystemGetDriverVersion() -> str:
    if not (rows := _rows()):
        raise NVMLError("Unknown Error")
    return rows[0][1]


def nvmlDeviceGetCount() -> int:
    return len(_cards())


def nvmlDeviceGetHandleByIndex(index: int) -> list[str]:
    return _cards()[index]


def nvmlDeviceGetHandleByUUID(uuid: str) -> list[str]:
    for row in _rows():
        if row[5:] == [uuid]:
            return row
    raise NVMLError("Not Found")


def nvmlDeviceGetUUID(gpu: list[str]) -> str:
    return (gpu[5:] or [f"GPU-{_rows().index(gpu)}"])[0]


def nvmlDeviceGetName(gpu: list[str]) -> str:
    if gpu[0] == "hidden":
        raise NVMLError_NoPermission("Insufficient Permissions")
    return gpu[0]


def nvmlDeviceGetMemoryInfo(gpu: list[str]) -> SimpleNamespace:
    if not gpu[2].isdigit():
        raise NVMLError_NotSupported("Not Supported")
    used = int((gpu[3:] or ["0"])[0]) * 2**20 + sum(filter(None, _processes(gpu).values()))
    return SimpleNamespace(total=int(gpu[2]) * 2**20, used=used)


def nvmlDeviceGetNumGpuCores(gpu: list[str]) -> int:
    if not gpu[4:]:
        raise NVMLError_NotSupported("Not Supported")
    return int(gpu[4])


def nvmlDeviceGetMaxClockInfo(gpu: list[str], clock: int) -> int:
    return 1000


def nvmlDeviceGetMigMode(gpu: list[str]) -> tuple[bool, bool]:
    if not _slices(gpu):
        raise NVMLError_NotSupported("Not Supported")
    return True, True


def nvmlDeviceGetMigDeviceHandleByIndex(gpu: list[str], index: int) -> list[str]:
    return _slices(gpu)[index]


def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu: list[str]) -> list[str]:
    return next(card for card in _cards() if gpu in _slices(card))


def nvmlDeviceGetIndex(gpu: list[str]) -> int:
    return _cards().index(gpu)


def nvmlDeviceGetComputeRunningProcesses(gpu: list[str]) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in _processes(gpu, "C").items()]


def nvmlDeviceGetGraphicsRunningProcesses(gpu: list[str]) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in _processes(gpu, "G").items()]


def _processes(gpu: list[str], kind: str = "") -> dict[int, int | None]:
    """Bytes of each by its id; None where the driver does not tell."""
    file = Path(os.environ.get("GPU_PROCESSES", ""))
    rows = [line.split(", ") for line in file.read_text().splitlines()] if file.is_file() else []
    return {
        int(pid): int(mib) * 2**20 if mib.isdigit() else None
        for place, kinds, pid, mib in rows
        if int(place) == _cards().index(gpu) and kind in kinds and Path("/proc", pid).exists()
    }


def _slices(gpu: list[str]) -> list[list[str]]:
    rows = _rows()
    behind = rows[rows.index(gpu) + 1 :]
    return list(itertools.takewhile(_is_slice, behind)) if not _is_slice(gpu) else []


def _cards() -> list[list[str]]:
    return [row for row in _rows() if not _is_slice(row)]


def _is_slice(row: list[str]) -> bool:
    return row[0].startswith("MIG ")


def _rows() -> list[list[str]]:
    return [line.split(", ") for line in Path(os.environ["GPUS"]).read_text().splitlines()]


def nvmlDeviceGetUtilizationRates(gpu: list[str]) -> SimpleNamespace:
    if gpu[0].startswith("MIG "):
        raise NVMLError_NotSupported("Not Supported")
    return SimpleNamespace(gpu=LOAD_PERCENT)

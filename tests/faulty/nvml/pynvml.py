"""NVIDIA's library of a PC that has none: it lists the GPUs of the file $GPUS, one `name, driver, MiB` a
line.

With this folder on $PYTHONPATH it is imported in place of `pynvml`.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace


class NVMLError(Exception):
    """Any failure."""


class NVMLError_NotSupported(NVMLError):
    """The GPU has no such thing."""


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
    return len(_rows())


def nvmlDeviceGetHandleByIndex(index: int) -> list[str]:
    return _rows()[index]


def nvmlDeviceGetName(gpu: list[str]) -> str:
    return gpu[0]


def nvmlDeviceGetMemoryInfo(gpu: list[str]) -> SimpleNamespace:
    if not gpu[2].isdigit():
        raise NVMLError_NotSupported("Not Supported")
    return SimpleNamespace(total=int(gpu[2]) * 2**20)


def _rows() -> list[list[str]]:
    return [line.split(", ") for line in Path(os.environ["GPUS"]).read_text().splitlines()]

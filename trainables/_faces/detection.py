"""Where the face is in a frame: MTCNN, or BlazeFace, which is many times faster and misses small faces.

The weights come from packages (`make faces`); only their files are read, nothing of them is imported.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from trainables._faces.boxes import MESH, WEIGHTS, Face, in_package

if TYPE_CHECKING:
    from trainables._faces.boxes import Frame
    from trainables._faces.mediapipe import Mesh

PACKAGES = ("av", "cv2", "albumentations")
"""What reads videos, runs networks and augments."""


class Detector(Protocol):
    """Finds the largest face of each frame."""

    def __call__(self, frames: Sequence[Frame]) -> list[Face | None]:
        """Frames of one size; None where there is no face."""


@cache
def detector(name: str) -> Detector:
    """A detector, its weights loaded once per process.

    Args:
        name: one of WEIGHTS.

    Raises:
        FileNotFoundError: the package with its weights is not installed.
    """
    if name == "mtcnn":
        from trainables._faces.mtcnn import Mtcnn

        return Mtcnn()
    from trainables._faces.mediapipe import BlazeFace

    return BlazeFace()


@cache
def mesh() -> Mesh:
    """Who finds the landmarks of a face, loaded once per process.

    Raises:
        FileNotFoundError: the package with its weights is not installed.
    """
    from trainables._faces.mediapipe import Mesh

    return Mesh()


def missing(detector: str) -> str:
    """The first thing that is needed to find faces and is not installed; "" when all is."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            return package
    try:
        for file in [*WEIGHTS[detector], MESH]:
            in_package(*file)
    except FileNotFoundError as error:
        return str(error).split(" ")[0]
    return ""

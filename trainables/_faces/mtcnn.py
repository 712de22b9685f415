"""MTCNN: three networks, each looking closer at what the one before let through.

Zhang et al., 2016, https://arxiv.org/abs/1604.02878. Weights, thresholds and layers are those of
facenet-pytorch (MIT), whose own code needs torchvision; this needs it not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np
import torch
from torch import nn

from trainables._faces.boxes import WEIGHTS, Face, best_of_overlapping, in_package

if TYPE_CHECKING:
    from trainables._faces.boxes import Floats, Frame

SMALLEST_PIXELS = 40
"""A smaller face is not looked for: its crop would be enlarged more than twice."""
SCALE_STEP = 0.709
"""From one size of the frame to the next smaller one."""
THRESHOLDS = (0.6, 0.7, 0.7)
"""Of the three networks: how sure each must be."""
CELL_PIXELS, STRIDE = 12, 2
"""What the first network sees at once, and how far apart."""


def _conv(name: int, before: int, after: int, side: int) -> list[tuple[str, nn.Module]]:
    return [(f"conv{name}", nn.Conv2d(before, after, side)), (f"prelu{name}", nn.PReLU(after))]


class _Stage(nn.Module):
    """Layers by the names that they have in the file, and heads on what comes out of them."""

    def __init__(self, number: int, layers: list[tuple[str, nn.Module]], heads: dict[str, nn.Module]) -> None:
        super().__init__()
        self._order = [name for name, _ in layers]
        for name, layer in [*layers, *heads.items()]:
            self.add_module(name, layer)
        self._heads = list(heads)
        path = in_package(*WEIGHTS["mtcnn"][number])
        self.load_state_dict(torch.load(path, weights_only=True))
        self.eval().requires_grad_(False)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Images [n, 3, height, width] in -1..1 to how likely each is a face, and the rest."""
        for name in self._order:
            images = self.get_submodule(name)(images)
        first, *rest = (self.get_submodule(name)(images) for name in self._heads)
        return [first.softmax(dim=1)[:, 1], *rest]


class _Flat(nn.Module):
    """Rows of numbers, in the order that the weights were trained with: width, height, channels."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.permute(0, 3, 2, 1).flatten(1)


def _first() -> _Stage:
    pool = nn.MaxPool2d(2, 2, ceil_mode=True)
    layers = [*_conv(1, 3, 10, 3), ("pool1", pool), *_conv(2, 10, 16, 3), *_conv(3, 16, 32, 3)]
    return _Stage(0, layers, {"conv4_1": nn.Conv2d(32, 2, 1), "conv4_2": nn.Conv2d(32, 4, 1)})


def _second() -> _Stage:
    layers: list[tuple[str, nn.Module]] = [
        *_conv(1, 3, 28, 3),
        ("pool1", nn.MaxPool2d(3, 2, ceil_mode=True)),
        *_conv(2, 28, 48, 3),
        ("pool2", nn.MaxPool2d(3, 2, ceil_mode=True)),
        *_conv(3, 48, 64, 2),
        ("flat", _Flat()),
        ("dense4", nn.Linear(576, 128)),
        ("prelu4", nn.PReLU(128)),
    ]
    return _Stage(1, layers, {"dense5_1": nn.Linear(128, 2), "dense5_2": nn.Linear(128, 4)})


def _third() -> _Stage:
    layers: list[tuple[str, nn.Module]] = [
        *_conv(1, 3, 32, 3),
        ("pool1", nn.MaxPool2d(3, 2, ceil_mode=True)),
        *_conv(2, 32, 64, 3),
        ("pool2", nn.MaxPool2d(3, 2, ceil_mode=True)),
        *_conv(3, 64, 64, 3),
        ("pool3", nn.MaxPool2d(2, 2, ceil_mode=True)),
        *_conv(4, 64, 128, 2),
        ("flat", _Flat()),
        ("dense5", nn.Linear(1152, 256)),
        ("prelu5", nn.PReLU(256)),
    ]
    heads = {"dense6_1": nn.Linear(256, 2), "dense6_2": nn.Linear(256, 4), "dense6_3": nn.Linear(256, 10)}
    return _Stage(2, layers, dict(heads))


class Mtcnn:
    """Finds the largest face of each frame; frames go through each network together."""

    def __init__(self) -> None:
        self._first, self._second, self._third = _first(), _second(), _third()

    @torch.inference_mode()
    def __call__(self, frames: Sequence[Frame]) -> list[Face | None]:
        found = self._propose(frames)
        found, _ = self._refine(self._second, frames, found, 24, THRESHOLDS[1])
        found, points = self._refine(self._third, frames, found, 48, THRESHOLDS[2])
        return [_largest(*one) for one in zip(found, points, strict=True)]

    def _propose(self, frames: Sequence[Frame]) -> list[Floats]:
        """Of each frame, square boxes [n, 4] that the first network takes for faces."""
        height, width = frames[0].shape[:2]
        boxes = [[np.zeros((0, 4), np.float32)] for _ in frames]
        scores = [[np.zeros(0, np.float32)] for _ in frames]
        scale = CELL_PIXELS / SMALLEST_PIXELS
        while min(height, width) * scale >= CELL_PIXELS:
            size = int(width * scale + 1), int(height * scale + 1)
            sure, moved = self._first(
                _tensor([cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in frames])
            )
            for number, (of_frame, by) in enumerate(zip(sure.numpy(), moved.numpy(), strict=True)):
                rows, columns = np.nonzero(of_frame >= THRESHOLDS[0])
                corner = np.stack([columns, rows], axis=1) * STRIDE
                cells = np.concatenate([corner, corner + CELL_PIXELS], axis=1).astype(np.float32) / scale
                kept = best_of_overlapping(cells, of_frame[rows, columns], 0.5)
                boxes[number].append(_moved(cells, by[:, rows, columns].T)[kept])
                scores[number].append(of_frame[rows, columns][kept])
            scale *= SCALE_STEP
        return [
            _square(_best(np.concatenate(of_frame), np.concatenate(score)))
            for of_frame, score in zip(boxes, scores, strict=True)
        ]

    def _refine(
        self, stage: _Stage, frames: Sequence[Frame], boxes: list[Floats], pixels: int, threshold: float
    ) -> tuple[list[Floats], list[Floats]]:
        """The boxes that a network takes for faces, moved as it says, and five points [n, 5, 2] in each."""
        cut = [_cut(f, box, pixels) for f, of_frame in zip(frames, boxes, strict=True) for box in of_frame]
        if not cut:
            return boxes, [np.zeros((0, 5, 2), np.float32) for _ in frames]
        sure, moved, *rest = (head.numpy() for head in stage(_tensor(cut)))
        points = rest[0] if rest else np.zeros((len(cut), 10), np.float32)
        is_last, ends = bool(rest), np.cumsum([len(of_frame) for of_frame in boxes])[:-1]
        found, places = [], []
        for of_frame, *heads in zip(
            boxes, *(np.split(head, ends) for head in (sure, moved, points)), strict=True
        ):
            passes = heads[0] > threshold
            before, score = of_frame[passes], heads[0][passes]
            after = _moved(before, heads[1][passes])
            kept = best_of_overlapping(after if is_last else before, score, 0.7, of_smaller=is_last)
            inside = heads[2][passes].reshape(-1, 2, 5).transpose(0, 2, 1)
            places.append((before[:, None, :2] + inside * (before[:, 2:] - before[:, :2])[:, None])[kept])
            found.append(after[kept] if is_last else _square(after[kept]))
        return found, places


def _tensor(images: list[Frame]) -> torch.Tensor:
    return (torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() - 127.5) / 128


def _best(boxes: Floats, scores: Floats) -> Floats:
    return boxes[best_of_overlapping(boxes, scores, 0.7)]


def _moved(boxes: Floats, by: Floats) -> Floats:
    """Boxes whose edges are moved by shares of their width and height."""
    sides = boxes[:, 2:] - boxes[:, :2]
    return np.asarray(boxes + by * np.concatenate([sides, sides], axis=1), np.float32)


def _square(boxes: Floats) -> Floats:
    centre, half = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]).max(axis=1, initial=0) / 2
    return np.concatenate([centre - half[:, None], centre + half[:, None]], axis=1)


def _cut(frame: Frame, box: Floats, pixels: int) -> Frame:
    """What lies in a box, as far as it lies in the frame."""
    height, width = frame.shape[:2]
    left, top, right, bottom = (int(edge) for edge in box)
    left, top = min(max(left, 0), width - 1), min(max(top, 0), height - 1)
    inside = frame[top : max(bottom, top + 1), left : max(right, left + 1)]
    return np.asarray(cv2.resize(inside, (pixels, pixels), interpolation=cv2.INTER_AREA))


def _largest(boxes: Floats, points: Floats) -> Face | None:
    if not len(boxes):
        return None
    number = int(np.argmax(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)))
    return Face(boxes[number], points[number, :2])

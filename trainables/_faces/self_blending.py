"""Fakes out of the real: a face blended with a moved, recoloured copy of itself, inside a hull.

Self-blended images, Shiohara & Yamasaki, 2022, https://arxiv.org/abs/2204.08376. What a face swap leaves
behind (an edge, two lights, features out of place) is there, and nothing else tells the two apart.

Image by image on the CPU: OpenCV takes 0.26 ms for a fake, a whole batch of the same in PyTorch 3.4 ms an
image on the same core. Albumentations, which comes behind it, takes 0.23.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Image = npt.NDArray[np.uint8]
    """RGB [pixels, pixels, 3]."""
    Floats = npt.NDArray[np.float32]

INNER = np.array(
    [
        *(70, 63, 105, 66, 107, 336, 296, 334, 293, 300),  # brows, from left to right
        *(33, 263, 98, 327, 1),  # outer corners of the eyes, nose
        *(61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),  # lower edge of the lips
    ]
)
"""Landmarks of the mesh around which lies what a swap replaces at least: brows, eyes, nose and mouth."""
MOVED = (0.015, 0.04)
"""How far the copy is moved, by the side of the image."""
RATIOS = (0.5, 0.75, 1.0, 1.0)
"""How much of the copy shows."""


def blended(face: Image, landmarks: Floats, hull: Floats, random: np.random.Generator) -> Image:
    """A fake of a face.

    Args:
        landmarks: [468, 2], x and y in pixels.
        hull: [n, 2], its corners in order.
        random: what is drawn from it decides all.
    """
    mask = soft_mask(landmarks, hull, len(face), random) * np.float32(random.choice(RATIOS))
    return blend(face, copy_of(face, random), mask)


def blend(face: Image, copy: Image, mask: Floats) -> Image:
    """The copy where the mask [pixels, pixels] is 1, the face where it is 0."""
    return np.asarray(cv2.blendLinear(copy, face, mask, 1 - mask), np.uint8)


def soft_mask(landmarks: Floats, hull: Floats, pixels: int, random: np.random.Generator) -> Floats:
    """The hull of the face or of its inner part, bent, larger or smaller, its edge softened; 0..1."""
    corners = hull if random.random() < 0.5 else cv2.convexHull(landmarks[INNER])[:, 0]
    centre = corners.mean(axis=0)
    around = np.arctan2(*(corners - centre).T)
    waves = sum(random.uniform(-0.05, 0.05) * np.sin(n * around + random.uniform(0, 6.28)) for n in (1, 2, 3))
    bent = centre + (corners - centre) * (random.uniform(0.85, 1.05) + waves)[:, None]
    mask = np.zeros((pixels, pixels), np.float32)
    cv2.fillPoly(mask, [np.round(bent).astype(np.int32)], (1.0,))
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), pixels * random.uniform(0.01, 0.06)))


def copy_of(face: Image, random: np.random.Generator) -> Image:
    """The face in another light and sharpness, moved a little."""
    light, gamma = random.uniform(0.88, 1.12, 3), random.uniform(0.85, 1.18)
    table = 255 * light * (np.arange(256)[:, None] / 255) ** gamma + random.uniform(-8, 8, 3)
    copy = cv2.LUT(face, np.clip(table, 0, 255).astype(np.uint8)[None])
    if random.random() < 0.5:
        copy = cv2.GaussianBlur(copy, (0, 0), len(face) * random.uniform(0.004, 0.01))
    scale, way = random.uniform(0.96, 1.04), random.uniform(0, 6.28)
    by = len(face) * random.uniform(*MOVED) * np.array([np.cos(way), np.sin(way)])
    to = np.array([[scale, 0, 0], [0, scale, 0]])
    to[:, 2] = by + len(face) / 2 * (1 - scale)
    return np.asarray(cv2.warpAffine(copy, to, face.shape[:2], borderMode=cv2.BORDER_REFLECT), np.uint8)


@cache
def augmentation(strength: float) -> Any:
    """What Albumentations does with both, real and fake.

    Args:
        strength: 0 = nothing but mirroring, 1 = as is usual for the task.
    """
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # else importing it asks the internet
    import albumentations

    if strength == 0:
        return albumentations.Compose([albumentations.HorizontalFlip(p=0.5)])
    most, shifts = 0.2 * strength, [round(by * strength) for by in (10, 20, 10)]
    return albumentations.Compose(
        [
            albumentations.HorizontalFlip(p=0.5),
            albumentations.RandomBrightnessContrast((-most, most), (-most, most), p=0.5),
            albumentations.HueSaturationValue(*((-by, by) for by in shifts), p=0.3),
            albumentations.ImageCompression(quality_range=(round(100 - 40 * strength), 100), p=0.5),
            albumentations.GaussNoise(std_range=(0.0, 0.03 * strength), p=0.2),
        ]
    )

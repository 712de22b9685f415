"""Fashion-MNIST: 60,000 training and 10,000 test images of 28x28, 10 classes, 31 MB (MIT licence).

`python -m trainables._shared.fashion_mnist` makes sure that it is here: a folder named by the user, the
Debian package, or a download. Xiao et al., 2017, https://arxiv.org/abs/1708.07747
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.training import atomic_write, cache_dir, data_dir

if TYPE_CHECKING:
    import torch

    from trainables._shared.tensor_loader import Rows

VARIABLE = "SWEEPS_DATA_DIR"
PACKAGE = "dataset-fashion-mnist"
PACKAGE_FOLDER = Path("/usr/share/datasets/fashion-mnist")
DOWNLOAD_FOLDER = cache_dir() / "fashion-mnist"
"""Of the user, not beside this file: that may be an installed package, or a copy that Ray brought here."""
UPSTREAM = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
PIXELS = 28
"""Side of an image."""
ALL_ROWS = 50_000
TEST_ROWS = 10_000
HELD_OUT_ROWS = 10_000
"""Rows at the end of the training images that validation is drawn from."""

# sha256 of the unpacked content: the Debian package and the upstream pack the same bytes anew.
SHA256 = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def check_rows(rows: int) -> None:
    """Refuse a hyperparameter `rows` that is out of range.

    Raises:
        ValueError: it is.
    """
    if not 0 <= rows <= ALL_ROWS:
        raise ValueError(f"rows {rows}: from 0 (= all) to {ALL_ROWS:,}")


SIZES = {
    "train-images-idx3-ubyte.gz": 16 + 60_000 * 28 * 28,
    "train-labels-idx1-ubyte.gz": 8 + 60_000,
    "t10k-images-idx3-ubyte.gz": 16 + 10_000 * 28 * 28,
    "t10k-labels-idx1-ubyte.gz": 8 + 10_000,
}
"""Bytes of the content of each file."""


def train_rows(rows: int) -> int:
    """Images that a hyperparameter `rows` trains on; 0 = all."""
    return rows or ALL_ROWS


def val_rows(rows: int) -> int:
    """Images that validate: a third as many as train, from 1 to 10,000."""
    return min(max(train_rows(rows) // 3, 1), 10_000)


def describe(rows: int) -> str:
    """One line for the plan."""
    return (
        f"Fashion-MNIST in {find()}: {train_rows(rows):,} rows to train on, "
        f"{val_rows(rows):,} to validate, {TEST_ROWS:,} to test"
    )


def find() -> Path:
    """The folder that holds the four files.

    Raises:
        FileNotFoundError: with the ways to get them.
    """
    if folder := data_dir():
        missing = [name for name in SHA256 if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                _ways(f"is not in {folder} (--data-dir or ${VARIABLE}), which lacks {', '.join(missing)}")
            )
        return _whole(folder)
    for folder in (PACKAGE_FOLDER, DOWNLOAD_FOLDER):
        if all((folder / name).is_file() for name in SHA256):
            return _whole(folder)
    raise FileNotFoundError(_ways("is not on this machine"))


def _whole(folder: Path) -> Path:
    """The folder, if no file was cut off: a gzip file ends with the size of its content."""
    for name, size in SIZES.items():
        with (folder / name).open("rb") as file:
            file.seek(max(0, (folder / name).stat().st_size - 4))
            end = file.read()
        if end != size.to_bytes(4, "little"):
            raise FileNotFoundError(_ways(f"is damaged: {folder / name} is cut off; remove it"))
    return folder


@cache
def rows(part: str, count: int) -> Rows:
    """Images [count, 1, 28, 28] as bytes and labels [count], loaded once per process.

    Args:
        part: "train" (the first 50,000), "val" (the last 10,000 training images) or "test".
        count: the first so many rows of the part.
    """
    prefix = "t10k" if part == "test" else "train"
    images = _read(f"{prefix}-images-idx3-ubyte.gz", header=16).reshape(-1, 1, 28, 28)
    labels = _read(f"{prefix}-labels-idx1-ubyte.gz", header=8)
    start = len(labels) - HELD_OUT_ROWS if part == "val" else 0
    cut = slice(start, start + count)
    return images[cut], labels[cut].long()


def fetch() -> Path:
    """Find the files, or get them: by apt where root may, else by download.

    Raises:
        FileNotFoundError: with the ways to get them by hand.
        ValueError: a file is not what it should be.
    """
    try:
        folder = find()
    except FileNotFoundError:
        if data_dir():
            raise
        folder = PACKAGE_FOLDER if _apt_install() else _download()
    for name, expected in SHA256.items():
        actual = hashlib.sha256(gzip.decompress((folder / name).read_bytes())).hexdigest()
        if actual != expected:
            raise ValueError(f"{folder / name}: sha256 of its content is {actual}, not {expected}")
    return folder


def _apt_install() -> bool:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    print(f"Fashion-MNIST: installing the Debian package {PACKAGE} (31 MB)", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", PACKAGE]):
        subprocess.run(["apt-get", *command], env=environment, check=False, capture_output=True)
    return all((PACKAGE_FOLDER / name).is_file() for name in SHA256)


def _download() -> Path:
    DOWNLOAD_FOLDER.mkdir(parents=True, exist_ok=True)
    for name in SHA256:
        target = DOWNLOAD_FOLDER / name
        print(f"Fashion-MNIST: downloading {name}", flush=True)
        try:
            with urllib.request.urlopen(UPSTREAM + name, timeout=60) as source:
                content = source.read()
        except (urllib.error.URLError, OSError) as error:
            raise FileNotFoundError(_ways(f"could not be downloaded ({error})")) from None
        with atomic_write(target) as part:
            part.write_bytes(content)
    return DOWNLOAD_FOLDER


def _read(name: str, header: int) -> torch.Tensor:
    import torch

    with gzip.open(find() / name) as packed:
        return torch.frombuffer(bytearray(packed.read()[header:]), dtype=torch.uint8)


def _ways(failure: str) -> str:
    return (
        f"Fashion-MNIST {failure}. One of:\n"
        f"  apt-get install {PACKAGE}            (Debian or Ubuntu, as root)\n"
        f"  python -m trainables._shared.fashion_mnist            (downloads 31 MB from {UPSTREAM})\n"
        f"  --data-dir FOLDER or {VARIABLE}=FOLDER    (a folder with {', '.join(SHA256)})"
    )


if __name__ == "__main__":
    try:
        print(f"Fashion-MNIST: {fetch()}")
    except (FileNotFoundError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None

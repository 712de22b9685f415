"""The PC of the first worker, whose folder no other one sees."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from sweeps.storage.folder_copy import Original
from sweeps.training.checkpoints import checkpoint_store
from sweeps.trial import worker


class FirstPC:
    """The PC of the first worker: what its relative paths name is visible to its processes alone."""

    def __init__(self, node: str, root: Path) -> None:
        self.node, self.root = node, root

    def original(self, checkpoint: str) -> Original:
        return dataclasses.replace(worker.original_of(self.root / checkpoint), folder=checkpoint)


def checkpoint(first_pc: FirstPC, content: bytes = b"weights") -> Original:
    """A new one, in place of that of the test before."""
    folder = first_pc.root / "sent" / "epoch_0001"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "weights.pt").write_bytes(content)
    checkpoint_store.seal(folder)
    return first_pc.original("sent/epoch_0001")

"""What one arm of a benchmark is asked to do, as a file between processes."""

from __future__ import annotations

import dataclasses
import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODULES = {
    "cnn": "benchmarks.digits_cnn",
    "cnn_long": "benchmarks.digits_cnn_long",
    "mlp": "trainables.digits_mlp",
    "trivial": "benchmarks.trivial",
}
JOB_FILE = "job.json"


@dataclass(frozen=True, kw_only=True)
class Job:
    """The same sweep for every arm."""

    model: str
    """Of MODULES."""
    trials: list[dict[str, Any]]
    """The params of each trial."""
    epochs: list[int]
    """Epochs that the sweep trained of each trial: what the floors train."""
    seed: int
    max_epochs: int
    grace_epochs: int
    reduction_factor: int
    workers: int
    accelerator: str = "cpu"
    """What Lightning trains on: cpu or gpu; `workers` trials then share the GPU."""
    folder: str
    """Of the arm: what it writes, and in which it tells what it trained."""

    def write(self) -> None:
        (Path(self.folder) / JOB_FILE).write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls, folder: str) -> Job:
        return cls(**json.loads((Path(folder) / JOB_FILE).read_text()))

    def module(self) -> Any:
        """The trainable."""
        return importlib.import_module(MODULES[self.model])

    def tell(self, epochs: dict[int, int], worker: int = 0) -> None:
        """Write the epochs that a worker trained, of each trial."""
        (Path(self.folder) / f"epochs_{worker}.json").write_text(json.dumps(epochs))

    @property
    def gpus(self) -> float:
        """Of a trial."""
        return 1 / self.workers if self.accelerator == "gpu" else 0.0

    def told(self) -> int:
        """Epochs that all workers trained."""
        files = Path(self.folder).glob("epochs_*.json")
        return sum(sum(json.loads(file.read_text()).values()) for file in files)

    def share(self, worker: int) -> list[int]:
        """The trials of a worker when all epochs are known: the longest first, each to the least laden."""
        laden = [0] * self.workers
        shares: list[list[int]] = [[] for _ in laden]
        for number in sorted(range(len(self.trials)), key=lambda number: -self.epochs[number]):
            least = laden.index(min(laden))
            laden[least] += self.epochs[number]
            shares[least].append(number)
        return shares[worker]

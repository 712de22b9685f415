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
    "fashion_files": "benchmarks.fashion_files",
    "faces": "trainables.faces",
}
JOB_FILE = "job.json"
MARKS_FILE = "marks.json"
"""Of a process that trains configurations one after another: when each began, and each of its epochs."""
RAW = "raw"


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
    data: str = ""
    """The folder of prepared rows; RAW: the files as they are; "": the trainable needs neither."""
    precision: str = "32-true"
    threads: int | None = 1
    """PyTorch's, of each worker; None: as many as it takes by itself."""

    def write(self) -> None:
        (Path(self.folder) / JOB_FILE).write_text(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def read(cls, folder: str) -> Job:
        return cls(**json.loads((Path(folder) / JOB_FILE).read_text()))

    def module(self) -> Any:
        """The trainable."""
        return importlib.import_module(MODULES[self.model])

    def build_data(self, params: Any) -> Any:
        """The data module for the trainable's Params."""
        module = self.module()
        if self.data == RAW:
            return module.build_raw_data(params, params.loader_workers)
        return module.build_data(params, Path(self.data)) if self.data else module.build_data(params)

    def tell(self, epochs: dict[int, int], worker: int = 0, best: float | None = None) -> None:
        """Write the epochs that a worker trained, of each trial, and the best score of them all."""
        (Path(self.folder) / f"epochs_{worker}.json").write_text(json.dumps(epochs))
        if best is not None:
            (Path(self.folder) / f"best_{worker}.json").write_text(json.dumps(best))

    @property
    def gpus(self) -> float:
        """Of a trial."""
        return 1 / self.workers if self.accelerator == "gpu" else 0.0

    def told(self) -> int:
        """Epochs that all workers trained."""
        files = Path(self.folder).glob("epochs_*.json")
        return sum(sum(json.loads(file.read_text()).values()) for file in files)

    def told_best(self) -> float:
        """The best score of all workers."""
        return max(float(json.loads(file.read_text())) for file in Path(self.folder).glob("best_*.json"))

    def share(self, worker: int) -> list[int]:
        """The trials of a worker when all epochs are known: the longest first, each to the least laden."""
        laden = [0] * self.workers
        shares: list[list[int]] = [[] for _ in laden]
        for number in sorted(range(len(self.trials)), key=lambda number: -self.epochs[number]):
            least = laden.index(min(laden))
            laden[least] += self.epochs[number]
            shares[least].append(number)
        return shares[worker]

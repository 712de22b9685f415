"""A trainable that replays predicted learning curves of MLPs on 23 tabular tasks: LCBench by YAHPO Gym.

The network that predicts them (Pfisterer et al., 2022, https://arxiv.org/abs/2109.03670; data of Zimmer et
al., 2021, https://arxiv.org/abs/2006.13799) is `data/lcbench.onnx`, Apache-2.0. `data/lcbench_tasks.json`
names two sets of tasks: to_fit, by which constants of a search may be chosen, and to_check, by which none is.

`python -m benchmarks.lcbench` writes the best accuracy of 20,000 random points of each task there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from benchmarks._replayed import Replay
    from benchmarks.trivial import OneBatch

METRIC, MODE = "val_acc", "max"
DATA = Path(__file__).parent / "data"
EPOCHS = 52
SECONDS = 1.0
"""Of each epoch."""
NAMES = (
    "batch_size", "learning_rate", "momentum", "weight_decay", "num_layers", "max_units", "max_dropout"
)  # fmt: skip
"""In the order of the network's inputs, behind the epoch."""
RANDOM_POINTS = 20_000


@dataclass(frozen=True, kw_only=True)
class Params:
    """With the defaults of Auto-PyTorch, which trained the networks (LCBench names none):
    https://github.com/automl/Auto-PyTorch, autoPyTorch/pipeline/components, SGDOptimizer.py,
    ShapedMLPBackbone.py, base_data_loader.py. Its momentum of 0, its weight decay of 0 and no dropout are the
    nearest values at which networks were trained."""

    batch_size: int = 64
    learning_rate: float = 1e-2
    momentum: float = 0.1
    weight_decay: float = 1e-5
    num_layers: int = 5
    max_units: int = 200
    max_dropout: float = 0.0
    task: str = "7593"
    """Number of the task at OpenML."""
    pace: float = 0.0
    """Seconds that an epoch takes here."""


def build_model(params: Params) -> Replay:
    from benchmarks._replayed import Replay  # here, not above: the clock needs Params alone

    return Replay(scores(params.task, vars(params)), (params.pace,) * EPOCHS)


def build_data(params: Params) -> OneBatch:
    from benchmarks.trivial import OneBatch

    return OneBatch()


@cache
def tasks() -> dict[str, Any]:
    """to_fit and to_check: number of each task to its code; best: number to the best accuracy, 0 to 1."""
    return dict(json.loads((DATA / "lcbench_tasks.json").read_text()))


def scores(task: str, params: Mapping[str, Any]) -> tuple[float, ...]:
    """Validation accuracy, 0 to 1, after each epoch."""
    row = [float(params[name]) for name in NAMES]
    inputs = np.array([[epoch, *row] for epoch in range(1, EPOCHS + 1)], np.float32)
    return tuple(float(score) for score in _predicted(task, inputs))


def _predicted(task: str, inputs: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    code = {**tasks()["to_fit"], **tasks()["to_check"]}[task]
    codes = np.full((len(inputs), 1), code, np.int32)
    (percents,) = _network().run(None, {"x_cat": codes, "x_cont": inputs})
    accuracy: npt.NDArray[np.float64] = np.clip(percents[:, 1].astype(np.float64) / 100, 0, 1)
    return accuracy


@cache
def _network() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(DATA / "lcbench.onnx"), options)


def main() -> None:
    """Write the best accuracy of each task."""
    from benchmarks.lcbench_space import SPACE

    np.random.seed(0)
    best = {}
    for task in (*tasks()["to_fit"], *tasks()["to_check"]):
        points = np.array([[EPOCHS, *(SPACE[n].sample() for n in NAMES)] for _ in range(RANDOM_POINTS)])
        best[task] = round(float(_predicted(task, points.astype(np.float32)).max()), 5)
        print(f"task {task}: {best[task]:.3f}", flush=True)
    content = {"to_fit": tasks()["to_fit"], "to_check": tasks()["to_check"], "best": best}
    (DATA / "lcbench_tasks.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Asks the engine of W&B Sweeps: a line of JSON for each question on standard input, and for each answer.

It runs apart, as `_wandb` starts it: the engine's package has the name of this program.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> None:
    import numpy as np

    engine: Any = importlib.import_module("sweeps")
    config: dict[str, Any] = {}
    runs: list[Any] = []
    for line in sys.stdin:
        question = json.loads(line)
        if question is None:
            run = engine.next_run(config, runs)
            run.name, run.state = str(len(runs)), engine.RunState.running
            runs.append(run)
            _answer({name: value["value"] for name, value in run.config.items()})
        elif "config" in question:
            config, runs = question["config"], []
            np.random.seed(question["seed"])
            _answer("ready")
        else:
            run = runs[question["number"]]
            run.history.append({config["metric"]["name"]: question["score"]})
            if question["is_last"]:
                run.state = engine.RunState.finished
            stopped = engine.stop_runs(config, runs)
            for run in stopped:
                run.state = engine.RunState.finished
            _answer([int(run.name) for run in stopped])


def _answer(content: Any) -> None:
    print(json.dumps(content, default=lambda value: value.item()), flush=True)


if __name__ == "__main__":
    main()

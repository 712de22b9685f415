"""What the driver spends on the record, a proposal and the tables, by the number of trials that it knows."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

TRAINABLE, SPACE = "benchmarks.trivial", "benchmarks.trivial_space"
WORKERS, EPOCHS = 2, 2
PROPOSALS = 10
"""Over which the cost of one is taken."""


def driver_costs(trials: int) -> dict[str, Any]:
    """ms that the driver spends on the record, a proposal and the tables when it knows so many trials."""
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.execution.output.folder_files import write_tables
    from sweeps.plan import build as planning
    from sweeps.record.record import Record

    costs: dict[str, Any] = {"trials": trials}
    with tempfile.TemporaryDirectory(prefix="scale-") as base:
        for searcher in ("random", "tpe", "gp"):
            config = SweepConfig.from_settings(
                trainable=TRAINABLE, search_space=SPACE, searcher=searcher, num_trials=trials + PROPOSALS + 1,
                max_epochs=EPOCHS, grace_epochs=1, results_dir=base, name=searcher,
            )  # fmt: skip
            plan = planning.make_plan(config)
            folder = Path(base) / searcher
            folder.mkdir()
            record = Record.create(folder, searcher, "max", {"metric": "score"})
            costs["record_ms_per_trial"] = _fill(record, trials, plan.space)
            chosen = plan.searcher.build(plan.config, plan.space, record)
            chosen.slots = PROPOSALS + 1
            chosen.suggest("first")  # it imports, and reads what is known
            began = time.perf_counter()
            for number in range(PROPOSALS):
                chosen.suggest(str(number))
            costs[f"{searcher}_ms"] = _ms_since(began) / PROPOSALS
            began = time.perf_counter()
            write_tables(record, folder)
            costs["tables_ms"] = _ms_since(began)
    return costs


def usual_tables(trials: int) -> dict[str, Any]:
    """What the tables of a usual sweep cost, of so many trials that are pruned by halving."""
    from sweeps.execution.driver import tune_callback
    from sweeps.execution.output.folder_files import write_tables
    from sweeps.record.record import Record
    from sweeps.space.point import OptunaPoint, Point
    from sweeps.training.time_breakdown import COSTS

    with tempfile.TemporaryDirectory(prefix="scale-") as base:
        record = Record.create(Path(base), "usual", "max", {"metric": "m0"})
        with record.together():
            for number in range(trials):
                params = {f"p{place}": number + 0.1 * place for place in range(8)}
                record.begin(Point(TRAINABLE, params, {"rows": 0}), OptunaPoint(), 0)
                for epoch in range(1, (27 if number % 9 == 0 else 9 if number % 3 == 0 else 3) + 1):
                    metrics = {f"m{place}": number + 0.1 * place for place in range(5)}
                    record.report(number, epoch, metrics["m0"], metrics, 1.5, dict.fromkeys(COSTS, 1.5))
                record.end(number, "pruned")
        began = time.perf_counter()
        write_tables(record, Path(base))
        cost_s = time.perf_counter() - began
    pause_s = max(tune_callback.TABLES_EVERY_S, cost_s / tune_callback.TABLES_SHARE)
    return {"trials": trials, "tables_ms": 1000 * cost_s, "tables_percent": 100 * cost_s / (cost_s + pause_s)}


def _fill(record: Any, trials: int, space: Any) -> float:
    """Trials as a sweep records them; ms of each."""
    from sweeps.space.optuna_space import optuna_point
    from sweeps.space.point import Point

    began = time.perf_counter()
    for number in range(trials):
        x = (number * 0.6180339887) % 1  # spread evenly, none twice
        point = Point(TRAINABLE, {"x": x})
        record.begin(point, optuna_point(space, point), 0)
        record.place(number, {"pc": "pc", "pid": number % WORKERS, "gpu": ""})
        for epoch in range(1, 2 + (number % 3 == 0)):
            record.report(number, epoch, x, {"score": x}, 0.01)
        record.end(number, "finished" if number % 3 == 0 else "pruned")
    return _ms_since(began) / trials


def _ms_since(began: float) -> float:
    return 1000 * (time.perf_counter() - began)

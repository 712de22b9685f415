"""Prepared data of a sweep: one data set for each way that its space asks for, made before its trials."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.run_context import job_of
from sweeps.kinds import registry
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.fingerprint import changes, identity
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from tests.support.clips import Clips


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clips]:
    clips = Clips(tmp_path, f"clips_in_{tmp_path.name}")
    for name in ("a", "b"):
        clips.add(name)
    clips.add("v", split="val")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(clips.raw))
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(clips.prepared))
    return clips


def plan_of(clips: Clips, space: str = "", **more: Any) -> Plan:
    """Of a sweep over the space; "" is the project's, of two values of `pixels`."""
    if space:
        clips.code("space.py", f"from ray import tune\n\n{space}\n")
    return make_plan(
        SweepConfig.from_settings(
            trainable=clips.model,
            search_space=f"{clips.package}.space",
            results_dir=str(clips.home),
            gpus_per_trial=0,
            min_free_gb=0.0,
            **{"searcher": "random", **more},
        )
    )


def pixels_of(plan: Plan) -> list[object]:
    return [each.hyperparameters["pixels"] for each in plan.models[0].prepared]


SUGGEST = "def suggest(trial):\n    trial.suggest_float('lr', 0.1, 1)\n    {}"


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ("", [2, 3]),
        ("SPACE = {'lr': tune.uniform(0.1, 1)}", [4]),
        ("SPACE = {'pixels': tune.randint(2, 5)}", [2, 3, 4]),
        ("SPACE = {'pixels': tune.qrandint(2, 6, 2)}", [2, 4, 6]),
        (SUGGEST.format("trial.suggest_int('batch_size', 8, 9)"), [4]),
        (SUGGEST.format("trial.suggest_int('pixels', 2, 6, step=2)"), [2, 4, 6]),
        (SUGGEST.format("trial.suggest_categorical('pixels', [3, 2])"), [3, 2]),
        (
            "def suggest(trial):\n    if trial.suggest_float('lr', 0.1, 1) > 0.5:\n"
            "        trial.suggest_categorical('pixels', [3, 2])",
            [3, 2, 4],
        ),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_there_is_a_data_set_for_each_way_that_the_space_can_give(
    space: str, expected: list[int], clips: Clips
) -> None:
    plan = plan_of(clips, space)
    assert pixels_of(plan) == expected
    assert len({each.folder for each in plan.models[0].prepared}) == len(expected)
    trainable = registry.find(clips.model)
    job = job_of(plan)
    for number in range(20):  # whatever is drawn finds its folder
        point = plan.space.draw((0, number))
        params = trainable.params_class(**point.fixed, **point.params)
        folder = job.data_of(trainable, params)
        assert folder == next(
            each.folder for each in plan.models[0].prepared if each.hyperparameters["pixels"] == params.pixels
        )


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (
            "SPACE = {'pixels': tune.randint(1, 18)}",
            r"pixels: data is prepared for each .* more than 16 combinations",
        ),
        (
            "SPACE = {'pixels': tune.sample_from(lambda _: 3)}",
            r"pixels: .* it has endlessly many values. Give",
        ),
        (
            SUGGEST.format("trial.suggest_int('pixels', 1, 40)"),
            "more than 16 combinations. Give fewer values",
        ),
        (
            "def suggest(trial):\n    trial.suggest_int('pixels', 1, trial.suggest_int('batch_size', 2, 5))",
            "pixels: .* it changes its range from point to point. Give a choice",
        ),
    ],
)
def test_too_many_ways_are_refused_in_the_plan(space: str, expected: str, clips: Clips) -> None:
    with pytest.raises(UserError, match=expected):
        plan_of(clips, space)


def test_missing_raw_files_are_refused_in_the_plan(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_DATA_DIR", "/nowhere")
    with pytest.raises(UserError, match="no clips here; --data-dir FOLDER, or ask your librarian"):
        plan_of(clips)


def test_a_hyperparameter_that_is_fixed_is_one_way(clips: Clips) -> None:
    plan = plan_of(clips, "SPACE = {'lr': tune.choice([0.1, 0.2])}", params={"pixels": 5})
    assert pixels_of(plan) == [5]


def test_the_plan_says_what_is_to_be_prepared(clips: Clips) -> None:
    size = sum(path.stat().st_size for path in clips.raw.rglob("*.json"))
    files = f"3 raw files of {size} B in {clips.raw}"
    assert f"data       to be prepared in 2 of 2 ways, for each pixels: {files}\n" in describe(plan_of(clips))


def test_the_plan_of_one_way_says_it_in_short(clips: Clips) -> None:
    said = describe(plan_of(clips, "SPACE = {'lr': tune.choice([0.1, 0.2])}"))
    assert f"data       {plan_of(clips).models[0].prepared[0].describe()}\n" in said
    assert "data       to be prepared: 3 raw files of " in said


def test_a_resume_notices_other_raw_data(clips: Clips) -> None:
    before = identity(plan_of(clips))
    assert changes(before, identity(plan_of(clips))) == []
    clips.add("c")
    assert [line.split(":")[0] for line in changes(before, identity(plan_of(clips)))] == [
        "prepared data, pixels=2",
        "prepared data, pixels=3",
    ]


def test_a_trainable_without_preparation_has_none(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(
        trainable="digits_mlp", results_dir=str(tmp_path), gpus_per_trial=0, min_free_gb=0.0
    )
    plan = make_plan(config)
    assert plan.models[0].prepared == ()


@pytest.mark.long
def test_a_sweep_prepares_each_way_once_before_its_trials(clips: Clips) -> None:
    arguments = (
        *("--trainable", clips.model, "--search-space", f"{clips.package}.space", "--searcher", "grid"),
        *(
            "--max-epochs",
            "2",
            "--scheduler",
            "none",
            "--no-ray-dashboard",
            "--no-preflight",
            "--name",
            "first",
        ),
    )
    clips.code("space.py", "from ray import tune\n\nSPACE = {'pixels': tune.choice([2, 3])}\n")
    clips.add("t", split="test")
    said = clips.run(*arguments, module="sweeps.run")
    before, _ = re.split(r"\ntrials \d/2 ended", said, maxsplit=1)
    assert "Preparing model (pixels=3)" in before
    record = Record.read(clips.home / "results" / "first")
    assert {trial.params["pixels"] for trial in record.trials} == {2, 3}
    assert [trial.status for trial in record.trials] == ["finished"] * 2
    assert "test_loss" in said
    assert sorted(clips.calls()) == sorted(["a", "b", "v", "t"] * 2)

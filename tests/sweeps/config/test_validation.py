"""The values of a config, each named with what it must be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.config.validation import check

SETTINGS = SweepConfig.settings()


def test_the_defaults_have_no_fault() -> None:
    assert check(SweepConfig()) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"num_trials": 0}, "--num-trials 0: must be at least 1"),
        ({"seed": -1}, "--seed -1: must be at least 0 and at most 4,294,967,295"),
        ({"refine": "s", "refine_keep": 1.5}, "--refine-keep 1.5: must be above 0 and at most 1"),
        ({"reduction_factor": 1}, "--reduction-factor 1: must be at least 2"),
        ({"gpus_per_trial": -0.5}, "--gpus-per-trial -0.5: must be at least 0"),
        ({"gpus_per_trial": 1.5}, "--gpus-per-trial 1.5: must be a whole number, or a share of one GPU"),
        ({"grace_epochs": 28}, "--grace-epochs 28: the first rung is after the last epoch. Give at most"),
        ({"time_budget_hours": 0.0}, "--time-budget-hours 0: must be above 0"),
        ({"keep_checkpoints": 0}, "--keep-checkpoints 0: must be at least 1"),
        ({"keep_checkpoints": "many"}, "--keep-checkpoints many: must be a number of trials, at least 1"),
        ({"keep_checkpoints": "20GiB"}, "--keep-checkpoints 20GiB: must be a number of trials, at least 1"),
        ({"keep_checkpoints": "0GB"}, "--keep-checkpoints 0GB: must be a number of trials, at least 1"),
        ({"min_free_gb": -0.5}, "--min-free-gb -0.5: must be at least 0"),
        ({"force": True}, "--force needs --resume"),
        ({"time_budget_hours": math.nan}, "--time-budget-hours nan: must be above 0"),
        ({"trainable": []}, "--trainable: give at least one"),
        ({"trainable": ["a", "b", "a"]}, "--trainable a b a: a name is given twice"),
        ({"trainable": "a,b"}, "--trainable a,b: separate names by spaces: a b"),
        (
            {"trainable": ["a", "b"], "search_space": "s"},
            "--search-space s: give as many as there are trainables (2), in the order a, b; or none",
        ),
        (
            {"trainable": "a", "search_space": ["s", "t"]},
            "--search-space s t: give as many as there are trainables (1), in the order a; or none",
        ),
        ({"name": "../up"}, "--name '../up': give at most 100 letters"),
        ({"name": ".hidden"}, "--name '.hidden': give at most 100 letters"),
        ({"name": ""}, "--name '': give at most 100 letters"),
        ({"name": "größe"}, "--name 'größe': give at most 100 letters (a-z, A-Z), digits"),
        ({"command": "t $HOME/o"}, "--command 't $HOME/o': $HOME/o: variables are of a shell: give bash -c"),
        ({"command": "t --out=$O {lr}"}, "--command 't --out=$O {lr}': --out=$O: variables are of a shell"),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_what_it_must_be(change: dict[str, Any], fault: str) -> None:
    (found,) = check(SweepConfig().changed(**change))
    assert found.startswith(fault)


def test_all_faults_are_found_at_once() -> None:
    config = SweepConfig.from_settings(
        num_trials=0, seed=-1, max_failures=-1, name="a/b", time_budget_hours=-1.0
    )
    assert [fault.split()[0] for fault in check(config)] == [
        "--seed",
        "--num-trials",
        "--time-budget-hours",
        "--max-failures",
        "--name",
    ]


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if each.least is not None])
def test_the_least_value_is_allowed(name: str) -> None:
    own = {name: SETTINGS[name].least}
    config = SweepConfig.from_settings(max_epochs=1, grace_epochs=1, confirm=1, queue=True).changed(**own)
    assert check(config) == []


def test_a_first_rung_behind_the_end_is_refused_where_it_was_typed() -> None:
    """The default is not: shorter trials are just not pruned. A file of settings holds the default, too."""
    short = SweepConfig.from_settings(max_epochs=2)
    assert check(short) == []
    assert check(short, typed={"max_epochs"}) == []
    (fault,) = check(short, typed={"max_epochs", "grace_epochs"})
    assert fault.startswith("--grace-epochs 3: the first rung is after the last epoch. Give at most --max-ep")
    assert check(short.changed(scheduler="none"), typed={"grace_epochs"}) == []
    assert check(short.changed(resume="results/s"), typed={"grace_epochs"}) == []


@pytest.mark.parametrize(
    "given",
    [
        {"command": "bash -c '$PYTHON train.py --lr {lr}'"},
        {"command": "python train.py 'cost in $' a$b {lr}"},
        {"command": "ssh pc '$HOME/bin/python train.py --lr {lr}'"},
        {"command": "bash -c '$TRAIN'"},
        {"command": "python 'train.py"},
        {"command": "python train.py $HOME/out", "resume": "results/s"},
    ],
)
def test_a_variable_is_for_a_shell_and_a_sweep_that_has_begun_with_one_goes_on(given: dict[str, Any]) -> None:
    assert check(SweepConfig().changed(**given)) == []


@pytest.mark.parametrize("keep", [5, "500 MB", "20GB", "1.5tb"])
def test_checkpoints_are_kept_by_number_or_by_size(keep: int | str) -> None:
    assert check(SweepConfig.from_settings(keep_checkpoints=keep)) == []


def test_a_sweep_that_is_resumed_may_have_any_name_and_be_forced() -> None:
    assert (
        check(SweepConfig.from_settings(resume="results/my sweep (old)", name="my sweep (old)", force=True))
        == []
    )


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        (
            {"metric": ["a:max", "b:min", "c:min", "d:max"]},
            ["--metric a:max b:min c:min d:max: 4 objectives; give at most 3"],
        ),
        (
            {"metric": ["a", "b:min"]},
            ["--metric a: its mode is missing; with several objectives give a:max or a:min"],
        ),
        (
            {"metric": ["a:maxx", "b"]},
            ["--metric a:maxx: 'maxx' is no mode. Did you mean 'max'? Give a:max", "--metric b: its mode"],
        ),
        ({"metric": ["a:max", "a:min"]}, ["--metric a:max a:min: a is given twice"]),
        ({"metric": ["a:max", "b:min"], "mode": "max"}, ["--mode max: with several objectives each has"]),
        ({"metric": "a:max", "mode": "min"}, ["--metric a:max: contradicts --mode min; give one of them"]),
        ({"metric": []}, ["--metric: give at least one"]),
        ({"metric": ""}, ["--metric: give at least one"]),
        ({"metric": "a:mx"}, ["--metric a:mx: 'mx' is no mode. Did you mean 'max'? Give a:max"]),
        ({"metric": "val:acc"}, []),
        ({"metric": "a:max"}, []),
        ({"metric": "a:b"}, []),
        ({"metric": ["a:max", "b:min", "c:max"]}, []),
    ],
)  # fmt: skip
def test_objectives_are_two_or_three_metrics_each_with_its_mode(
    change: dict[str, Any], faults: list[str]
) -> None:
    found = check(SweepConfig().changed(**change))
    assert len(found) == len(faults)
    assert all(one.startswith(expected) for one, expected in zip(found, faults, strict=True))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            "params_m=5",
            '--constraint params_m=5: give METRIC, one of <=, <, >=, >, and a number, in quotes: "',
        ),
        (["a<=5", "a>=6"], "--constraint a>=6 a<=5: no value meets both"),
        (["a<5", "a>=5"], "--constraint a>=5 a<5: no value meets both"),
        (["a<=5", "a>=5", "b>=9"], None),
    ],
)
def test_a_constraint_is_a_metric_a_relation_and_a_number(given: Any, fault: str | None) -> None:
    found = check(SweepConfig().changed(constraint=given))
    assert [one[: len(fault or "")] for one in found] == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("notify_on", "faults"),
    [
        ("best,failed", []),
        (["best", "failed,half", "end"], []),
        ("bst", ["--notify-on bst: no such event. Did you mean 'best'? Choices: best, failed, half, end"]),
        ("best,never", ["--notify-on never: no such event. Choices: best, failed, half, end"]),
        ([], ["--notify-on: give at least one of best, failed, half, end"]),
        ("", ["--notify-on: give at least one of best, failed, half, end"]),
    ],
)
def test_notices_are_of_events_that_there_are(notify_on: str | list[str], faults: list[str]) -> None:
    config = SweepConfig.from_settings(notify_on=notify_on, notify_command="true")
    assert check(config) == faults


def test_events_of_notices_need_a_command() -> None:
    assert check(SweepConfig.from_settings(notify_on="best")) == ["--notify-on needs --notify-command"]

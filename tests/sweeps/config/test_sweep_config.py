"""SweepConfig: a doc for each field, YAML that reads back, and all its faults at once."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.config import cli
from sweeps.config.sweep_config import COMMAND_ONLY, YAML_KEYS, SweepConfig, flag, to_yaml
from sweeps.training.config import FitConfig

SETTINGS = SweepConfig.settings()
FIELDS = list(SETTINGS)

CHANGED = SweepConfig.from_settings(
    name="again",
    trainable="my_project.model",
    search_space="fashion_cnn_grid",
    params={"rows": 0, "lr": 0.5, "activation": "relu", "bias": False},
    ranges={"momentum": "0.1..0.5", "width": [4, 8], "activation": ["relu", "true"], "dropout": 0.2},
    freeze={"act": "relu"},
    precision="32",
    strategy="deepspeed_stage_1",
    compile=True,
    searcher="random",
    num_trials=7,
    prior={"lr": "0.01:2", "activation": "relu"},
    baseline=False,
    tries=[{"width": 4, "momentum": 0.1}, {"width": 8, "activation": "true"}],
    metric="val_loss",
    constraint="val_acc>=0.5",
    mode="min",
    seed=5,
    scheduler="none",
    max_epochs=81,
    epoch_steps=500,
    check_val_every_n_epoch=2,
    val_check_interval=0.5,
    grace_epochs=2,
    reduction_factor=4,
    workers_per_trial=2,
    cpus_per_trial=2,
    gpus_per_trial=0.5,
    max_concurrent=3,
    share=2.0,
    time_budget_hours=1.5,
    target=0.95,
    patience=20,
    max_gpu_hours=40.0,
    address="10.0.0.1:6379",
    data="shared",
    trials_per_gpu=2,
    gpu_memory_gb_per_trial=7.5,
    memory_gb_per_trial=3.0,
    max_failures=2,
    checkpoint_epochs=4,
    confirm=2,
    confirm_top=5,
    keep_checkpoints=3,
    storage="sftp://head/srv/sweeps",
    min_free_gb=0.25,
    stop_grace=5.0,
    keep_going=True,
    epoch_timeout_minutes=90.0,
    preflight=False,
    resume="results/again",
    lr_schedule="restart",
    force=True,
    retry=["failed", "7"],
    refine=["results/one", "results/two"],
    refine_keep=0.5,
    results_dir="/tmp/elsewhere",
    dashboard=True,
    ray_dashboard=False,
    tags=["night", "v2"],
    loggers=["tensorboard", "mlflow"],
    notify_command='mail -s "$SWEEP_TEXT: ended" me',
    notify_on=["best", "failed"],
    dry_run=True,
    submit=True,
    queue=True,
    priority=5,
    beside=True,
)


def read_back(config: SweepConfig, folder: Path) -> SweepConfig:
    (folder / "sweep.yaml").write_text(to_yaml(config))
    return cli.parse(["--config", str(folder / "sweep.yaml")])


def test_every_field_has_a_doc() -> None:
    assert list(SweepConfig.settings()) == FIELDS
    assert [each for each in SweepConfig.settings().values() if not each.doc.endswith(".")] == []


def test_every_field_has_a_title_and_fields_of_a_title_stand_together() -> None:
    titles = [each.group for each in SETTINGS.values()]
    assert all(titles)
    assert [title for title, _ in itertools.groupby(titles)] == list(dict.fromkeys(titles))


def test_what_a_trial_is_trained_by_is_a_setting_and_held_once() -> None:
    own = {field.name for field in dataclasses.fields(SweepConfig)}
    assert set(SweepConfig.OF_FIT) <= {field.name for field in dataclasses.fields(FitConfig)} - own
    config = SweepConfig.from_settings(precision="32", seed=3, num_trials=5)
    assert config == SweepConfig(fit=FitConfig(precision="32", seed=3), num_trials=5)
    changed = config.changed(seed=4, num_trials=6)
    assert (changed.fit.seed, changed.fit.precision, changed.num_trials) == (4, "32", 6)
    assert list(changed.flat()) == FIELDS


def test_this_test_changes_every_field() -> None:
    before, after = SweepConfig().flat(), CHANGED.flat()
    in_place_of_a_trainable = ["lightning_cli", "cli_config", "hydra", "hydra_overrides", "command"]
    assert [name for name in FIELDS if before[name] == after[name]] == in_place_of_a_trainable


@pytest.mark.parametrize("config", [SweepConfig(), CHANGED], ids=["defaults", "all changed"])
def test_the_yaml_of_a_config_reads_back_as_the_config(config: SweepConfig, tmp_path: Path) -> None:
    of_one_run = {name: getattr(SweepConfig(), name) for name in COMMAND_ONLY}
    assert read_back(config, tmp_path) == config.changed(**of_one_run)


def test_what_differs_from_the_defaults_is_first() -> None:
    first, rest = to_yaml(SweepConfig(num_trials=7, ranges={"lr": "0.1..1"})).split("# == What to train ==")
    assert yaml.safe_load(first) == {"space": {"lr": "0.1..1"}, "num_trials": 7}
    assert "num_trials" not in rest
    assert "# First rung: epochs that a trial trains before it may be pruned.\ngrace_epochs: 3" in rest


def test_what_is_of_one_run_is_not_written_into_the_file_that_every_run_reads() -> None:
    assert {"resume", "retry", "force", "dry_run"} <= COMMAND_ONLY <= set(FIELDS)
    assert set(yaml.safe_load(to_yaml(CHANGED))) == {YAML_KEYS.get(n, n) for n in set(FIELDS) - COMMAND_ONLY}
    assert "Resume" not in to_yaml(CHANGED), "nor a title with nothing below it"


@pytest.mark.parametrize(
    "value", [0, 1, -3, 0.1, 1e-12, 1e300, True, "relu", "32", "true", "null", "a b", ""]
)
def test_a_fixed_hyperparameter_keeps_value_and_type_through_yaml(value: Any, tmp_path: Path) -> None:
    again = read_back(SweepConfig.from_settings(params={"hyperparameter": value}), tmp_path).params[
        "hyperparameter"
    ]
    assert (again, type(again)) == (value, type(value))


SEVERAL = {"trainable": ["net", "my_project.model"], "search_space": ["net_wide", "my_project.space"]}


@pytest.mark.parametrize("several", [SEVERAL, {**SEVERAL, "search_space": None}])
def test_several_trainables_read_back_as_several(several: dict[str, Any], tmp_path: Path) -> None:
    config = SweepConfig.from_settings(**several, params={"my_project.model.lr": 0.5, "rows": 0})
    assert read_back(config, tmp_path) == config
    assert config.trainables == ["net", "my_project.model"]
    assert config.search_spaces == (several["search_space"] or [])


def test_one_trainable_is_one_of_a_list_too() -> None:
    assert (
        SweepConfig.from_settings(trainable="a").trainables,
        SweepConfig.from_settings(search_space="s").search_spaces,
    ) == (
        ["a"],
        ["s"],
    )


@pytest.mark.parametrize("name", ["2024", "true", "a.b"])
def test_a_name_that_looks_like_something_else_reads_back_as_text(name: str, tmp_path: Path) -> None:
    assert read_back(SweepConfig.from_settings(name=name), tmp_path).name == name


def test_the_yaml_has_every_key_once_with_its_meaning_above() -> None:
    text = to_yaml(SweepConfig())
    docs = {
        YAML_KEYS.get(name, name): each.doc for name, each in SETTINGS.items() if name not in COMMAND_ONLY
    }
    assert list(yaml.safe_load(text)) == list(docs)
    lines = text.splitlines()
    for name, doc in docs.items():
        assert lines[next(i for i, line in enumerate(lines) if line.startswith(f"{name}:")) - 1] == f"# {doc}"


def test_a_flag_is_the_field_with_dashes() -> None:
    assert (flag("num_trials"), flag("dashboard"), flag("ray_dashboard")) == (
        "--num-trials",
        "--dashboard",
        "--no-ray-dashboard",
    )


def test_objectives_and_constraints_read_back_as_they_are(tmp_path: Path) -> None:
    config = SweepConfig.from_settings(metric=["acc:max", "size_m:min"], constraint=["size_m<=5", "ms<20"])
    again = read_back(config, tmp_path)
    assert again.objectives == config.objectives
    assert (again.objectives.metrics, again.constraints) == (["acc", "size_m"], ["size_m<=5", "ms<20"])

"""A Hydra project as a trainable: Hydra composes its settings and builds its objects."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import to_yaml
from sweeps.kinds import registry
from sweeps.kinds.projects.hydra import HydraProject, find_programs
from sweeps.plan.describe import describe
from sweeps.plan.fingerprint import changes, identity
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.single_run import run_settings
from tests.support import configured
from tests.sweeps.kinds.swept import enter, planned, trained

pytest.importorskip("hydra", reason="hydra-core is not installed")

RUN = ("--hydra", "configs/train")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(configured.write_hydra(tmp_path), monkeypatch)
    return tmp_path


def test_an_infinite_number_is_one_true_is_none() -> None:
    project: Any = SimpleNamespace(hyperparameters={"model.max_norm": 1.0})
    HydraProject.check(project, {"model.max_norm": math.inf})
    with pytest.raises(ValueError, match=r"model.max_norm: True: must be a number, as 1.0"):
        HydraProject.check(project, {"model.max_norm": True})


def test_its_settings_are_hyperparameters_and_the_trainer_keeps_its_own() -> None:
    plan = planned(
        *RUN, "--ranges", "model.lr=1e-3..1:log", "data.batch_size=32,64", "data.sizes.0=500..1000"
    )
    (model,) = plan.models
    assert list(model.space.describe()) == ["model.lr", "data.batch_size", "data.sizes.0"]
    assert (plan.config.objective.metric, plan.config.objective.mode) == ("val_acc", "max")
    said = " ".join(describe(plan).split())
    assert "trainer kept: gradient_clip_val 0.5, EarlyStopping overruled max_epochs 50: trials are" in said
    assert "ModelCheckpoint: checkpoints are written" in said
    assert "fixed the rest as configs/train.yaml has it" in said


def test_another_process_builds_what_hydra_would_and_computed_settings_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NET_PROJECT_OUT", "elsewhere")
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log")
    monkeypatch.delenv("NET_PROJECT_OUT")
    fit = trained(plan, **{"model.lr": 0.7, "data.classes": 12})
    os.environ.pop("NET_PROJECT_OUT", None)  # as another process has it
    model, data, trainer = fit._model, fit._data, fit._trainer
    loaded: Any = model
    assert (loaded.lr, loaded.hparams.hidden, loaded.hparams.classes) == (0.7, 48, 12)
    assert data.folder == "elsewhere"
    assert trainer is not None
    assert trainer.gradient_clip_val == 0.5
    names = {type(each).__name__ for each in trainer.callbacks}  # type: ignore[attr-defined]
    assert "EarlyStopping" in names
    assert "ModelCheckpoint" not in names
    assert fit.progress.score > 0.5


def test_a_key_that_is_a_number_or_has_a_dot_stays_and_is_in_no_hyperparameter(here: Path) -> None:
    with (here / "configs" / "model" / "net.yaml").open("a") as file:
        file.write("weights: {0: 0.5, layer.1: 2.0}\n")
    weights = {0: 0.5, "layer.1": 2.0}
    (model,) = planned(*RUN, "--ranges", "model.lr=1e-3..1:log").models
    of_it: Any = model.trainable
    assert [name for name in of_it.hyperparameters if "weights" in name] == []
    there: Any = registry.load(of_it.description)
    assert there.tree["model"]["weights"] == weights
    values = {**model.space.fixed, "model.lr": 0.5}
    assert there.tree_with(values)["model"]["weights"] == weights
    (text,) = of_it.export(values, {"max_epochs": 1, "seed": 0}, "best").values()
    assert yaml.safe_load(text)["model"]["weights"] == weights


def test_a_link_to_nothing_is_no_program(here: Path) -> None:
    """As git leaves one into a submodule that is not there."""
    before = find_programs(here / "configs", "train")
    (here / "gone.py").symlink_to(here / "submodule" / "gone.py")
    assert find_programs(here / "configs", "train") == before


def test_its_precision_is_that_of_the_trials_and_its_own_trainer_is_named(here: Path) -> None:
    overrides = ("+trainer.precision=64", "trainer._target_=net_project.model.Careful")
    plan = planned(*RUN, "--hydra-overrides", *overrides, "--ranges", "model.lr=0.1..1")
    assert plan.config.fit.precision == "64"
    assert "Careful: a trial has Lightning's Trainer" in " ".join(describe(plan).split())


@pytest.mark.parametrize(
    ("override", "flags", "found", "expected"),
    [
        ("+trainer.check_val_every_n_epoch=5", (), (5, None), "an epoch 5 passes over the data, then a"),
        ("+trainer.val_check_interval=4", (), (None, 4), "an epoch 4 batches, then a validation"),
        ("+trainer.val_check_interval=4", ("--val-check-interval", "0.5"), (None, 0.5), "0.5 of the"),
        ("+trainer.val_check_interval=4", ("--epoch-steps", "3"), (None, None), "an epoch 3 steps of"),
    ],
)
def test_its_trainer_says_what_an_epoch_is_unless_the_command_does(
    override: str, flags: tuple[str, ...], found: tuple[Any, Any], expected: str
) -> None:
    plan = planned(*RUN, "--hydra-overrides", override, "--ranges", "model.lr=0.1..1", *flags)
    assert (plan.config.fit.check_val_every_n_epoch, plan.config.fit.val_check_interval) == found
    assert expected in " ".join(describe(plan).split())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"check_val_every_n_epoch": 2}, {"max_epochs": 10, "check_val_every_n_epoch": 2}),
        ({"val_check_interval": 0.25}, {"max_epochs": 2, "val_check_interval": 0.25}),
        (
            {"val_check_interval": 4},
            {"max_epochs": -1, "max_steps": 20, "val_check_interval": 4, "check_val_every_n_epoch": None},
        ),
    ],
)
def test_the_exported_file_has_the_epochs_of_the_trial(
    settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    overrides = ("--hydra-overrides", "+trainer.check_val_every_n_epoch=7")
    model = planned(*RUN, *overrides, "--ranges", "model.lr=0.1..1").models[0]
    fit = FitConfig(max_epochs=5, **settings).settings()
    (text,) = model.trainable.export(model.space.fixed, fit, "best").values()
    trainer = yaml.safe_load(text)["trainer"]
    assert trainer.items() >= expected.items()
    assert trainer.get("check_val_every_n_epoch") == expected.get("check_val_every_n_epoch")


def test_overrides_are_fixed_for_all_trials() -> None:
    arguments = (*RUN, "--hydra-overrides", "model.hidden=8", "+trainer.limit_train_batches=2")
    fit = trained(planned(*arguments, "--ranges", "model.lr=0.1..1"))
    model: Any = fit._model
    trainer: Any = fit._trainer
    assert (model.hparams.hidden, trainer.limit_train_batches) == (8, 2)


def test_an_override_may_have_commas_and_colons(here: Path) -> None:
    arguments = ("--hydra-overrides", "data.sizes=[900,300]", "data.folder='s3://bucket/a:b'")
    plan = planned(*RUN, *arguments, "--ranges", "model.lr=0.1..1", "--name", "again")
    (here / "sweep.yaml").write_text(to_yaml(plan.config.changed(name=None)))
    data: Any = trained(planned("--config", "sweep.yaml"))._data
    assert (data.sizes, data.folder) == ([900, 300], "s3://bucket/a:b")


def test_a_folder_alone_means_its_only_or_usual_file() -> None:
    assert planned("--hydra", "configs", "--ranges", "model.lr=0.1..1").models[0].space.describe()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--hydra", "configs/trane"), "has no trane.yaml. Did you mean 'train'"),
        (("--hydra", "nowhere/train"), "--hydra nowhere/train: no such folder"),
        (
            (*RUN, "--hydra-overrides", "modle=x"),
            "--hydra-overrides modle=x: ConfigCompositionException: .*modle",
        ),
        ((*RUN, "--params", "model=net"), "--params model: a config group; fix it by --hydra-overrides"),
        ((*RUN, "--hydra-overrides", "++datamodule=cpu"), "datamodule is 'cpu', and must be a section"),
        (
            (*RUN, "--hydra-overrides", "~model"),
            r"no section of model with a _target_: .* --command 'python PROGRAM.py \{args_no_hyphens\}'",
        ),
        (
            (*RUN, "--hydra-overrides", "model._target_=net_project.modle.Net"),
            "model._target_ net_project.modle.Net: .*No module named 'net_project.modle'",
        ),
        (
            (*RUN, "--ranges", "model.lrr=0.1..1"),
            "--ranges model.lrr: no such hyperparameter. Did you mean 'model.lr'",
        ),
        ((*RUN, "--ranges", "model.lr=a,b"), "model.lr=a,b: 'a': must be a number"),
        (
            (*RUN, "--ranges", "data.batch_size=a,b"),
            "data.batch_size: 'a': must be a number, as 64 in the settings",
        ),
        (
            (*RUN, "--ranges", "model.classes=2,3"),
            r"computed from other settings, as \$\{data.classes\}; give one",
        ),
        ((*RUN, "--ranges", "trainer.max_epochs=2,3"), "the sweep sets it: .* give --max-epochs"),
        ((*RUN, "--ranges", "seed=2,3"), "--ranges seed: the sweep sets it: give --seed"),
        (
            (*RUN, "--ranges", "callbacks.best.mode=min,max"),
            "it can't be taken, in place of this callback",
        ),
        (
            (*RUN, "--ranges", "callbacks.early=a,b"),
            "--ranges callbacks.early: a section; give one of its settings",
        ),
        ((*RUN, "--lightning-cli", "x"), "--lightning-cli can't be combined with --hydra"),
        (("--hydra-overrides", "x=1"), "--hydra-overrides needs --hydra"),
        ((*RUN, "--search-space", "a", "b"), "--search-space a b: give as many as there are trainables"),
    ],
)
def test_what_can_not_be_swept_is_told_before_anything_starts(
    arguments: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        planned(*arguments)


def test_without_hydra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hydra", None)  # as if it were not there
    with pytest.raises(
        UserError, match=r"hydra is not installed: \S+ -m pip install 'raysweeps\[projects\]'"
    ):
        planned(*RUN, "--ranges", "model.lr=0.1..1")


def test_a_change_of_the_settings_or_of_the_code_is_found(here: Path) -> None:
    arguments = (*RUN, "--ranges", "model.lr=1e-3..1:log")
    before = identity(planned(*arguments))
    assert {"net_project/model.py", "net_project/data.py"} <= before["code"].keys()
    (here / "configs" / "model" / "net.yaml").write_text(
        configured.HYDRA["configs/model/net.yaml"].replace("48", "50")
    )
    assert changes(before, identity(planned(*arguments))) == ["configs/train.yaml: its content"]


@pytest.mark.slow
def test_the_program_of_the_project_trains_with_the_exported_file(here: Path) -> None:
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log")
    values = {**plan.models[0].space.fixed, "model.lr": 0.25}
    fit = FitConfig(max_epochs=2, seed=11, epoch_steps=4).settings()
    ((name, text),) = plan.models[0].trainable.export(values, fit, "results/s/best").items()
    assert "--config-dir results/s/best --config-name best" in text
    (here / "results" / "s" / "best").mkdir(parents=True)
    (here / "results" / "s" / "best" / name).write_text(text)
    words = ["train.py", "--config-dir", "results/s/best", "--config-name", "best"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "lr 0.25 val_acc" in done.stdout


def test_a_single_run_takes_settings_that_are_in_no_section() -> None:
    run, _ = run_settings.parse(["hydra:configs/train", "--task-name", "again", "--params", "model.lr=0.5"])
    assert run.params == {"task_name": "again", "model.lr": 0.5}


OWN_PROGRAM = """
import os

import hydra
from hydra.core.config_store import ConfigStore
from lightning.pytorch import seed_everything
from omegaconf import OmegaConf

ConfigStore.instance().store(group="optimizer", name="stored", node={"lr": 0.5})


@hydra.main(version_base=None, config_path="../configs", config_name="own")
def main(config):
    print("words of the program")
    seed_everything(3)
    os.chdir("/")
    config.model.hidden = 2 * config.width
    data = hydra.utils.instantiate(config.data)
    config.model.classes = data.classes + 2
    try:
        model = hydra.utils.instantiate(config.model, act="tanh")
        raise AssertionError("it goes on")
    except Exception as error:
        raise SystemExit(f"words of its own: {error}")


if __name__ == "__main__":
    OmegaConf.register_new_resolver("half", lambda number: number / 2)
    main()
"""
OWN_SETTINGS = """
defaults: [_self_, optimizer: stored]
width: 4
cwd: ${hydra:runtime.cwd}
model: {_target_: net_project.model.Net, lr: "${half:${optimizer.lr}}", hidden: 1, act: relu, classes: "???"}
data: {_target_: net_project.data.Counted, batch_size: 64, classes: 10, sizes: [1000, 400], folder: "${cwd}"}
"""
OWN = ("--metric", "val_acc", "--mode", "max", "--ranges", "optimizer.lr=0.1..1", "width=4,8")


@pytest.fixture
def own(here: Path) -> Path:
    """A project whose program does a part of the work: stored configs, a resolver, computed values."""
    (here / "src").mkdir()
    (here / "src" / "own.py").write_text(OWN_PROGRAM)
    (here / "configs" / "own.yaml").write_text(OWN_SETTINGS)
    return here


@pytest.mark.parametrize("given", ["configs/own", "src/own.py"])
def test_what_the_program_provides_is_there(
    own: Path, given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned("--hydra", given, *OWN)
    assert "src.own: run in each trial until it has built the model" in describe(plan)
    assert "words of the program" not in capsys.readouterr().out
    assert "src/own.py" in identity(plan)["code"]
    assert Path.cwd() == own
    monkeypatch.chdir("/")
    for _ in range(2):  # in one process, as trials are
        fit = trained(plan, **{"optimizer.lr": 0.8, "width": 8})
        model: Any = fit._model
        data: Any = fit._data
        assert (model.lr, model.hparams.hidden, model.hparams.classes, model.hparams.act) == (
            0.4, 16, 12, "tanh",
        )  # fmt: skip
        assert data.folder == str(own)


def test_it_runs_once_for_a_plan(own: Path) -> None:
    note = f"def main(config):\n    open({str(own / 'runs')!r}, 'a').write('1')\n"
    (own / "src" / "own.py").write_text(OWN_PROGRAM.replace("def main(config):\n", note))
    planned("--hydra", "src/own.py", *OWN)
    assert (own / "runs").read_text() == "1"


def test_the_seed_is_that_of_the_trial_and_not_of_the_program(own: Path) -> None:
    trainable = planned("--hydra", "src/own.py", *OWN).models[0].trainable
    weights = []
    for seed in (1, 2, 1):
        fit = Fit(
            trainable,
            trainable.params_class(),
            FitConfig(max_epochs=1, metric="val_acc", mode="max", seed=seed),
        )
        weights.append(float(next(fit._model.parameters()).detach().sum()))
    assert weights[0] == weights[2] != weights[1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--hydra", "src/own.py", *OWN, "model.hidden=2,4"), "--ranges model.hidden: src.own sets it"),
        (("--hydra", "src/none.py", *OWN), "--hydra src/none.py: no such file"),
        (("--hydra", "net_project/nothing.py", *OWN), "python -m net_project.nothing ends before it"),
    ],
)
def test_what_a_program_does_not_provide_is_told_before_anything_starts(
    own: Path, arguments: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        planned(*arguments)


def test_a_reference_that_nobody_resolves_is_told_before_anything_starts(own: Path) -> None:
    (own / "src" / "own.py").unlink()
    (own / "configs" / "own.yaml").write_text(OWN_SETTINGS.replace("optimizer: stored", "optimizer: here"))
    (own / "configs" / "optimizer").mkdir()
    (own / "configs" / "optimizer" / "here.yaml").write_text("lr: 0.5")
    arguments = ("--hydra", "configs/own", *OWN)
    with pytest.raises(UserError, match=r"model\.lr: Unsupported interpolation type none_has"):
        planned(*arguments, "--hydra-overrides", "model.lr='${none_has:1}'")


def test_one_of_several_programs_is_to_be_given(own: Path) -> None:
    (own / "src" / "other.py").write_text(OWN_PROGRAM)
    (own / "src" / "unlike.py").write_text(OWN_PROGRAM.replace('"own"', '"train"'))
    several = "not run, since there are several: src/other.py, src/own.py; give one, as --hydra src/other"
    with pytest.raises(UserError, match=several):
        planned("--hydra", "configs/own", *OWN, "--hydra-overrides", "model.lr='${none_has:1}'")


def test_a_program_that_fails_is_left_out_where_nothing_needs_it(own: Path) -> None:
    (own / "train.py").write_text("raise ValueError('today')\n" + (own / "train.py").read_text())
    said = " ".join(describe(planned(*RUN, "--ranges", "model.lr=0.1..1")).split())
    assert "program not run: python -m train ends before it instantiates anything: ValueError: today" in said


@pytest.mark.parametrize(
    "words", [("--hydra", "train.py"), (*RUN, "--hydra-overrides", "model._target_=apart.Net")]
)
def test_a_package_in_src_that_python_does_not_find_is_named_with_what_to_do(
    words: tuple[str, ...], here: Path
) -> None:
    (here / "src" / "apart").mkdir(parents=True)
    (here / "src" / "apart" / "__init__.py").touch()
    if words[1] == "train.py":
        (here / "train.py").write_text("import apart\n" + (here / "train.py").read_text())
    with pytest.raises(UserError, match="It is in src/: install your project, or set PYTHONPATH=src"):
        planned(*words)

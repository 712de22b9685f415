"""Config groups of a Hydra project in a range: each option with the settings that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.common.errors import UserError
from sweeps.config import plugins as config_plugins
from sweeps.config.sweep_config import to_yaml
from sweeps.plan.describe import describe
from sweeps.plan.fingerprint import changes, identity
from sweeps.space.composite import GroupSpace
from sweeps.space.flat import FlatSpace
from sweeps.space.user_points import user_point
from sweeps.training.config import FitConfig
from sweeps.training.single_run import run_settings
from tests.support import configured
from tests.sweeps.kinds.swept import enter, planned, trained

pytest.importorskip("hydra", reason="hydra-core is not installed")

RUN = ("--hydra", "configs/train")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configured.write_hydra_groups(tmp_path)
    enter(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.slow
def test_a_range_belongs_to_the_options_that_have_it() -> None:
    ranges = (
        "model=net,mlp",
        "optimizer=adam,sgd",
        "optimizer.lr=1e-3..1:log",
        "optimizer.momentum=0.5,0.9",
    )
    plan = planned(*RUN, "--ranges", *ranges, "model.width=8..32", "model.lr=0.1..1")
    space = plan.models[0].space
    assert space.describe() == {
        "model": "one of net, mlp",
        "optimizer": "one of adam, sgd",
        "optimizer.lr": "0.001 to 1, log scale",
        "optimizer.momentum": "one of 0.5, 0.9, with optimizer=sgd",
        "model.width": "8 to 32, whole numbers, with model=mlp",
        "model.lr": "0.1 to 1",
    }
    for number in range(40):
        params = plan.space.draw((0, number)).params
        assert ("model.width" in params) == (params["model"] == "mlp")
        assert ("optimizer.momentum" in params) == (params["optimizer"] == "sgd")
        assert "optimizer.lr" in params
    (own,) = plan.baselines
    assert own.point is not None
    named = {"model": "net", "optimizer": "adam", "optimizer.lr": 0.001, "model.lr": 0.1}
    assert (own.point.params, own.outside) == (named, [])


@pytest.mark.slow
def test_a_trial_has_the_model_of_its_option_and_the_rest_as_the_option_has_it() -> None:
    plan = planned(*RUN, "--ranges", "model=net,mlp", "optimizer=adam,sgd", "model.width=8..32")
    mlp: Any = trained(plan, model="mlp", optimizer="sgd", **{"model.width": 12})._model
    assert (type(mlp).__name__, mlp.net[0].out_features, mlp.lr) == ("Mlp", 12, 0.2)
    assert mlp.configure_optimizers().defaults["momentum"] == 0.9
    net: Any = trained(plan, model="net", optimizer="adam")._model
    assert (type(net).__name__, net.net[0].out_features, net.lr) == ("Net", 48, 0.1)


def test_ranges_that_all_options_have_make_a_flat_space() -> None:
    plan = planned(*RUN, "--ranges", "optimizer=sgd,adam", "model.lr=0.1,1", "--searcher", "grid")
    assert isinstance(plan.space, FlatSpace)
    assert plan.space.size() == 4
    (own,) = plan.baselines
    assert own.point is not None
    assert own.point.params == {"optimizer": "adam", "model.lr": 0.1}, "as the project has it by itself"


@pytest.mark.slow
def test_a_grid_lists_the_settings_of_each_option_once() -> None:
    plan = planned(*RUN, "--ranges", "model=net,mlp", "model.width=8,16,32", "--searcher", "grid")
    assert isinstance(plan.space, GroupSpace)
    assert [dict(point.params) for point in plan.space.grid()] == [
        {"model": "net"},
        *({"model": "mlp", "model.width": width} for width in (8, 16, 32)),
    ]
    assert plan.config.num_trials == 4
    many = planned(*RUN, "--ranges", "model=net,mlp", "model.width=1..60000")
    assert many.space.size() == 60_001, "and not of all combinations of values"


@pytest.mark.slow
def test_a_group_may_change_other_sections_and_be_in_no_defaults() -> None:
    plan = planned(*RUN, "--ranges", "experiment=small,large", "model.lr=0.1..1")
    model: Any = trained(plan, experiment="large")._model
    assert model.hparams.hidden == 64


@pytest.mark.slow
def test_the_settings_of_a_sweep_take_other_options(here: Path) -> None:
    plan = planned(*RUN, "--ranges", "model=net,mlp", "model.width=8..32", "--name", "first")
    (here / "sweep.yaml").write_text(to_yaml(plan.config.changed(name=None)))
    assert planned("--config", "sweep.yaml").config.trainable == plan.config.trainable
    other = planned("--config", "sweep.yaml", "--ranges", "model=cnn,mlp")
    assert other.models[0].space.describe()["model"] == "one of cnn, mlp"
    one = planned("--config", "sweep.yaml", "--ranges", "model=mlp")
    assert one.space.draw((0, 0)).params.keys() == {"model.width"}


def test_one_option_is_fixed() -> None:
    plan = planned(*RUN, "--ranges", "model=mlp", "model.width=8..32")
    assert isinstance(plan.space, FlatSpace)
    assert "model=mlp" in plan.models[0].name


def test_the_exported_file_and_a_single_run_have_the_options() -> None:
    model = planned(*RUN, "--ranges", "model=net,mlp", "model.width=8..32").models[0]
    values = {**model.space.fixed, "model": "mlp", "model.width": 20}
    (text,) = model.trainable.export(values, FitConfig(max_epochs=2).settings(), "best").values()
    assert yaml.safe_load(text)["model"].items() >= {"_target_": "net_project.model.Mlp", "width": 20}.items()
    run, _ = run_settings.parse([model.name, "--params", "model=mlp", "model.width=20"])
    assert run.params == {"model": "mlp", "model.width": 20}


def test_a_trial_of_ones_own_has_the_settings_of_its_option() -> None:
    space = planned(*RUN, "--ranges", "model=net,mlp", "model.width=8..32").space
    assert dict(user_point(space, {"model": "net"}).params) == {"model": "net"}
    with pytest.raises(UserError, match=r"model\.width: no hyperparameter of this trial"):
        user_point(space, {"model": "net", "model.width": 9})


@pytest.mark.slow
def test_a_change_of_any_option_is_found(here: Path) -> None:
    arguments = (*RUN, "--ranges", "model=net,mlp", "model.width=8..32")
    before = identity(planned(*arguments))
    file = here / "configs" / "model" / "mlp.yaml"
    file.write_text(file.read_text().replace("lr: 0.2", "lr: 0.3"))
    assert changes(before, identity(planned(*arguments))) == ["configs/train.yaml: its content"]


def test_a_fixed_value_is_shown_with_the_options_that_have_it() -> None:
    arguments = (*RUN, "--ranges", "model=net,mlp", "model.lr=0.1..1", "--params", "model.width=4")
    assert "model.width=4 with model=mlp, the rest" in " ".join(describe(planned(*arguments)).split())


def test_the_plan_shows_the_options() -> None:
    said = " ".join(describe(planned(*RUN, "--ranges", "model=net,mlp", "model.width=8..32")).split())
    assert "model one of net, mlp model.width 8 to 32, whole numbers, with model=mlp" in said


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (("model=net,mpl",), "the config group model has no mpl. Did you mean 'mlp'. Options: cnn, mlp, net"),
        (("modle=net,mlp",), "--ranges modle: no such hyperparameter or config group. Did you mean 'model'"),
        (("optimzer=adam,sgd",), "--ranges optimzer: .* config group. Did you mean 'optimizer'"),
        (("model=net,net",), "an option is given twice"),
        (("model=1..3",), "model is a config group, of which options can be given: cnn, mlp, net"),
        (("model=net,mlp", "model.widht=8..9"), "--ranges model.widht: .* Did you mean 'model.width'"),
        (
            ("model=net,mlp", "model.width=8..9", "--searcher", "bohb"),
            "--ranges model.width: searcher bohb can't take a space whose",
        ),
    ],
)
def test_faults_are_named(ranges: tuple[str, ...], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        planned(*RUN, "--ranges", *ranges)


def test_a_resume_takes_options_that_the_sweep_has_and_no_new_one() -> None:
    config = planned(*RUN, "--ranges", "model=cnn,mlp", "model.lr=0.1..1").config.changed(resume="first")
    (own,) = planned(*RUN, "--ranges", "model=cnn,mlp", "model.lr=0.1..1").baselines
    assert own.why_not == "the project by itself has model=net, which is no option of this sweep"
    one = config_plugins.named(config.with_ranges({"model": "mlp"}))
    assert one.trainable == config.trainable
    for ranges, why in {
        "net,mlp": "the sweep began with cnn, mlp, .* To try net, start .* --ranges model=cnn,mlp,net",
        "net": "the sweep began with cnn, mlp, ",
    }.items():
        with pytest.raises(UserError, match=f"^--ranges model={ranges}: {why}"):
            config_plugins.named(config.with_ranges({"model": ranges}))
    with pytest.raises(UserError, match="optimizer=sgd,adam: the sweep has no range of optimizer, "):
        config_plugins.named(config.with_ranges({"optimizer": "sgd,adam"}))


def write_trainers(here: Path, half: str) -> None:
    """Two options of the group `trainer`, of which one has other settings."""
    text = (here / "configs" / "trainer" / "default.yaml").read_text()
    (here / "configs" / "trainer" / "half.yaml").write_text(f"{text}{half}")


@pytest.mark.slow
def test_options_with_other_validations_or_precisions_are_refused(here: Path) -> None:
    write_trainers(here, "check_val_every_n_epoch: 3\nprecision: 64-true\n")
    arguments = (*RUN, "--ranges", "trainer=default,half", "model.lr=0.1..1")
    expected = "trainer=half has precision 64, check_val_every_n_epoch 3. .*--check-val-every-n-epoch 1"
    with pytest.raises(UserError, match=expected):
        planned(*arguments)
    plan = planned(*arguments, "--check-val-every-n-epoch", "2", "--precision", "32")
    assert (plan.config.fit.check_val_every_n_epoch, plan.config.fit.precision) == (2, "32")
    run, trainable = run_settings.parse([plan.models[0].name, "--params", "trainer=half"])
    fit = run.fit_config(trainable)
    assert (fit.check_val_every_n_epoch, fit.precision) == (3, "64")


@pytest.mark.slow
def test_a_nested_group_and_options_named_by_digits(here: Path) -> None:
    for name, hidden in {"1": 8, "2": 24}.items():
        file = here / "configs" / "extra" / "norm" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# @package _global_\nmodel: {{hidden: {hidden}}}\n")
    plan = planned(*RUN, "--ranges", "extra/norm=1,2", "model.lr=0.1..1")
    values = plan.space.draw((0, 0)).params
    assert values["extra.norm"] in (1, 2, "1", "2")
    assert [each.why_not for each in plan.baselines] == ["the project by itself has no option of extra.norm"]
    model: Any = trained(plan, **{"extra.norm": 2})._model
    assert model.hparams.hidden == 24


@pytest.mark.slow
def test_options_that_monitor_different_metrics_name_none(here: Path) -> None:
    other = "best:\n  _target_: lightning.pytorch.callbacks.ModelCheckpoint\n  monitor: val_loss\n  mode: min"
    (here / "configs" / "callbacks" / "other.yaml").write_text(other)
    arguments = (*RUN, "--ranges", "callbacks=default,other", "model.lr=0.1..1")
    with pytest.raises(UserError, match="give the metric by which trials are compared"):
        planned(*arguments)
    assert planned(*arguments, "--metric", "val_loss:min").config.metric == "val_loss"

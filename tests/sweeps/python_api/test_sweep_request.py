"""A call of `sweeps.run`: its keywords, its space, and what it trains."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightning.pytorch import LightningDataModule, LightningModule
from ray import tune

from sweeps.common import project
from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.param_types import build_params
from sweeps.config import cli
from sweeps.config.sweep_config import to_yaml
from sweeps.kinds import pickled, registry
from sweeps.plan.build import make_plan
from sweeps.python_api import sweep_process
from sweeps.python_api.sweep_process import config_of, with_names_of
from sweeps.python_api.sweep_request import as_keywords, request_of
from sweeps.space import flat
from sweeps.space.domain import converted

SPACE = {"lr": "1e-4..1e-1:log"}


def train(params: Any, trial: Any) -> None:
    trial.report({"val_acc": params.lr}, save=print)


class Net(LightningModule):
    def __init__(self, lr: float, width=8, *, batch_size=32, act: type = str, **others) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.given = {"lr": lr, "width": width, "batch_size": batch_size, "act": act, **others}


class Data(LightningDataModule):
    def __init__(self, batch_size: int = 64) -> None:
        super().__init__()
        self.batch_size = batch_size


def test_a_hyperparameter_is_frozen_as_by_the_flag(tmp_path: Path) -> None:
    request = request_of(train, {**SPACE, "width": [8, 16]}, None, {"freeze": {"lr": np.float64(0.03)}})
    config = cli.checked({**request.settings, "trainable": "tests.faulty.toy"})
    assert config.ranges == {"lr": [0.03], "width": [8, 16]}
    assert "freeze" not in to_yaml(config)
    wrong = {"trainable": "tests.faulty.toy", "search_space": "tests.faulty.slopes", "freeze": {"slope": "x"}}
    with pytest.raises(UserError) as found:
        make_plan(cli.checked(wrong))
    assert str(found.value) == "--freeze slope=x: must be one number: the space has a range for it"
    assert as_keywords(str(found.value)).startswith("freeze slope=x: must be one number")


def test_numbers_of_numpy_are_taken_as_those_of_python() -> None:
    one, point = {"width": np.int64(8)}, {"lr": np.float64(0.5), "width": np.int64(8)}
    settings = request_of(train, SPACE, None, {"params": one, "tries": (point,)}).settings
    config = cli.checked({**settings, "trainable": "tests.faulty.toy"})
    assert "width: 8" in to_yaml(config)
    assert config.tries == [{"lr": 0.5, "width": 8}]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"num_trails": 3}, "num_trails: no such keyword of sweeps.run. Did you mean 'num_trials'?"),
        ({"ranges": SPACE}, "ranges: no such keyword of sweeps.run. Give space."),
        ({"num_trials": "many"}, "num_trials many: must be a whole number"),
        ({"params": ["lr"]}, "params: give values by name, such as {'width': 16}"),
        ({"tries": ["lr=0.1"]}, "tries: give values by name, such as [{'lr': 0.1, 'width': 16}]"),
        ({"tries": "lr=0.1"}, "tries: give values by name, such as [{'lr': 0.1, 'width': 16}]"),
    ],
)
def test_each_wrong_keyword_is_told(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError) as found:
        request_of(train, SPACE, None, {**given, "sercher": "gp"})
    assert str(found.value).splitlines() == [
        fault,
        "sercher: no such keyword of sweeps.run. Did you mean 'searcher'?",
    ]


@pytest.mark.parametrize("wrong", [3, Net(0.1), lambda params: None, dict])
def test_what_can_not_be_trained_is_told(wrong: Any) -> None:
    with pytest.raises(UserError, match=r"give a function train\(params, trial\), a class of Lightning"):
        request_of(wrong, SPACE, None, {})


def test_messages_name_keywords_and_leave_commands_as_they_are_typed() -> None:
    assert as_keywords("--num-trials 0: must be at least 1") == "num_trials 0: must be at least 1"
    assert as_keywords("resume anyway with --force (noted)") == "resume anyway with force=True (noted)"
    assert as_keywords("--ranges lr=1; --no-preflight") == "space lr=1; preflight=False"
    command = "to continue that sweep: sweeps run --resume results/a --force"
    again = "to continue that sweep: sweeps.run(..., resume='a', force=True)"
    assert as_keywords(f"--name a: {command}; give another --name") == f"name a: {again}; give another name"
    assert as_keywords("sweeps run --config a/sweep.yaml") == "sweeps run --config a/sweep.yaml"
    chosen = "--queue waits, --gpus 1,2 uses others, --beside runs beside it"
    assert as_keywords(chosen) == 'queue=True waits, gpus="1,2" uses others, beside=True runs beside it'
    assert as_keywords("--their-own flag") == "--their-own flag"


@pytest.mark.parametrize(
    "domain",
    [
        tune.uniform(0, 1), tune.loguniform(1e-4, 1e-1), tune.quniform(0, 1, 0.25), tune.randint(1, 9),
        tune.lograndint(1, 100), tune.qrandint(8, 64, 8), tune.choice([16, 32]), tune.choice(["a..b", "c"]),
        tune.choice([True, None, 0.5]),
    ],
)  # fmt: skip
def test_a_domain_of_tune_stays_the_same_as_text(domain: Any) -> None:
    request = request_of(train, {"x": domain}, None, {})
    assert request.pickled is not None
    params = pickled.made(request.pickled).params_class
    forms: Any = frozenset({"finite", "continuous"})
    space = flat.check({}, params, {}, forms, "gp", ranges=request.settings["ranges"])
    assert space.domains["x"].exactly == converted(domain).exactly


@pytest.mark.parametrize("domain", [tune.randn(), tune.sample_from(lambda: 1), object()])
def test_a_domain_without_such_a_form_is_told(domain: Any) -> None:
    with pytest.raises(UserError, match=r"^space: x: "):
        request_of(train, {"x": domain}, None, {})


@pytest.mark.parametrize("given", [range(8, 17, 8), {8, 16}, np.array([8, 16]), [np.int64(8), 16], (8, 16)])
def test_choices_are_taken_in_each_form(given: Any) -> None:
    settings = request_of(train, {"x": given, "lr": np.float32(0.5)}, None, {}).settings
    assert settings["ranges"] == {"x": [8, 16], "lr": 0.5}
    assert type(settings["ranges"]["lr"]) is float


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("1e-4-1e-1", r"for a range give '1e-4\.\.1e-1'"),
        ("8-64:8", r"for a range give '8\.\.64:8'"),
        ((0.1, 1), r"for a range give '0.1\.\.1', for two choices \[0.1, 1\]"),
        (object(), r"; give '1e-4\.\.1e-1:log', a list of choices, one value or a domain"),
    ],
)
def test_what_may_be_meant_as_a_range_is_asked(given: Any, told: str) -> None:
    with pytest.raises(UserError, match=f"^space: x: .*{told}"):
        request_of(train, {"x": given}, None, {})


@pytest.mark.parametrize(
    ("space", "given"),
    [
        ({"x": [len, max]}, {}),
        (SPACE, {"params": {"x": len}}),
        (SPACE, {"tries": [{"lr": 0.1, "x": len}]}),
    ],
)
def test_a_value_that_is_no_text_and_no_number_is_told(space: Any, given: dict[str, Any]) -> None:
    with pytest.raises(
        UserError, match=r"^(space|params|tries): x: a hyperparameter's value is a number, text,"
    ):
        request_of(train, space, None, given)


@pytest.mark.parametrize("name", ["opt.lr", "my lr", "class", 1])
def test_a_name_that_is_none_for_python_is_told(name: Any) -> None:
    with pytest.raises(UserError, match=f"^space: {name!r} is no name of a hyperparameter, such as lr$"):
        request_of(train, {name: [1, 2]}, None, {})


@pytest.mark.parametrize(("folder", "named"), [("results/first", "first"), ("elsewhere/first",) * 2])
def test_an_interrupted_sweep_is_named_as_it_is_found(
    folder: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Interrupted(sweep_process._Process):
        def run(self) -> int:
            self.folder = folder
            return 130

    monkeypatch.chdir(tmp_path)
    Path(folder).mkdir(parents=True)
    Path(folder, project.JOURNAL).touch()
    monkeypatch.setattr(sweep_process, "_Process", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep_process.run(train, SPACE, None, {"name": "first"})
    assert f"sweeps.run(..., resume={named!r}) goes on" in capsys.readouterr().out


@pytest.mark.slow  # another process
def test_sweeps_run_can_be_called_behind_an_import_of_its_module() -> None:
    code = (
        "import sweeps; from sweeps.run import main\n"
        "try: sweeps.run(None, space=3)\nexcept sweeps.UserError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("space: give a dict")


def test_the_program_of_a_lightning_cli_is_a_trainable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text("from lightning.pytorch.cli import LightningCLI\nLightningCLI()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["script.py"])
    config = config_of(request_of("program.py", SPACE, None, {"cli_config": "config.yaml"}))
    assert (config.trainable, config.lightning_cli, config.cli_config) == (None, "program", "config.yaml")
    assert config_of(request_of("tests.faulty.toy", SPACE, None, {})).trainable == "tests.faulty.toy"


def test_a_function_has_the_hyperparameters_that_were_given() -> None:
    request = request_of(train, SPACE, None, {"params": {"width": 3}})
    assert request.settings["trainable"] == "python:train"
    assert request.pickled is not None
    there = registry.load(pickle.loads(pickle.dumps(pickled.made(request.pickled).description)))
    assert there.without_default == ("lr", "width")
    assert there.saves
    assert [name for name, _ in there.sources()] == [__name__]


def made_of(trained: Any, data: Any = None, space: Any = SPACE) -> pickled.Pickled:
    made = request_of(trained, space, data, {}).pickled
    assert made is not None
    return made


def test_a_module_and_its_data_get_the_hyperparameters_that_they_name() -> None:
    found = pickled.made(made_of(Net, Data, {**SPACE, "depth": [1, 2]}))
    assert isinstance(found, pickled.PickledModule)
    # Two defaults are none, and `act` is no value that a sweep can hold.
    assert sorted(found.without_default) == ["batch_size", "depth", "lr"]
    params = build_params(found.params_class, {"lr": 1, "depth": 2, "batch_size": 16})
    model: Any = found.build_model(params)
    assert model.given == {"lr": 1.0, "width": 8, "batch_size": 16, "act": str, "depth": 2}
    data: Any = found.build_data(params, None)
    assert data.batch_size == 16
    assert found.describe_data(params) == "Data"


CHANGES = """
from lightning.pytorch import LightningModule

seen = []

def note(lr):
    seen.append(lr)
    return list(seen)

def train(params, trial):
    return note(params.lr)

class Net(LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.seen = note(lr)
"""


@pytest.mark.parametrize("name", ["train", "Net"])
def test_what_a_trial_changes_of_the_programs_variables_stays_in_it(name: str) -> None:
    program: dict[str, Any] = {"__name__": "__main__"}
    exec(CHANGES, program)
    found: Any = pickled.made(made_of(program[name]))
    for lr in (0.1, 0.2):
        params = build_params(found.params_class, {"lr": lr})
        seen = found.train(params, None) if name == "train" else found.build_model(params).seen
        assert seen == [lr]


def test_data_that_is_no_function_is_a_copy_for_each_trial() -> None:
    data = Data(7)
    found = pickled.made(made_of(Net, data))
    assert isinstance(found, pickled.PickledModule)
    params = build_params(found.params_class, {"lr": 1})
    first: Any = found.build_data(params, None)
    assert first.batch_size == 7
    assert first is not found.build_data(params, None)


def test_a_model_with_loaders_of_its_own_needs_no_data() -> None:
    found = pickled.made(made_of(Net))
    assert isinstance(found, pickled.PickledModule)
    assert found.build_data(build_params(found.params_class, {"lr": 1}), None) is None


def test_loaders_are_data() -> None:
    found = pickled.made(made_of(Net, ([1], [2], [3])))
    assert isinstance(found, pickled.PickledModule)
    data = found.build_data(build_params(found.params_class, {"lr": 1}), None)
    assert (data.train_dataloader(), data.val_dataloader(), data.test_dataloader()) == ([1], [2], [3])
    alone = pickled.made(made_of(Net, [[1]]))
    assert isinstance(alone, pickled.PickledModule)
    with pytest.raises(CannotTrain, match=r"the data is 1 loader: give those of the training"):
        alone.build_data(build_params(found.params_class, {"lr": 1}), None)


def test_a_sweep_is_refined_by_its_name_in_the_space_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "_results", None)
    for name, content in pickled.made(made_of(train)).kept_files().items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "sweep.yaml").write_text("metric: val_acc\nmode: max\n")
    (tmp_path / "record.journal").touch()
    request = request_of(train, {}, None, {"refine": str(tmp_path)})
    assert cli.checked(request.settings).parents == [str(tmp_path)]
    assert request.pickled is not None
    assert with_names_of(request.pickled, [tmp_path, tmp_path / "another"]).names == ("lr",)


def test_it_is_found_in_the_folder_of_its_sweep_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pickled.made(made_of(train))
    monkeypatch.setattr(project, "_results", None)
    with pytest.raises(
        UserError, match=r"Name the sweep, as in .*sweeps fit --params NAME, or give the function"
    ):
        registry.find(made.name)
    for name, content in made.kept_files().items():
        (tmp_path / name).write_bytes(content)
    project.use_noted(tmp_path, [made.name], "--resume")
    assert registry.find(made.name).description == made.description
    (tmp_path / pickled.FILE).write_bytes(b"torn")
    with pytest.raises(UserError, match=r"trainable.pkl can't be read"):
        registry.find(made.name)

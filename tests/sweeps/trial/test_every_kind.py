"""What a sweep expects of a trainable, of whichever kind: a new kind is a line of `KINDS`."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.objective import Objective
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import pickled, registry
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.python_api.sweep_request import request_of
from sweeps.storage.open import Folder
from sweeps.training.config import FitConfig
from sweeps.trial.job import Job
from sweeps.trial.messages import Finished, Message
from sweeps.trial.runner import TrialRunner
from tests.docs import examples
from tests.faulty import by_function
from tests.support import configured
from tests.sweeps.kinds.swept import enter, planned

pytestmark = pytest.mark.slow
EPOCHS = 3


def of_command(*words: str) -> Callable[[], Plan]:
    """The plan of `sweeps run` with these words."""
    return lambda: planned(*words)


def of_function() -> Plan:
    """The plan of `sweeps.run` with a function."""
    space = {"lr": "1e-3..1:log", "size": [1, 2, 4]}
    return of_call(by_function.train, space, None, "val_score")


def of_module() -> Plan:
    """The plan of `sweeps.run` with a class of LightningModules."""
    net, data = (importlib.import_module(f"net_project.{name}") for name in ("model", "data"))
    return of_call(net.Net, {"lr": "1e-3..1:log"}, data.Digits, "val_acc")


def of_call(trainable: Any, space: Mapping[str, Any], data: Any, metric: str) -> Plan:
    request = request_of(trainable, space, data, {"metric": metric, "mode": "max"})
    assert request.pickled is not None
    pickled.hold(request.pickled)
    return make_plan(SweepConfig.from_settings(**request.settings))


def write_script(folder: Path) -> None:
    """A program that waits in the last epoch of trial 2 until it is stopped, unless it goes on there."""
    program = examples.block_with("commands", "argparse").replace("import pickle", "import os, pickle, time")
    trains = "    model.partial_fit"
    waits = f"    while (os.environ['SWEEPS_TRIAL'], done, epoch) == ('2', 0, {EPOCHS}): time.sleep(1)\n"
    (folder / "train.py").write_text(program.replace(trains, waits + trains))


@dataclass(frozen=True)
class Kind:
    """One trainable of a kind, as a user has it."""

    plan: Callable[[], Plan]
    """Of a sweep of it."""
    params: dict[str, Any]
    """Hyperparameters of a trial."""
    write: Callable[[Path], object] | None = None
    """Writes its project into a folder."""
    needs: str = "torch"
    """A package."""


LR = {"model.lr": 0.1}
RANGES = ("--ranges", "model.lr=1e-3..1:log")
SCRIPT = (
    f"{sys.executable} train.py --alpha {{alpha}} --penalty l2 --epochs {{max_epochs}} "
    "--checkpoints {checkpoint_dir}"
)
COMMAND = ("--command", SCRIPT, "--ranges", "alpha=1e-6..1e-1:log", "--metric", "val_acc:max")
CLI = ("net_project.cli", "-c", "config.yaml", *RANGES)
KINDS = {
    "lightning": Kind(of_command("digits_mlp"), {"lr": 0.1}),
    "function": Kind(of_command("tests.faulty.by_function"), {"lr": 0.1, "size": 2}),
    "lightning-cli": Kind(of_command(*CLI), LR, configured.write, "jsonargparse"),
    "hydra": Kind(of_command("--hydra", "configs/train", *RANGES), LR, configured.write_hydra, "hydra"),
    "command": Kind(of_command(*COMMAND), {"alpha": 1e-3}, write_script),
    "function in Python": Kind(of_function, {"lr": 0.1, "size": 2}),
    "LightningModule in Python": Kind(of_module, {"lr": 0.1}, configured.write),
}


def test_every_kind_is_here() -> None:
    assert KINDS.keys() == registry.LOADERS.keys()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found = KINDS[request.param]
    if importlib.util.find_spec(found.needs) is None:
        pytest.skip(f"{found.needs} is not installed")
    return found


@pytest.fixture
def plan(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A sweep of it."""
    if kind.write is not None:
        kind.write(tmp_path)
        enter(tmp_path, monkeypatch)
    return kind.plan()


def test_another_process_makes_the_same_of_its_description(plan: Plan) -> None:
    here = plan.models[0].trainable
    there = registry.load(pickle.loads(pickle.dumps(here.description)))
    assert there is not here
    assert there.objective == here.objective
    assert isinstance(plan.config.objective, Objective)
    assert _fields(there.params_class) == _fields(here.params_class)
    assert [(name, path.read_bytes()) for name, path in there.sources()] == [
        (name, path.read_bytes()) for name, path in here.sources()
    ]
    assert there.saves == here.saves


def test_what_it_says_of_itself_can_be_shown(plan: Plan, kind: Kind) -> None:
    (model,) = plan.models
    trainable = model.trainable
    params = trainable.params_class(**{**model.space.fixed, **kind.params})
    assert re.fullmatch(r"[\w.-]+", registry.short_name(trainable.name))
    assert registry.name_of(trainable.name) == trainable.name
    assert all(isinstance(word, str) for note in trainable.notes() for word in note)
    assert isinstance(trainable.describe_data(params), str)
    assert all(isinstance(value, float | int) for value in trainable.static_metrics(params).values())
    assert trainable.faults_of_options(params) == []
    assert trainable.faults_of_settings([]) == []
    assert [name for name in kind.params if trainable.why_not(name)] == []
    files = trainable.export(model.space.fixed | kind.params, plan.config.fit.settings(), "best")
    assert all(name and text for name, text in files.items())


def _fields(params_class: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(params_class)]


class Trials:
    """Trials of a plan, each in a process of its own."""

    def __init__(self, plan: Plan, params: dict[str, Any], folder: Path) -> None:
        (model,) = plan.models
        self._description = model.trainable.description
        objective = plan.config.objective
        self._job = Job(
            trainables={self._description.name: self._description},
            storage=Folder(folder),
            fit=FitConfig(max_epochs=EPOCHS, metric=objective.metric, mode=objective.mode, threads=1),
            max_failures=0,
            checkpoint_epochs=None,
        )
        self._config = {"trainable": self._description.name, "params": params, "fixed": model.space.fixed}

    def begun(self, number: int, runner: TrialRunner | None = None) -> TrialRunner:
        """A trial, in a new process unless one is given."""
        runner = runner or TrialRunner(self._job)
        runner.begin({**self._config, "number": number, "seed": 5})
        return runner


def scores(runner: TrialRunner, most: int = EPOCHS) -> list[tuple[int, float]]:
    """Epochs and scores of the next messages."""
    found: list[tuple[int, float]] = []
    message = Message()
    while len(found) < most and message.end is None:
        message = runner.step()
        assert message.report is not None, message.end
        found.append((message.report.epoch, message.report.score))
    assert message.end in (None, Finished())
    return found


@pytest.fixture
def trials(plan: Plan, kind: Kind, tmp_path: Path) -> Trials:
    folder = tmp_path / "sweep"
    folder.mkdir()
    return Trials(plan, kind.params, folder)


@pytest.mark.usefixtures("ray_session", "handlers_as_before")
def test_a_trial_is_left_and_continued_as_if_it_had_never_been(plan: Plan, trials: Trials) -> None:
    process = trials.begun(0)
    whole = scores(process)
    assert [epoch for epoch, _ in whole] == [1, 2, 3]
    assert scores(trials.begun(1, process)) == whole, "a process trains one trial after another"
    process.end()

    left = trials.begun(2)
    assert scores(left, 2) == whole[:2]
    left.save()
    left.end()
    continued = trials.begun(2)
    saves = plan.models[0].trainable.saves
    assert scores(continued) == (whole[1:] if saves else whole)
    continued.end()

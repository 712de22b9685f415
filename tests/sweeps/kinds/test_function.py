"""A file with a function that trains, as a trainable; one that breaks its contract is told how."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.common.objective import Objective
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import function, registry
from sweeps.kinds.trainable import as_lightning
from sweeps.plan.build import make_plan
from tests import ROOT
from tests.faulty import by_function

SPACE = "from ray import tune\nSPACE = {'lr': tune.uniform(0, 1)}\n"
OBJECTIVE = "METRIC, MODE = 'val_acc', 'max'\n"
TRAIN = "def train(params, trial):\n    trial.report({'val_acc': params.lr})\n"
SAVING = TRAIN.replace("})", "}, save=print)")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder."""
    monkeypatch.chdir(tmp_path)
    project.use()
    return tmp_path


def test_another_process_makes_it_again_of_its_description() -> None:
    found = registry.find("tests.faulty.by_function")
    there = registry.load(pickle.loads(pickle.dumps(found.description)))
    assert there.objective == found.objective == Objective("val_score", "max")
    assert there.space is not None
    assert there.space.ranges is by_function.SPACE
    assert there.without_default == ("lr", "size")
    assert [name for name, _ in there.sources()] == ["tests.faulty.by_function"]


def test_what_reports_from_the_loops_of_libraries_is_known() -> None:
    files = sorted((ROOT / "sweeps" / "integrations").glob("*.py"))
    classes = [
        node for file in files for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    assert {each.name for each in classes} == function.REPORTERS


def test_its_project_lists_it_and_no_script_with_another_train(here: Path) -> None:
    (here / "mine.py").write_text(SPACE + OBJECTIVE + TRAIN)
    (here / "script.py").write_text("def train(epochs):\n    pass\n")
    (here / "helper.py").write_text("def train(model, loader):\n    pass\n")
    assert registry.choices() == ["mine"]


def test_it_can_be_paused_where_its_code_saves(here: Path) -> None:
    (here / "saving.py").write_text(SPACE + OBJECTIVE + SAVING)
    (here / "forgetful.py").write_text(SPACE + OBJECTIVE + TRAIN)
    (here / "loop.py").write_text("def run(trial):\n    trial.report({}, print)\n")
    (here / "elsewhere.py").write_text(
        SPACE + "import loop\ndef train(params, trial):\n    loop.run(trial)\n"
    )
    (here / "integrated.py").write_text(SPACE + "def train(params, trial):\n    ReportEpochs(trial)\n")
    names = ("saving", "forgetful", "elsewhere", "integrated")
    assert [registry.find(name).saves for name in names] == [True, False, True, True]
    assert registry.find("saving").notes() == ()
    ((_, note),) = registry.find("forgetful").notes()
    assert note == "forgetful.train reports without save: a trial that is paused or interrupted starts again"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OBJECTIVE + TRAIN, "without Params it needs SPACE, .*; with Params, --ranges may be the whole"),
        (SPACE + "METRIC = 'val_acc'\n" + TRAIN, "METRIC and MODE are defined together, or none of them"),
        (SPACE + OBJECTIVE.replace("max", "up") + TRAIN, "MODE 'up' must be min or max"),
        (SPACE + OBJECTIVE.replace("'val_acc'", "['a', 'b']") + TRAIN, r"METRIC \['a', 'b'\] must be a text"),
        (SPACE + "Params = dict\n" + TRAIN, "Params must be a dataclass"),
        (SPACE + "def train(params):\n    pass\n", r"train must take two arguments, train\(params, trial\)"),
        (SPACE + "async " + TRAIN, "train must be a plain function, without async: a trial calls it"),
        (SPACE + TRAIN + "    yield 1\n", "train must be a plain function, without yield: it reports with"),
        ("SPACE = {1: 2}\n" + TRAIN, "space: 1 is no name of a hyperparameter, such as lr"),
        ("SPACE = {'lambda': 2}\n" + TRAIN, "space: 'lambda' is no name of a hyperparameter"),
    ],
)
def test_a_broken_contract(here: Path, text: str, expected: str) -> None:
    name = f"broken_{len(text)}.py"  # a module is imported once
    (here / name).write_text(text)
    with pytest.raises(UserError, match=f"--trainable {name}: {expected}"):
        registry.find(name)


def test_a_helper_that_cannot_be_read_saves_nothing(here: Path) -> None:
    (here / "torn.py").write_text("def (:\n")
    (here / "binary.py").write_bytes(b"\0")
    (here / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nNAME = '\xe9'\n")
    tries = "try:\n    import torn, binary\nexcept SyntaxError:\n    import latin\n"
    (here / "trying.py").write_text(tries + SPACE + OBJECTIVE + TRAIN)
    assert not registry.find("trying").saves


def test_a_space_that_lacks_one_of_its_hyperparameters_is_refused(here: Path) -> None:
    both = SPACE.replace("}", ", 'width': tune.choice([1, 2])}")
    (here / "two.py").write_text(both + OBJECTIVE + TRAIN)
    (here / "one.py").write_text(SPACE)
    config = SweepConfig(trainable="two", search_space="one")
    with pytest.raises(UserError, match="has no default for it: give a range, or --params width"):
        make_plan(config)
    assert make_plan(config.changed(params={"width": 2})).space.fixed == {"width": 2}


def test_what_needs_a_module_of_lightning_says_so() -> None:
    found = registry.find("tests.faulty.by_function")
    with pytest.raises(UserError, match="a LightningModule is needed here, and this is a function"):
        as_lightning(found)
    (fault,) = found.faults_of_settings(["max_epochs", "precision"])
    assert fault.startswith("--precision: it is for a LightningModule, and tests.faulty.by_function.train")

"""What results depend on: each change of it is seen, in every process alike, and nothing else is."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from sweeps.config.sweep_config import COMMAND_ONLY, SweepConfig
from sweeps.plan.build import make_plan
from sweeps.plan.fingerprint import WITHOUT_EFFECT, changes, identity, settings
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import environment
from sweeps.space.domain import converted
from sweeps.space.flat import FlatSpace
from tests.conftest import ROOT

MODEL = """
from dataclasses import dataclass

import numpy

from {package} import _layers
from {package}._data import rows

METRIC, MODE = "score", "max"
build_model = build_data = rows


@dataclass(frozen=True)
class Params:
    slope: float = 1.0
    epoch_s: float = 0.0
    fault: str = "none"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's package: `model` uses `_layers`, which uses `_deep`, and a function of `_data`."""
    folder = tmp_path / f"user_{tmp_path.name}"
    folder.mkdir()
    files = {
        "__init__.py": "",
        "model.py": MODEL.format(package=folder.name),
        "_layers.py": f"from {folder.name} import _deep as hidden\n",
        "_deep.py": "DEPTH = 3\n",
        "_data.py": "def rows() -> int:\n    return 4\n",
        "unrelated.py": "import os\n",
        "space.py": "from ray import tune\nSPACE = {'slope': tune.uniform(0.1, 1.0)}\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def plan_of(package: Path, **more: Any) -> Plan:
    name = package.name
    return make_plan(
        SweepConfig.from_settings(
            trainable=f"{name}.model",
            search_space=f"{name}.space",
            results_dir=str(package.parent),
            gpus_per_trial=0,
            min_free_gb=0.0,
            **more,
        )
    )


def stored(value: Any) -> Any:
    """As it comes back from the record."""
    return json.loads(json.dumps(value))


def test_nothing_has_changed_when_nothing_has(package: Path) -> None:
    plan = plan_of(package)
    assert changes(stored(identity(plan)), identity(plan)) == []


USED = ["model.py", "_layers.py", "_deep.py", "_data.py"]


def test_the_code_is_what_trains_proposes_and_prunes(package: Path) -> None:
    code = identity(plan_of(package))["code"]
    own = {name.partition("/")[2] for name in code if name.startswith(package.name)}
    assert own == {*USED, "__init__.py"}, "what it uses of its package, and no other"
    others = {name for name in code if not name.startswith(package.name)}
    assert {
        "sweeps/training/runs/fit_loop.py",
        "sweeps/training/distributed/strategy.py",
        "sweeps/searchers/gp.py",
        "sweeps/search/rungs.py",
        "sweeps/schedulers/halving.py",
    } <= others
    assert "sweeps/fit.py" not in others, "no sweep runs it"
    assert not [name for name in others if name.startswith(("numpy", "optuna"))], "these have versions"


@pytest.mark.parametrize("name", USED)
def test_a_changed_file_that_the_trainable_uses_is_named(name: str, package: Path) -> None:
    plan = plan_of(package)
    before = stored(identity(plan))
    (package / name).write_text((package / name).read_text() + "# changed\n")
    assert changes(before, identity(plan)) == [f"{package.name}/{name}: its code"]


def test_another_version_of_this_program_is_one_line_beside_the_users_files(package: Path) -> None:
    now = identity(plan_of(package))
    former = {
        name: "another" if name.startswith("sweeps/training/") else digest
        for name, digest in now["code"].items()
    }
    former[f"{package.name}/model.py"] = "another"
    mine, program = changes({**now, "code": former}, now)
    assert mine == f"{package.name}/model.py: its code"
    assert program == "the program sweeps: another version"


def test_many_changed_files_of_the_user_are_counted(package: Path) -> None:
    now = identity(plan_of(package))
    former = now["code"] | {f"net/layer_{number}.py": "then" for number in range(8)}
    listed = [f"net/layer_{number}.py: its code" for number in range(5)]
    assert changes({**now, "code": former}, now) == [*listed, "and 3 more files"]


def test_a_changed_file_that_the_trainable_does_not_use_is_not_named(package: Path) -> None:
    plan = plan_of(package)
    before = identity(plan)
    (package / "unrelated.py").write_text("import sys\n")
    assert changes(before, identity(plan)) == []


def test_a_file_that_is_not_used_any_more_is_named_as_one_that_is_new(package: Path) -> None:
    before = identity(plan_of(package))
    less = {
        **before,
        "code": {name: sum_ for name, sum_ in before["code"].items() if "/_data.py" not in name},
    }
    expected = [f"{package.name}/_data.py: its code"]
    assert changes(less, before) == changes(before, less) == expected


ELSEWHERE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import importlib
for name in sys.argv[3:]:
    importlib.import_module(name)
from pathlib import Path
from sweeps.plan.fingerprint import identity
from tests.sweeps.plan.test_fingerprint import plan_of
print(json.dumps(identity(plan_of(Path(sys.argv[1], sys.argv[2])))))
"""


@pytest.mark.slow
def test_another_process_that_has_imported_other_modules_finds_the_same(package: Path) -> None:
    here = identity(plan_of(package))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(package.parent), package.name, f"{package.name}.unrelated"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    there = json.loads(done.stdout.splitlines()[-1])
    assert changes(here, there) == []
    assert stored(here) == there


DOMAINS: dict[str, tuple[Any, Any, str]] = {
    "bounds": (tune.uniform(0.1, 1.0), tune.uniform(0.1, 2.0), "0.1 to 1.0 -> 0.1 to 2.0"),
    "a bound by little": (tune.uniform(0, 1), tune.uniform(0, 1.0000001), "0.0 to 1.0 -> 0.0 to 1.0000001"),
    "a bound by little of much": (
        tune.randint(0, 10_000_001),
        tune.randint(0, 10_000_002),
        "0 to 10000000 in steps of 1 -> 0 to 10000001 in steps of 1",
    ),
    "scale": (tune.uniform(0.1, 1.0), tune.loguniform(0.1, 1.0), "0.1 to 1.0 -> 0.1 to 1.0, log scale"),
    "steps": (
        tune.quniform(0, 1, 0.1),
        tune.quniform(0, 1, 0.5),
        "0.0 to 1.0 in steps of 0.1 -> 0.0 to 1.0 in steps of 0.5",
    ),
    "whole numbers": (tune.uniform(0, 10), tune.randint(0, 11), "0.0 to 10.0 -> 0 to 10 in steps of 1"),
    "choices": (tune.choice([1, 2]), tune.choice([1, 2, 3]), "one of 1, 2 -> one of 1, 2, 3"),
    "order of choices": (tune.choice([1, 2]), tune.choice([2, 1]), "one of 1, 2 -> one of 2, 1"),
    "a grid": (tune.grid_search([1, 2]), tune.grid_search([1]), "grid of 1, 2 -> grid of 1"),
    "form": (tune.grid_search([1, 2]), tune.choice([1, 2]), "grid of 1, 2 -> one of 1, 2"),
    "choices of another type": (
        tune.choice([1, 2]),
        tune.choice(["1", "2"]),
        "one of 1, 2 -> one of '1', '2'",
    ),
    "a mean": (tune.randn(0.0, 1.0), tune.randn(1.0, 1.0), "normal "),
    "steps of a normal": (tune.qrandn(0.0, 1.0, 0.5), tune.qrandn(0.0, 1.0, 0.25), "normal "),
    "a spread": (tune.randn(0.0, 1.0), tune.randn(0.0, 2.0), "normal "),
}


def of_model(plan: Plan, **changes: Any) -> Plan:
    """The plan with another model."""
    return dataclasses.replace(plan, models=(dataclasses.replace(plan.models[0], **changes),))


def of_space(plan: Plan, domains: dict[str, Any]) -> FlatSpace:
    space = plan.models[0].space
    assert isinstance(space, FlatSpace)
    return dataclasses.replace(space, domains={name: converted(each) for name, each in domains.items()})


def with_domain(plan: Plan, domain: Any) -> Plan:
    return of_model(plan, space=of_space(plan, {"slope": domain}))


@pytest.mark.parametrize("change", DOMAINS)
def test_a_changed_domain_is_named_and_the_same_one_is_not(change: str, package: Path) -> None:
    before, after, words = DOMAINS[change]
    plan = plan_of(package)
    was = stored(identity(with_domain(plan, before)))
    (line,) = changes(was, identity(with_domain(plan, after)))
    assert line.startswith(f"hyperparameter slope: {words}")
    assert changes(was, identity(with_domain(plan, before))) == []


def test_of_a_function_in_a_space_the_file_is_compared(package: Path) -> None:
    """A partial, a lambda: their text can't be had."""
    text = (
        "from functools import partial\nfrom ray import tune\ndef half(top, spec):\n    return top / 2\n"
        "SPACE = {'slope': tune.sample_from(partial(half, 1.0))}\n"
    )
    (package / "drawn.py").write_text(text)
    settings_ = plan_of(package).config.changed(search_space=f"{package.name}.drawn", searcher="random")
    before = stored(identity(make_plan(settings_)))
    assert changes(before, identity(make_plan(settings_))) == []
    (package / "drawn.py").write_text(text.replace("/ 2", "/ 3"))
    assert changes(before, identity(make_plan(settings_))) == [f"{package.name}/drawn.py: its code"]


def test_of_a_space_that_is_a_function_the_file_is_compared_and_what_it_imports(package: Path) -> None:
    text = (
        f"from {package.name} import _deep\ndef suggest(trial):\n    trial.suggest_float('slope', 0.1, 1)\n"
    )
    (package / "defined.py").write_text(text)
    settings_ = plan_of(package).config.changed(search_space=f"{package.name}.defined")
    before = stored(identity(make_plan(settings_)))
    assert changes(before, identity(make_plan(settings_))) == []
    assert before["space"] == {}
    (package / "defined.py").write_text(text.replace("0.1", "0.2"))
    assert changes(before, identity(make_plan(settings_))) == [f"{package.name}/defined.py: its code"]


def test_an_import_that_fails_here_is_no_hindrance(package: Path) -> None:
    (package / "optional").mkdir()
    (package / "optional" / "__init__.py").write_text("raise ImportError('needs CUDA')\n")
    (package / "optional" / "kernels.py").write_text("x = 1\n")
    with (package / "_deep.py").open("a") as file:
        file.write(
            f"try:\n    from {package.name}.optional.kernels import x\nexcept ImportError:\n    x = 0\n"
        )
    code = identity(plan_of(package))["code"]
    assert f"{package.name}/optional/kernels.py" in code


def test_other_data_is_named(package: Path) -> None:
    plan = plan_of(package)
    other = of_model(plan, data="20 rows")
    assert changes(identity(plan), identity(other)) == [f"data: {plan.models[0].data} -> 20 rows"]


def test_a_hyperparameter_that_came_or_went_is_named(package: Path) -> None:
    plan = plan_of(package)
    slope = {"slope": tune.uniform(0.1, 1.0)}
    more = of_model(plan, space=of_space(plan, {**slope, "epoch_s": tune.choice([0.0, 1.0])}))
    assert changes(identity(plan), identity(more)) == ["hyperparameter epoch_s: not set -> one of 0.0, 1.0"]
    assert changes(identity(more), identity(plan)) == ["hyperparameter epoch_s: one of 0.0, 1.0 -> not set"]


FREE = WITHOUT_EFFECT | COMMAND_ONLY
COMPARED = sorted(set(SweepConfig.settings()) - FREE)


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return {"slope": 3.0} if isinstance(value, dict) else "other"


@pytest.mark.parametrize("name", COMPARED)
def test_a_changed_setting_is_named_unless_it_may_change(name: str, package: Path) -> None:
    plan = plan_of(package)
    now = other(plan.config.flat()[name])
    before = identity(plan)
    after = {**before, "settings": settings(plan.config.changed(**{name: now}))}
    (line,) = changes(stored(before), after)
    assert line.startswith(f"--{name.replace('_', '-')}: ")
    assert changes(before, after, but=frozenset({name})) == []
    assert changes(before, after, but=frozenset({"another"})) == [line]


def test_what_may_change_of_the_settings_is_no_hyperparameter_of_the_same_name(package: Path) -> None:
    before = identity(plan_of(package))
    after = {**before, "space": {**before["space"], "seed": "0 to 1"}, "versions": {}}
    assert len(changes(before, after, but=frozenset({"seed", "torch"}))) == 1 + len(before["versions"])


@pytest.mark.parametrize("name", sorted(FREE))
def test_where_a_sweep_lies_and_how_it_was_called_is_not_compared(name: str) -> None:
    config = SweepConfig()
    changed = config.changed(**{name: other(config.flat()[name])})
    assert changed != config
    assert settings(changed) == settings(config)


def test_another_version_of_a_package_is_named(package: Path) -> None:
    before = identity(plan_of(package))
    assert before["versions"] == environment.versions(["scipy"])
    assert {"python", "torch", "lightning", "ray", "optuna", "numpy"} <= set(before["versions"])
    after = {**before, "versions": {**before["versions"], "torch": "99.0"}}
    assert changes(before, after) == [f"torch: {before['versions']['torch']} -> 99.0"]

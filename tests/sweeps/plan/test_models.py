"""Several models in one sweep: planned, and searched as one conditional space."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from rich.console import Console

from sweeps.analysis import tables
from sweeps.common.errors import UserError
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.output.console import SweepReporter
from sweeps.execution.run_context import RunContext
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.fingerprint import changes, identity
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.space.composite import SeveralSpaces
from sweeps.space.flat import FlatSpace
from sweeps.space.point import Point
from sweeps.storage.disk_guard import Disk
from tests.support.contexts import ALONE
from tests.support.several_models import SPACES, STEPS, TOY, TOYS, config, planned

SEARCHERS = plugins.choices("searcher")
TAKING = [name for name in SEARCHERS if "several" in plugins.find("searcher", name).TAKES]


def fault(folder: Path, **changes: Any) -> str:
    with pytest.raises(UserError) as raised:
        make_plan(config(folder, **changes))
    return str(raised.value)


# The plan.


def test_the_plan_has_each_model_with_its_data_and_its_space(tmp_path: Path) -> None:
    text = describe(planned(tmp_path, num_trials=5))
    assert f"sweep      s: {TOY}, {STEPS}, score (max), seed 0" in text
    first, second = text.split("model      ")[1:]
    assert first.startswith(
        f"{TOY}\ndata       as {TOY}.build_data has it\nspace      {SPACES[0]}: 2 hyperparameters"
    )
    assert second.startswith(
        f"{STEPS}\ndata       four rows of ones\nspace      {SPACES[1]}: 1 hyperparameter\n"
    )
    assert "fixed      epoch_s=0.0\n" in second


def test_without_spaces_each_model_has_its_own(tmp_path: Path) -> None:
    asked = config(tmp_path, name=None, trainable=["digits_mlp", "fashion_cnn"], search_space=None)
    plan = make_plan(asked)
    assert plan.config.search_space == ["digits_mlp", "fashion_cnn"]
    assert str(plan.config.name).startswith("digits_mlp-fashion_cnn-")
    assert plan.config.num_trials == 24


def test_a_hyperparameter_that_stands_still_goes_to_all_models_or_to_one(tmp_path: Path) -> None:
    plan = planned(tmp_path, params={"epoch_s": 0.5, f"{STEPS}.epoch_s": 0.25, f"{TOY}.fault": "none"},
                   search_space=["tests.faulty.slopes", SPACES[1]])  # fmt: skip
    toy, steps = (model.space.fixed for model in plan.models)
    assert (toy["epoch_s"], toy["fault"], steps["epoch_s"]) == (0.5, "none", 0.25)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"params": {"slope": 1.0}},
         f"{STEPS}: --params slope: no such hyperparameter. Did you mean 'speed'?"),
        ({"params": {f"{STEPS}.sped": 1.0}},
         f"{STEPS}: --params sped: no such hyperparameter. Did you mean 'speed'?"),
        ({"params": {"tests.faulty.step.speed": 1}}, "step.speed: no such trainable in this sweep. Did"),
        ({"trainable": [TOY, "digits_mlp"], "search_space": ["tests.faulty.slopes", "digits_mlp"]},
         f"METRIC differs: score of {TOY}, val_acc of digits_mlp. Give --metric (each must"),
        ({"search_space": ["tests.faulty.speeds", "tests.faulty.slopes"]},
         f"{STEPS}: slope: no such hyperparameter"),
        ({"trainable": [TOY, "fashion_cn"]}, "fashion_cn: --trainable fashion_cn: no such trainable."),
        ({"metric": "other"}, "--metric other: give --mode too"),
        ({"metric": "scor"}, "--metric scor: Did you mean 'score'? Else give --mode too"),
        ({"searcher": "grid"},
         f"{TOY}: suggest: searcher grid can't take a space whose hyperparameters depend"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_model(
    changes: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    assert expected in fault(tmp_path, **changes)


def test_the_faults_of_all_models_are_told_at_once(tmp_path: Path) -> None:
    found = fault(tmp_path, search_space=["tests.faulty.speeds", "tests.faulty.slopes"], params={"x.y": 1})
    assert [line.split(":")[0] for line in found.splitlines()] == ["--params x.y", TOY, STEPS]


def test_models_that_disagree_are_judged_by_what_is_given(tmp_path: Path) -> None:
    plan = make_plan(
        config(tmp_path, trainable=[TOY, "digits_mlp"], search_space=["tests.faulty.slopes", "digits_mlp"],
               metric="loss", mode="min")
    )  # fmt: skip
    assert (plan.config.metric, plan.config.mode) == ("loss", "min")


@pytest.fixture
def minimized(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The toy, with a score that is good when small."""
    (tmp_path / f"own_{tmp_path.name}").mkdir()
    (tmp_path / f"own_{tmp_path.name}" / "model.py").write_text(
        "from tests.faulty.steps import METRIC, Params, build_data, build_model\nMODE = 'min'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return f"own_{tmp_path.name}.model"


def test_modes_that_differ_are_refused_and_one_is_given(minimized: str, tmp_path: Path) -> None:
    pair = {"trainable": [TOY, minimized]}
    assert f"MODE differs: max of {TOY}, min of {minimized}. Give --mode." in fault(tmp_path, **pair)
    assert make_plan(config(tmp_path, **pair, mode="min")).config.mode == "min"


def test_a_searcher_that_takes_one_model_names_those_that_take_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lone").mkdir()
    (tmp_path / "lone" / "one.py").write_text(
        "from sweeps.searchers import random\n\n\nclass Searcher(random.Searcher):\n"
        "    TAKES = frozenset({'finite', 'continuous'})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = fault(tmp_path, searcher="lone.one")
    assert f"--trainable {TOY} {STEPS}: searcher lone.one takes one trainable. Searchers that take" in found
    assert found.endswith(", ".join(TAKING))


# Searchers and the record.


def new_record(plan: Plan) -> Record:
    plan.folder.mkdir(parents=True)
    return Record.create(plan.folder, "s", "max", {"metric": "score", "trainable": plan.config.trainable})


def score_of(point: Point) -> float:
    """The second model is the better one, and fast ones are."""
    return 1.0 + float(point.params["speed"]) if point.trainable == STEPS else 0.1


def play(plan: Plan, record: Record, trials: int) -> list[Point]:
    searcher = plan.searcher.build(plan.config, plan.space, record)
    for _ in range(trials):
        number = searcher.suggest("id")["number"]
        record.report(number, 1, score_of(record.trials[number].point), {}, 1.0)
        record.end(number, "finished")
    return [trial.point for trial in record.trials[-trials:]]


@pytest.mark.parametrize("name", TAKING)
def test_a_searcher_proposes_of_all_models_none_twice_and_goes_on_from_its_record(
    name: str, tmp_path: Path
) -> None:
    plan = planned(tmp_path, name, num_trials=12)
    record = new_record(plan)
    before = play(plan, record, 6)
    shutil.copytree(plan.folder, tmp_path / "copy")
    whole = play(plan, record, 6)
    assert {point.trainable for point in (*before, *whole)} == set(TOYS)
    assert len({trial.point.key for trial in record.trials}) == 12
    again = Record.reopen(tmp_path / "copy")
    assert [trial.point for trial in again.trials] == before
    assert play(plan, again, 6) == whole


@pytest.mark.parametrize("name", TAKING)
def test_the_same_params_of_another_model_are_another_point(name: str, tmp_path: Path) -> None:
    space = FlatSpace(**vars(planned(tmp_path, "grid").models[1].space))
    plan = dataclasses.replace(
        planned(tmp_path, name),
        space=SeveralSpaces({"a": dataclasses.replace(space, trainable="a"), STEPS: space}),
    )
    record = new_record(plan)
    searcher = plan.searcher.build(plan.config, plan.space, record)
    searcher.slots = 9
    while isinstance(searcher.suggest("id"), dict):
        pass
    assert {(trial.trainable, trial.params["speed"]) for trial in record.trials} == {
        *(("a", 0.5), ("a", 1.0), (STEPS, 0.5), (STEPS, 1.0))
    }


def test_tpe_learns_which_model_is_the_better_one_and_what_is_good_for_it(tmp_path: Path) -> None:
    plan = planned(tmp_path, "tpe", num_trials=40)
    points = play(plan, new_record(plan), 40)[-15:]
    assert sum(point.trainable == STEPS for point in points) >= 11
    assert fmean(score_of(point) for point in points if point.trainable == STEPS) > 1.7


def test_a_trial_is_told_its_model(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    searcher = plan.searcher.build(plan.config, plan.space, new_record(plan))
    searcher.slots = 20
    given = [searcher.suggest("id") for _ in range(20)]
    assert {each["trainable"] for each in given} == set(TOYS)
    for each in given:
        assert ("speed" in each["params"]) is (each["trainable"] == STEPS)
        assert ("fault" in each["params"]) is (each["trainable"] == TOY)


def test_the_table_has_the_model_and_nulls_for_the_hyperparameters_of_another(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    record = new_record(plan)
    play(plan, record, 10)
    rows = tables.trials_table(Record.read(plan.folder)).to_pylist()
    assert list(rows[0])[:3] == ["id", "trainable", "status"]
    for row, trial in zip(rows, record.trials, strict=True):
        assert row["trainable"] == trial.trainable
        assert (row["params_speed"] is None) is (trial.trainable == TOY)
        assert (row["params_fault"] is None) is (trial.trainable == STEPS)
        assert row["params_epoch_s"] == 0.0


def test_the_screen_has_the_model_of_each_trial(tmp_path: Path) -> None:
    plan = planned(tmp_path, num_trials=4)
    record = new_record(plan)
    play(plan, record, 4)
    console = Console(width=160, record=True)
    context = RunContext(plan, record, ALONE, Disk(plan.folder, 0.0, 1), console)
    SweepReporter(context, lambda: 1).report([], True)
    text = console.export_text()
    assert "trainable" in text
    assert all(trial.trainable in text for trial in record.trials)


def test_the_code_the_data_and_the_space_of_each_model_are_compared(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    before = json.loads(json.dumps(identity(plan)))
    assert changes(before, identity(plan)) == []
    assert {"tests/faulty/toy.py", "tests/faulty/steps.py", "tests/faulty/branches.py"} <= set(before["code"])
    assert "tests/faulty/speeds.py" not in before["code"], "its words say all"
    assert before["data"] == {
        f"data of {TOY}": f"as {TOY}.build_data has it",
        f"data of {STEPS}": "four rows of ones",
    }
    assert before["space"] == {f"speed of {STEPS}": "0.1 to 1.0"}
    other = dataclasses.replace(plan.models[1], data="five rows")
    changed = changes(before, identity(dataclasses.replace(plan, models=(plan.models[0], other))))
    assert changed == [f"data of {STEPS}: four rows of ones -> five rows"]


KNOWN = "tests.faulty.known_size"


def test_a_point_that_is_known_to_miss_a_constraint_is_refused_with_the_reason(tmp_path: Path) -> None:
    given = {"trainable": KNOWN, "name": "s", "results_dir": str(tmp_path), "gpus_per_trial": 0}
    plan = make_plan(SweepConfig.from_settings(**given, constraint=["params_m<=5", "acc>=0.1"]))
    assert plan.refusal(Point(KNOWN, {"width": 50})) is None
    known = {"params_m": 5.1, "latency_ms": 51.0}
    expected = ("infeasible", "params_m 5.1 misses the constraint params_m<=5", known)
    assert plan.refusal(Point(KNOWN, {"width": 51})) == expected
    broken = plan.refusal(Point(KNOWN, {"width": 1}, {"bad_epoch": -1}))
    assert broken == ("failed", "static_metrics raises ZeroDivisionError: of a size", {})
    assert make_plan(SweepConfig.from_settings(**given)).refusal(Point(KNOWN, {"width": 99})) is None


def test_the_first_objective_must_change_from_epoch_to_epoch(tmp_path: Path) -> None:
    given = {"trainable": KNOWN, "results_dir": str(tmp_path), "gpus_per_trial": 0}
    with pytest.raises(
        UserError, match=r"--metric params_m: static_metrics of .* name one that training improves"
    ):
        make_plan(SweepConfig.from_settings(**given, metric=["params_m:min", "acc:max"]))
    assert make_plan(
        SweepConfig.from_settings(**given, metric=["acc:max", "params_m:min"])
    ).config.objectives.are_several


def test_static_metrics_that_raise_are_the_users_mistake(tmp_path: Path) -> None:
    given = {"trainable": KNOWN, "results_dir": str(tmp_path), "gpus_per_trial": 0}
    with pytest.raises(UserError, match="static_metrics raises ZeroDivisionError: of a size"):
        make_plan(SweepConfig.from_settings(**given, params={"bad_epoch": -1}))

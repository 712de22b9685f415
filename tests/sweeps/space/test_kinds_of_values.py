"""Values of all kinds, from a space through every searcher and the record to the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from sweeps.common.param_types import build_params, readable
from sweeps.common.project import FIT_FILE
from sweeps.config import cli, plugins
from sweeps.config.sweep_config import to_yaml
from sweeps.execution.output.folder_files import write_tables
from sweeps.plan.build import make_plan
from sweeps.record.record import Record
from sweeps.training.single_run import run_settings
from tests.faulty import kinds_of_values
from tests.faulty.kinds_of_values import Params, check
from tests.support.searched import searched

NAME = "tests.faulty.kinds_of_values"


def score(params: Mapping[str, Any]) -> float:
    return float(params["width"]) + (params["clip"] is None) + (params["layers"] == "[8, 8]")


@pytest.mark.parametrize("searcher", plugins.choices("searcher"))
def test_a_value_of_any_kind_goes_from_the_space_to_the_model(searcher: str, tmp_path: Path) -> None:
    scheduler = "bohb" if searcher == "bohb" else "none"
    found = searched(
        tmp_path, searcher, score, trainable=NAME, searcher=searcher, scheduler=scheduler, num_trials=30
    )
    record = Record.read(found.folder)
    assert len(record.trials) == 30
    for trial in record.trials:
        check(build_params(Params, {**trial.fixed, **trial.params}))
    assert {trial.params["clip"] for trial in record.trials} == {None, 0.5, 1.0}
    assert {trial.params["layers"] for trial in record.trials} == {"[4]", "[8, 8]"}
    assert {trial.params["activation"] for trial in record.trials} == {"relu", "gelu"}
    assert dict(record.trials[0].fixed) == {"rates": "[0.1, 0.2]"}
    write_tables(record, tmp_path)
    rows = pq.read_table(tmp_path / "trials.parquet").to_pylist()
    assert [row["params_clip"] for row in rows] == [trial.params["clip"] for trial in record.trials]
    assert [row["params_layers"] for row in rows] == [trial.params["layers"] for trial in record.trials]


def test_a_trial_is_trained_again_by_its_file_whatever_its_values_are(tmp_path: Path) -> None:
    found = searched(tmp_path, "s", score, trainable=NAME, num_trials=20)
    for number, trial in enumerate(Record.read(found.folder).trials):
        path, params = tmp_path / f"{number}.yaml", {**trial.fixed, **trial.params}
        path.write_text(run_settings.dump_yaml({"trainable": NAME, "params": readable(Params, params)}))
        run, _ = run_settings.parse([NAME, "--params", str(path), "--results-dir", str(tmp_path)])
        assert run.params == params
        (tmp_path / FIT_FILE).write_text(run.to_yaml())
        assert run_settings.read(tmp_path).params == params
        assert yaml.safe_load(path.read_text())["params"]["layers"] in ([4], [8, 8])  # as people read it


def test_a_sweep_with_values_of_all_kinds_is_refined_and_resumed(tmp_path: Path) -> None:
    found = searched(tmp_path, "s", score, trainable=NAME, num_trials=30)
    plan = make_plan(cli.parse(["--refine", str(found.folder), "--results-dir", str(tmp_path / "next")]))
    assert plan.lineage is not None
    assert len(plan.lineage.earlier.trials) == 30
    (tmp_path / "again.yaml").write_text(to_yaml(plan.config))
    assert make_plan(cli.parse(["--config", str(tmp_path / "again.yaml")])).space == plan.space
    check(build_params(Params, {**(point := plan.space.draw((0, 0))).fixed, **point.params}))


def test_a_choice_of_null_is_named_so(tmp_path: Path) -> None:
    def only_without(params: Mapping[str, Any]) -> float:
        return params["width"] / 100 + (params["clip"] is not None)

    found = searched(tmp_path, "s", only_without, trainable=NAME, num_trials=30, scheduler="none")
    plan = make_plan(cli.parse(["--refine", str(found.folder), "--results-dir", str(tmp_path / "next")]))
    assert plan.lineage is not None
    (line,) = (text for _, text in plan.lineage.lines if text.startswith("clip: "))
    assert line.startswith("clip: one of null, 0.5, 1.0 -> one of 0.5, 1.0 (never good: null")


@pytest.mark.parametrize(
    ("ranges", "described"),
    [
        ({"layers": "[2],[4, 4]"}, "one of [2], [4, 4]"),
        ({"layers": [[2], [4, 4]]}, "one of [2], [4, 4]"),
        ({"clip": "null,0.1"}, "one of null, 0.1"),
        ({"options": "{a: 1},{b: [2]}"}, 'one of {"a": 1}, {"b": [2]}'),
        ({"activation": "relu,gelu"}, "one of relu, gelu"),
    ],
)
def test_a_range_is_given_as_text_or_in_a_file(
    ranges: dict[str, Any], described: str, tmp_path: Path
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"trainable": NAME, "space": ranges}))
    space = make_plan(cli.parse(["--config", str(path)])).models[0].space
    name = next(iter(ranges))
    assert space.describe()[name] == described
    check(build_params(Params, {**(point := space.draw((0, 0))).fixed, **point.params}))


def test_a_function_as_a_space_gets_its_own_choices_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def suggest(trial: Any) -> None:
        seen.append(trial.suggest_categorical("layers", [(4,), (8, 8)]))
        seen.append(trial.suggest_categorical("clip", [None, 0.5]))

    monkeypatch.delattr(kinds_of_values, "SPACE")
    monkeypatch.setattr(kinds_of_values, "suggest", suggest, raising=False)
    space = make_plan(cli.parse(["--trainable", NAME, "--searcher", "tpe"])).models[0].space
    assert set(seen) == {(4,), (8, 8), None, 0.5}
    points = [space.draw((0, number)) for number in range(20)]
    assert {point.params["clip"] for point in points} == {None, 0.5}
    for point in points:
        check(build_params(Params, {**point.fixed, **point.params}))

"""What a sweep takes over from those that it refines: trials, or points to run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.record.record import Record
from tests.support.searched import carried_out, peak, searched
from tests.sweeps.plan.refining import coarse_grid, ranges_of, refined, space_file


def test_one_trial_that_lies_in_the_new_ranges_is_one(place: Path) -> None:
    coarse_grid(place, peak(0.03))
    said = describe(refined("results/grid", "--ranges", "lr=0.009..0.011", "hidden=16"))
    assert "1 trial in the new ranges: each counts here and is not repeated" in said


def test_what_was_tried_is_not_tried_again(place: Path) -> None:
    space = space_file("refine_tiny", "'hidden': tune.qrandint(8, 256, 8)")
    before = searched(place, "tiny", lambda p: p["hidden"] / 300, search_space=space, num_trials=16)
    after = carried_out(refined("results/tiny", "--refine-keep", "1"), lambda p: p["hidden"] / 300)
    tried = {trial.params["hidden"] for trial in before.record.trials}
    assert tried.isdisjoint({trial.params["hidden"] for trial in after.record.trials})


def test_a_space_that_was_tried_whole_is_refused_and_no_more_trials_are_planned_than_points_are_left(
    place: Path,
) -> None:
    space = space_file("refine_whole", "'hidden': tune.choice([8, 16, 24, 32])")
    searched(place, "whole", lambda p: p["hidden"] / 300, search_space=space, num_trials=4)
    with pytest.raises(UserError, match="all 4 points of the search space were tried there; give wider --ra"):
        refined("results/whole")
    searched(place, "part", lambda p: p["hidden"] / 300, search_space=space, num_trials=3)
    assert refined("results/part").config.num_trials == 1


def test_what_was_interrupted_is_tried_again(place: Path) -> None:
    """The best point of all may have been training when its sweep was interrupted."""
    space = space_file("refine_broken", "'hidden': tune.choice([8, 16, 24, 32])")
    settings: dict[str, Any] = {"trainable": "digits_mlp", "search_space": space, "searcher": "random"}
    plan = make_plan(
        SweepConfig.from_settings(
            name="broken", results_dir=str(place), num_trials=4, max_epochs=9, **settings
        )
    )
    carried_out(plan, lambda p: p["hidden"] / 300, trials=3)
    record = Record.reopen(plan.folder)
    begun = plan.searcher.build(plan.config, plan.space, record).suggest("")
    record.report(begun["number"], 1, 0.1, {"val_acc": 0.1}, 0.1)
    after = carried_out(refined("results/broken"), lambda p: p["hidden"] / 300)
    assert [trial.params for trial in after.record.trials] == [begun["params"]]


def test_other_data_runs_the_best_again_first(place: Path) -> None:
    before = searched(place, "wide", peak(0.03), num_trials=20)
    plan = refined("results/wide", "--params", "batch_size=32")
    assert "its scores are not comparable: the fixed hyperparameters differ" in describe(plan)
    sweep = carried_out(plan, peak(0.03), trials=5)
    best = before.record.best()
    assert best is not None
    origins = [trial.origin for trial in sweep.record.trials]
    assert origins[0] == f"trial {best.number} of wide"
    assert all(origins[:3])
    assert origins[3:] == ["", ""]
    assert dict(sweep.record.trials[0].params) == dict(best.params)
    assert sweep.record.trials[0].fixed["batch_size"] == 32
    assert [trial.origin for trial in Record.read(plan.folder).trials] == origins


def test_other_code_runs_the_best_again_first_and_says_what_changed(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=20)
    record = Record.reopen(place / "wide")
    then = json.loads(json.dumps(record.about["identity"]))
    then["code"]["trainables/digits_mlp.py"] = "another"
    then["code"]["sweeps/searchers/random.py"] = "another"
    record.note("identity", then)
    plan = refined("results/wide")
    said = describe(plan)
    assert "its scores are not comparable: trainables/digits_mlp.py: its code" in said
    assert "random.py" not in said, "no score depends on who proposed"
    assert plan.lineage is not None
    assert not plan.lineage.earlier.trials
    assert len(plan.lineage.earlier.anchors) == 3


@pytest.mark.parametrize(("gpu", "knows"), [("NVIDIA T4", False), ("", True)])
def test_scores_of_another_precision_are_not_comparable(gpu: str, knows: bool, place: Path) -> None:
    """`auto` is fp16 on a GPU; here a trial has none."""
    carried_out(
        make_plan(
            SweepConfig.from_settings(
                name="wide", results_dir=str(place), trainable="digits_mlp", num_trials=10
            )
        ),
        peak(0.03),
        gpu=gpu,
    )
    plan = refined("results/wide", "--gpus-per-trial", "0")
    assert plan.lineage is not None
    assert bool(plan.lineage.earlier.trials) is knows
    assert ("--precision auto: fp16 there, fp32 here" in describe(plan)) is not knows


def test_an_anchor_that_another_parent_has_run_again_is_known(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=20)
    batch = ["--params", "batch_size=32", "--num-trials", "8"]
    second = carried_out(refined("results/wide", *batch), peak(0.03))
    origins = [trial.origin for trial in second.record.trials[:3]]
    assert all(origins)
    plan = refined("results/wide", "results/wide-refined", *batch, "--refine-keep", "1")
    assert plan.lineage is not None
    assert plan.lineage.earlier.anchors == []


def test_what_a_parent_took_over_is_named_in_the_plan(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=20)
    carried_out(refined("results/wide", "--num-trials", "8"), peak(0.03))
    alone, both = refined("results/wide-refined"), refined("results/wide-refined", "results/wide")
    said = "it refined wide, whose trials count only if --refine names wide too"
    assert said in describe(alone)
    assert said not in describe(both)


def test_several_parents_are_matched_by_hyperparameter(place: Path) -> None:
    space = space_file("refine_one", "'lr': tune.loguniform(1e-3, 1.0)")
    searched(place, "all", peak(0.03), num_trials=20)
    searched(place, "one", peak(0.03), num_trials=20, search_space=space)
    plan = refined("results/all", "results/one")
    assert plan.lineage is not None
    assert [parent["name"] for parent in plan.lineage.parents] == ["all", "one"]
    assert ranges_of(plan).keys() == {"lr", "momentum", "hidden"}
    other = refined("results/one", "results/all")
    assert ranges_of(other).keys() == {"lr"}
    assert other.config.seed == 1
    said = describe(other)
    assert "all: 20 trials ended" in said
    assert "its scores are not comparable: the fixed hyperparameters differ" in said

"""The plan: defaults settled, what can't be refused, and all of it in words before anything runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.common.local_dirs import DATA_DIR_VARIABLE
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan import build
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.plan import Plan
from sweeps.ray_cluster import placement
from sweeps.ray_cluster.nodes import PC
from sweeps.record.record import Record
from sweeps.schedulers import asha, halving, hyperband
from sweeps.search.rungs import rungs
from tests.sweeps.common.plug_in_files import TRAINABLE
from tests.sweeps.plan.planned import config
from tests.sweeps.plan.refining import user_file


def test_making_a_plan_writes_nothing(tmp_path: Path) -> None:
    describe(make_plan(config(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_the_plan_settles_every_default(tmp_path: Path) -> None:
    settled = make_plan(config(tmp_path, name=None)).config
    assert (settled.search_space, settled.metric, settled.mode) == ("digits_mlp", "val_acc", "max")
    assert settled.num_trials == 24
    assert re.fullmatch(r"digits_mlp-\d{8}-\d{6}(-\d+)?", str(settled.name))


@pytest.mark.parametrize(
    ("command", "scheduler"),
    [("true {x}", "asha"), ("true {x} {checkpoint_dir}", "halving")],
)
def test_trials_that_save_nothing_are_not_paused_by_default(
    command: str, scheduler: str, tmp_path: Path
) -> None:
    asked = config(tmp_path, trainable=f"command:{command}", ranges={"x": "0..1"}, metric="score:max")
    assert make_plan(asked).config.scheduler == scheduler


def test_what_was_asked_for_is_not_settled_otherwise(tmp_path: Path) -> None:
    asked = config(tmp_path, num_trials=5, metric="val_loss", mode="min", search_space="digits_mlp")
    asked = asked.changed(searcher="gp", scheduler="asha")
    assert make_plan(asked).config == asked


def test_a_metric_of_ones_own_does_not_take_the_mode_of_another(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--mode"):
        make_plan(config(tmp_path, metric="val_loss"))


@pytest.mark.parametrize("given", [0.03, [0.03], "0.01..0.1"])
def test_a_hyperparameter_with_two_values_is_refused(given: Any, tmp_path: Path) -> None:
    both = config(tmp_path, params={"lr": 0.1}, ranges={"lr": given})
    with pytest.raises(UserError, match=r"^--ranges lr: --params fixes it, too; give one$"):
        make_plan(both)
    with pytest.raises(UserError, match=r"^--freeze lr: --params fixes it, too; give one$"):
        make_plan(both.changed(freeze={"lr": 0.03}))


def test_a_resume_goes_on_with_the_value_of_params_where_an_older_release_took_two(tmp_path: Path) -> None:
    both = config(tmp_path, params={"lr": 0.1}, ranges={"lr": 0.03}, resume=str(tmp_path / "s"))
    assert make_plan(both).models[0].space.fixed["lr"] == 0.1


@pytest.mark.parametrize("given", ["0.01...1", "0.01...1:log"])
def test_a_range_with_three_dots_is_refused_but_of_a_sweep_that_has_begun(given: str, tmp_path: Path) -> None:
    asked = config(tmp_path, ranges={"lr": given})
    begun = asked.changed(resume=str(tmp_path / "s"))
    for typed in (asked, begun.changed(typed=frozenset({"ranges"}))):
        with pytest.raises(UserError, match=rf"^--ranges lr={given}: must be two numbers, LOW\.\.HIGH$"):
            make_plan(typed)
    assert make_plan(begun).config.ranges == {"lr": given}
    assert make_plan(asked.changed(ranges={"lr": "0.01.. .1"})).config.ranges == {"lr": "0.01.. .1"}


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with pytest.raises(UserError, match=r"--name s: .*s exists already; give another name"):
        make_plan(config(tmp_path))
    Record.create(tmp_path / "s", "s", "max", {"metric": "m"})
    resume = r"to continue that sweep: .*run --resume .*/s; else give another name"
    with pytest.raises(UserError, match=rf"--name s: .*s exists already; {resume}"):
        make_plan(config(tmp_path))


def test_more_cpus_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a trial takes 900 CPUs .*--cpus-per-trial.*; no PC has that"):
        make_plan(config(tmp_path, cpus_per_trial=900))


def test_more_gpus_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"900 GPUs .*--gpus-per-trial"):
        make_plan(config(tmp_path, gpus_per_trial=900))


@pytest.mark.parametrize(
    ("changes", "cpus", "gpus", "slots"),
    [
        ({}, 8, 0, 8),
        ({"cpus_per_trial": 3}, 8, 0, 2),
        ({}, 8, 2, 2),  # a GPU each, where there are any
        ({"gpus_per_trial": 0.5}, 8, 2, 4),
        ({"gpus_per_trial": 0.1}, 16, 1, 10),
        ({"gpus_per_trial": 0.28}, 40, 7, 21),  # three on each: a trial stands on one GPU
        ({"gpus_per_trial": 0}, 8, 2, 8),
        ({"max_concurrent": 3}, 8, 0, 3),
        ({"max_concurrent": 30}, 8, 0, 8),
    ],
)
def test_as_many_trials_run_at_a_time_as_the_resources_hold(
    changes: dict[str, Any], cpus: int, gpus: int, slots: int
) -> None:
    assert placement.slots(SweepConfig().changed(**changes), [PC(cpus, gpus)]) == slots


@pytest.fixture
def small_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user's space of six points."""
    package = f"spaces_{tmp_path.name}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "small.py").write_text(
        "from ray import tune\n"
        "SPACE = {'hidden': tune.choice([8, 16, 32]), 'batch_size': tune.choice([32, 64])}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return f"{package}.small"


@pytest.mark.parametrize(
    ("searcher", "asked", "expected"),
    [("grid", None, 6), ("grid", 4, 4), ("grid", 50, 6), ("random", None, 6), ("tpe", 50, 6), ("tpe", 5, 5)],
)
def test_there_are_no_more_trials_than_points_and_a_grid_is_tried_whole(
    searcher: str, asked: int | None, expected: int, small_space: str, tmp_path: Path
) -> None:
    made = make_plan(config(tmp_path, searcher=searcher, num_trials=asked, search_space=small_space))
    assert made.config.num_trials == expected
    assert "2 hyperparameters, 6 points" in describe(made)


def baselines_of(plan: Plan) -> list[Any]:
    return [each.point.params if each.point else each.why_not for each in plan.baselines]


def test_the_defaults_are_one_of_the_trials_beside_those_of_the_user_s_own(tmp_path: Path) -> None:
    made = make_plan(config(tmp_path))
    assert baselines_of(made) == [{"lr": 0.05, "momentum": 0.9, "hidden": 32}]
    assert "\ndefaults   trial 0: lr=0.05, momentum=0.9, hidden=32\n" in describe(made)
    assert baselines_of(make_plan(config(tmp_path, baseline=False))) == []
    tries = [{"lr": 0.1, "momentum": 0.5, "hidden": hidden} for hidden in (8, 16)]
    one_more = make_plan(config(tmp_path, tries=tries, num_trials=3))
    assert (one_more.config.num_trials, baselines_of(one_more)) == (3, baselines_of(made))
    full = make_plan(config(tmp_path, tries=tries, num_trials=2))
    assert baselines_of(full) == ["no trial of --num-trials is left for them"]
    assert "\ndefaults   not tried: no trial of --num-trials is left for them\n" in describe(full)


def test_a_grid_has_one_trial_more_for_defaults_that_are_none_of_its_points(tmp_path: Path) -> None:
    grid = {"searcher": "grid", "search_space": "tests.faulty.digits_grid"}
    made = make_plan(config(tmp_path, **grid))
    assert (made.space.size(), made.points, made.config.num_trials) == (8, 9, 9)
    assert "(lr: outside the space, and tried all the same)" in " ".join(describe(made).split())
    of_grid = make_plan(config(tmp_path, ranges={"lr": [0.05, 0.1]}, **grid))
    assert (of_grid.points, of_grid.config.num_trials) == (4, 4)
    assert make_plan(config(tmp_path, num_trials=5, **grid)).config.num_trials == 5


@pytest.mark.parametrize("trials", [9, 24, 200])
@pytest.mark.parametrize("scheduler", [asha.Scheduler, halving.Scheduler, hyperband.Scheduler])
def test_pruning_saves_epochs_but_not_those_before_the_first_rung(scheduler: Any, trials: int) -> None:
    config = SweepConfig.from_settings(num_trials=trials)
    expected = scheduler.expected_epochs(config)
    assert trials * rungs(config)[0] < expected < trials * config.max_epochs
    assert scheduler.expected_epochs(config) == expected


def test_missing_data_is_found_before_anything_runs_with_the_three_ways_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"Fashion-MNIST.*empty") as raised:
        make_plan(config(tmp_path, trainable="fashion_cnn"))
    for way in (
        "apt-get install dataset-fashion-mnist",
        "python -m trainables._shared.fashion_mnist",
        "--data-dir",
    ):
        assert way in str(raised.value)


def test_a_trainable_that_says_nothing_of_its_data_is_planned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"quiet_{tmp_path.name}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "model.py").write_text(
        "from trainables.digits_mlp import METRIC, MODE, Params, build_data, build_model\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    made = make_plan(config(tmp_path, trainable=f"{package}.model", search_space="digits_mlp"))
    assert made.models[0].data == f"as {package}.model.build_data has it"


def test_the_default_number_of_trials_is_as_the_flag_says() -> None:
    assert f"(default: {build.DEFAULT_TRIALS};" in SweepConfig.settings()["num_trials"].doc


@pytest.mark.parametrize("scheduler", [asha.Scheduler, halving.Scheduler, hyperband.Scheduler])
def test_the_plan_of_very_many_trials_is_made_too(scheduler: Any) -> None:
    many = SweepConfig.from_settings(num_trials=1_000_000)
    assert 3_000_000 < scheduler.expected_epochs(many) < 27_000_000


def test_fp16_without_a_gpu_is_refused_before_anything_runs() -> None:
    with pytest.raises(UserError, match="--precision 16-mixed: fp16 needs a GPU, and a trial has none here"):
        build.make_plan(
            SweepConfig.from_settings(trainable="digits_mlp", precision="16-mixed", gpus_per_trial=0)
        )


@pytest.mark.parametrize(
    ("searcher", "expected"),
    [("gp", "halving"), ("random", "halving"), ("tpe", "halving"), ("grid", "halving"), ("bohb", "bohb")],
)
def test_a_searcher_without_a_scheduler_takes_its_own(
    searcher: str, expected: str, small_space: str, tmp_path: Path
) -> None:
    made = make_plan(config(tmp_path, searcher=searcher, search_space=small_space))
    assert made.config.scheduler == expected
    assert made.scheduler.__module__ == f"sweeps.schedulers.{expected}"


def test_trials_shorter_than_the_default_first_rung_are_not_pruned(tmp_path: Path) -> None:
    made = make_plan(config(tmp_path, max_epochs=2, num_trials=5))
    assert made.scheduler.expected_epochs(made.config) == 10
    assert "no rung before the end at 2 epochs, so nothing is pruned" in " ".join(describe(made).split())


@pytest.mark.parametrize(("trials", "epochs"), [(1, 27), (2, 2 * 3 + 6 + 18)])
def test_few_trials_still_train_one_to_the_end(trials: int, epochs: int, tmp_path: Path) -> None:
    made = make_plan(config(tmp_path, num_trials=trials))
    assert made.scheduler.expected_epochs(made.config) == epochs


def test_a_space_with_one_point_is_one_trial(tmp_path: Path) -> None:
    space = tmp_path / "one.py"
    space.write_text("from ray import tune\nSPACE = {'lr': tune.choice([0.1])}\n")
    made = make_plan(config(tmp_path, search_space=str(space), baseline=False))
    assert (made.config.num_trials, made.scheduler.expected_epochs(made.config)) == (1, 27)


def test_a_misspelt_scheduler_is_answered_with_the_schedulers(tmp_path: Path) -> None:
    expected = "--scheduler halvin: no such scheduler. Did you mean 'halving'"
    with pytest.raises(UserError, match=expected):
        make_plan(config(tmp_path, scheduler="halvin"))


BOUND = f"""{TRAINABLE}

def trainer_options(params):
    return dict(gradient_clip_val=params.lr, max_epochs=3, gradient_clip=1)
"""


def test_options_of_the_trainer_that_can_not_be_taken_end_a_plan(place: Path) -> None:
    user_file("bound_options", BOUND)
    with pytest.raises(UserError) as raised:
        make_plan(config(place, trainable="bound_options", ranges={"lr": "0.1..1"}))
    first, second = str(raised.value).splitlines()
    assert first.startswith("--trainable bound_options: trainer_options: max_epochs: the sweep sets it: ")
    assert second.startswith("--trainable bound_options: trainer_options: gradient_clip: no such setting")
    assert "Did you mean 'gradient_clip_val'?" in second


SEVERAL = ["val_acc:max", "val_loss:min"]


def test_with_several_objectives_the_searcher_is_tpe_and_the_plan_names_all(tmp_path: Path) -> None:
    made = make_plan(config(tmp_path, searcher=None, metric=SEVERAL))
    assert (made.config.searcher, made.config.metric, made.config.mode) == ("tpe", SEVERAL, None)
    assert made.config.objectives.metrics == ["val_acc", "val_loss"]
    assert "val_acc (max), val_loss (min)" in describe(made)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"searcher": "gp"}, r"--searcher gp: it proposes by one metric, .* has 2\. Searchers .* tpe"),
        ({"searcher": "random", "scheduler": "hyperband"}, "hyperband: it prunes by one metric, .*: asha"),
        ({"searcher": "bohb"}, "--searcher bohb: .*\n--scheduler bohb: it prunes by one metric"),
    ],
)  # fmt: skip
def test_what_goes_by_one_metric_is_refused_with_several_and_those_that_do_not_are_named(
    given: dict[str, str], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=expected):
        make_plan(config(tmp_path, metric=SEVERAL, **given))


def test_one_metric_may_have_its_mode_too(tmp_path: Path) -> None:
    made = make_plan(config(tmp_path, metric="val_loss:min"))
    assert (made.config.metric, made.config.mode) == ("val_loss", "min")

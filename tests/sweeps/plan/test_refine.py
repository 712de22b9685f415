"""`--refine`: the next sweep has ranges by what the earlier ones showed, and knows their trials."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeps.analysis.new_ranges import changes
from sweeps.common.errors import UserError
from sweeps.common.objective import Objective
from sweeps.config import cli
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.plan import Plan
from sweeps.record.record import Record
from sweeps.run import main as run_main
from sweeps.search.known_trials import KnownTrials
from sweeps.space.flat import FlatSpace
from tests.conftest import Command
from tests.support.searched import carried_out, peak, searched
from tests.sweeps.plan.refining import coarse_grid, ranges_of, refined, space_file, user_file

LAYERS = (
    "def suggest(trial):\n"
    '    hidden = trial.suggest_int("hidden", 8, 64, step=8)\n'
    '    trial.suggest_float("lr", 1e-3, 1.0 if hidden < 32 else 0.3, log=True)\n'
)
PICKY = (
    "from dataclasses import dataclass\n"
    'METRIC, MODE = "val_acc", "max"\n'
    "@dataclass(frozen=True, kw_only=True)\n"
    "class Params:\n"
    "    lr: float = 0.01\n"
    "    momentum: float = 0.0\n"
    "    hidden: int = 8\n"
    "    batch_size: int = 64\n"
    "    def __post_init__(self):\n"
    "        if self.lr > 1.5:\n"
    '            raise ValueError("lr: at most 1.5")\n'
    "def build_model(params): ...\n"
    "def build_data(params): ...\n"
)


def is_in(plan: Plan, params: Mapping[str, Any]) -> bool:
    ranges = ranges_of(plan)
    return params.keys() == ranges.keys() and all(
        value in ranges[name] if len(ranges[name]) > 2 else ranges[name][0] <= value <= ranges[name][-1]
        for name, value in params.items()
    )


def test_a_grid_is_refined_around_its_best_points(place: Path) -> None:
    coarse_grid(place, peak(0.03))
    plan = refined("results/grid")
    assert ranges_of(plan) == {"lr": (0.001, 0.1), "hidden": (8, 16, 32)}
    config = plan.config
    assert (config.name, config.seed, config.searcher) == ("grid-refined", 1, "gp")
    assert (config.trainable, config.num_trials, config.max_epochs) == ("digits_mlp", 12, 9)
    said = describe(plan)
    assert "lr: grid of 0.001, 0.01, 0.1, 1.0 -> 0.001 to 0.1, log scale" in said
    assert "9 trials in the new ranges" in said


def test_the_report_shows_the_ranges_that_a_refined_sweep_takes(place: Path) -> None:
    def diverges(params: Mapping[str, Any]) -> float:
        return math.nan if params["lr"] > 0.12 else 0.5 + params["momentum"] / 10

    coarse_grid(place, peak(0.03))
    searched(place, "dead", diverges, num_trials=40, scheduler="none")
    for name, changed in (("grid", {"lr"}), ("dead", {"lr", "momentum"})):
        found = changes(Record.read(place / name))
        assert {each.hyperparameter for each in found} >= changed
        said = " ".join(describe(refined(f"results/{name}")).split())
        for each in found:
            assert f"{each.hyperparameter}: {each.old} -> {each.new} ({each.why})" in said


@pytest.mark.parametrize("searcher", ["random", "tpe"])
def test_grid_then_random_or_tpe_around_the_best_finds_better(searcher: str, place: Path) -> None:
    coarse_grid(place, peak(0.03))
    plan = refined("results/grid", "--searcher", searcher)
    sweep = carried_out(plan, peak(0.03))
    assert len(sweep.record.trials) == 12
    assert all(is_in(plan, trial.params) for trial in sweep.record.trials)
    before, after = Record.read(place / "grid").best(), sweep.record.best()
    assert before is not None
    assert after is not None
    assert (after.best_score(Objective("m", "max")) or 0) > (before.best_score(Objective("m", "max")) or 0)


def test_a_grid_whose_best_point_is_its_last_goes_on_behind_it(place: Path) -> None:
    coarse_grid(place, peak(10.0))
    low, high = ranges_of(refined("results/grid"))["lr"]
    assert low == 0.1
    assert high == pytest.approx(10.0)


@pytest.mark.parametrize("searcher", ["random", "tpe", "bohb", "grid"])
@pytest.mark.parametrize("keep", ["0.1", "0.5", "1"])
def test_all_proposals_stay_in_the_new_space(searcher: str, keep: str, place: Path) -> None:
    space = space_file(
        "refine_steps", "'lr': tune.qloguniform(0.01, 1.0, 0.01), 'hidden': tune.qrandint(8, 64, 8)"
    )
    searched(place, "wide", peak(0.2), search_space=space, num_trials=20)
    scheduler = {"bohb": "bohb", "grid": "asha"}.get(searcher, "asha")
    plan = refined("results/wide", "--searcher", searcher, "--scheduler", scheduler, "--refine-keep", keep)
    sweep = carried_out(plan, peak(0.2))
    assert sweep.record.trials
    assert all(is_in(plan, trial.params) for trial in sweep.record.trials)


def test_a_smaller_share_is_kept_more_narrowly(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=40, scheduler="none")
    widths = []
    for keep in ("0.1", "0.3", "1"):
        low, high = ranges_of(refined("results/wide", "--refine-keep", keep))["lr"]
        assert low < 0.03 < high
        widths.append(math.log(high / low))
    assert widths == sorted(widths)
    assert widths[-1] == pytest.approx(math.log(1000))


def test_a_widened_end_that_params_refuse_stays_where_it_was(place: Path) -> None:
    model = user_file("refine_picky", PICKY)
    searched(place, "picky", peak(30.0), trainable=model, search_space="digits_mlp", num_trials=24)
    assert ranges_of(refined("results/picky"))["lr"][1] == 1.0
    searched(place, "free", peak(30.0), num_trials=24)
    assert ranges_of(refined("results/free"))["lr"][1] > 1.5


def test_a_region_where_all_diverge_is_cut_off(place: Path) -> None:
    def diverges(params: Mapping[str, Any]) -> float:
        return math.nan if params["lr"] > 0.12 else 0.5 + params["momentum"] / 10

    searched(place, "dead", diverges, num_trials=40, scheduler="none")
    assert ranges_of(refined("results/dead"))["lr"][1] < 0.16


def test_choices_that_were_never_good_are_dropped(place: Path) -> None:
    space = space_file(
        "refine_choice", "'lr': tune.loguniform(1e-3, 1.0), 'hidden': tune.choice([8, 16, 32, 64])"
    )
    score = {8: 0.1, 16: 0.8, 32: 0.9, 64: 1.0}
    searched(
        place,
        "c",
        lambda p: score[p["hidden"]] + p["lr"] / 100,
        search_space=space,
        num_trials=40,
        scheduler="none",
    )
    plan = refined("results/c")
    assert 8 not in ranges_of(plan)["hidden"]
    assert {32, 64} <= set(ranges_of(plan)["hidden"])
    assert "never good: 8" in describe(plan)
    assert "the best have its largest: try a larger one" in describe(plan)
    wider = space_file(
        "refine_wider", "'lr': tune.loguniform(1e-3, 1.0), 'hidden': tune.choice([32, 64, 96])"
    )
    assert "try a larger one" not in describe(refined("results/c", "--search-space", wider))


def test_tpe_learns_from_the_earlier_trials_at_their_fidelity(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=40)
    plan = refined(
        "results/wide", "--searcher", "tpe", "--ranges", "lr=0.001..1", "hidden=8..64", "momentum=0..0.95"
    )
    assert plan.lineage is not None
    assert len(plan.lineage.earlier.trials) == 40
    sweep = carried_out(plan, peak(0.03), trials=8)
    assert KnownTrials(plan.config, plan.space, sweep.record).fidelity(10) == 9
    off = [abs(math.log10(float(trial.params["lr"]) / 0.03)) for trial in sweep.record.trials]
    assert sorted(off)[4] < 0.35, (
        "of a range of three decades: drawn at random, half lie further off than 0.75"
    )


def test_bohb_has_a_model_from_its_first_trial(place: Path) -> None:
    space = space_file("refine_lr", "'lr': tune.loguniform(1e-3, 1.0)")
    searched(place, "wide", peak(0.03), search_space=space, num_trials=40, scheduler="none")
    plan = refined("results/wide", "--searcher", "bohb", "--scheduler", "bohb", "--ranges", "lr=0.001..1")
    sweep = carried_out(plan, peak(0.03), trials=5)
    off = [abs(math.log10(float(trial.params["lr"]) / 0.03)) for trial in sweep.record.trials]
    assert sorted(off)[2] < 0.5


@pytest.mark.slow
def test_it_resumes_as_one_that_was_not_interrupted_without_its_parents_folder(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=24)
    whole = carried_out(refined("results/wide", "--searcher", "tpe", "--name", "whole"), peak(0.03))
    plan = refined("results/wide", "--searcher", "tpe", "--name", "broken")
    carried_out(plan, peak(0.03), trials=5)
    shutil.rmtree(place / "wide")
    again = make_plan(cli.parse(["--resume", "results/broken"]))
    assert [model.space.describe() for model in again.models] == [m.space.describe() for m in plan.models]
    broken = carried_out(again, peak(0.03))
    assert [t.params for t in broken.record.trials] == [t.params for t in whole.record.trials]
    assert [parent["name"] for parent in broken.about["parents"]] == ["wide"]
    assert broken.about["parents"][0]["folder"] == str(place / "wide")
    assert "changed" not in str([run["changed"] for run in broken.about["runs"] if run["changed"]])


@pytest.mark.slow
def test_its_own_yaml_repeats_it(place: Path) -> None:
    searched(place, "wide", peak(0.03), num_trials=40)
    first = carried_out(refined("results/wide", "--searcher", "tpe", "--num-trials", "6"), peak(0.03))
    settings = yaml.safe_load((first.folder / "sweep.yaml").read_text())
    assert settings["refine"] == "results/wide"
    config = cli.parse(["--config", str(first.folder / "sweep.yaml"), "--name", "again"])
    again = carried_out(make_plan(config), peak(0.03))
    assert [t.params for t in again.record.trials] == [t.params for t in first.record.trials]


def test_a_refined_sweep_is_refined_on_in_its_own_ranges(place: Path) -> None:
    coarse_grid(place, peak(0.03))
    carried_out(refined("results/grid", "--searcher", "tpe", "--num-trials", "20"), peak(0.03))
    plan = refined("results/grid-refined")
    assert (plan.config.name, plan.config.seed) == ("grid-refined-2", 3)
    low, high = ranges_of(plan)["lr"]
    assert 0.001 <= low < 0.03 < high <= 0.1
    assert high / low < 100


def test_a_name_is_counted_where_the_sweep_shall_stand(place: Path) -> None:
    coarse_grid(place, peak(0.03))
    (place.parent / "elsewhere" / "grid-refined").mkdir(parents=True)
    by_flag = refined("results/grid", "--results-dir", "elsewhere").config
    assert (by_flag.name, by_flag.results_dir, by_flag.seed) == ("grid-refined-2", "elsewhere", 2)
    Path("there.yaml").write_text("results_dir: elsewhere\n")
    by_file = refined("results/grid", "--config", "there.yaml").config
    assert (by_file.name, by_file.results_dir) == ("grid-refined-2", "elsewhere")
    assert refined("results/grid").config.name == "grid-refined"


def test_a_space_that_is_a_function_keeps_its_ranges_and_knows_the_trials(place: Path) -> None:
    space = user_file("refine_layers", LAYERS)
    searched(place, "layers", peak(0.03), search_space=space, num_trials=20)
    plan = refined("results/layers", "--searcher", "tpe", "--num-trials", "4")
    assert "is a function suggest(trial): its ranges stay as they are" in describe(plan)
    assert plan.lineage is not None
    assert len(plan.lineage.earlier.trials) == 20
    assert len(carried_out(plan, peak(0.03)).record.trials) == 4


@pytest.mark.slow
def test_several_trainables_are_each_refined_by_their_own_trials(place: Path) -> None:
    other = user_file("refine_second", PICKY)
    both = {"trainable": ["digits_mlp", other], "search_space": ["digits_mlp", "digits_mlp"]}
    searched(place, "both", peak(0.03), num_trials=60, scheduler="none", **both)
    plan = refined("results/both", "--num-trials", "6", "--searcher", "tpe")
    assert {name.partition(".")[0] for name in plan.config.ranges} == {"digits_mlp", other}
    sweep = carried_out(plan, peak(0.03))
    assert len(sweep.record.trials) == 6
    assert plan.lineage is not None
    assert {trial.trainable for trial in plan.lineage.earlier.trials} == {"digits_mlp", other}


def test_few_trials_narrow_nothing_and_are_known(place: Path) -> None:
    searched(place, "few", peak(0.03), num_trials=4)
    plan = refined("results/few")
    assert "unchanged: fewer than 8 trials" in describe(plan)
    assert ranges_of(plan)["lr"] == (0.001, 1.0)
    assert plan.lineage is not None
    assert len(plan.lineage.earlier.trials) == 4


def test_a_dry_run_shows_the_ranges_and_makes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    searched(place, "wide", peak(0.03), num_trials=20)
    assert run_main(["--refine", "results/wide", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "lr: 0.001 to 1, log scale -> " in said
    assert [folder.name for folder in place.iterdir()] == ["wide"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--refine", "results/wid"], "--refine results/wid: no such folder. Did you mean 'results/wide'?"),
        (["--refine", "results"], "--refine results: a folder of sweeps, not a sweep. Give one of results/"),
        (["--refine", "results/torn"], "record.journal: line 4 is damaged"),
        (
            ["--refine", "results/wide", "--trainable", "fashion_cnn"],
            "it trained digits_mlp, this sweep trains fashion_cnn",
        ),
        (["--refine", "results/wide", "--mode", "min"], "its mode is max, that of this sweep is min"),
        (
            ["--refine", "results/wide", "results/loss"],
            "its metric is val_loss, that of this sweep is val_acc",
        ),
        (
            ["--refine", "results/dead"],
            "4 trials ended, and none is finished or pruned: there is nothing to learn from",
        ),
        (
            ["--refine", "results/wide", "--resume", "results/wide"],
            "--refine can't be combined with --resume: it starts a new sweep",
        ),
        (
            ["--refine", "results/wide", "--refine-keep", "0"],
            "--refine-keep 0: must be above 0 and at most 1",
        ),
        (
            ["--refine", "results/wide", "--refine-keep", "1.5"],
            "--refine-keep 1.5: must be above 0 and at most 1",
        ),
        (["--refine-keep", "0.5"], "--refine-keep needs --refine"),
        (
            ["--refine", "results/wide", "--ranges", "lrr=0..1"],
            "--ranges lrr: no such hyperparameter. Did you mean 'lr'?",
        ),
    ],
)
def test_a_mistake_is_answered_before_anything_starts(
    arguments: list[str],
    expected: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # this process has imported Ray
    searched(place, "wide", peak(0.03), num_trials=8)
    if "dead" in str(arguments):
        searched(place, "dead", lambda params: math.nan, num_trials=4)
    if "loss" in str(arguments):
        searched(place, "loss", peak(0.03), num_trials=4, metric="val_loss", mode="max")
    if "torn" in str(arguments):
        shutil.copytree(place / "wide", place / "torn")
        lines = (place / "torn" / "record.journal").read_text().splitlines()
        lines[3] = lines[3][:20]
        (place / "torn" / "record.journal").write_text("\n".join(lines) + "\n")
    there = sorted(path.name for path in place.iterdir())
    assert run_main([*arguments, "--no-dashboard"]) == 2
    assert expected in capsys.readouterr().err
    assert sorted(path.name for path in place.iterdir()) == there


def test_ranges_need_a_space_that_has_them(place: Path) -> None:
    space = user_file("refine_function", LAYERS)
    with pytest.raises(UserError, match="is a function suggest"):
        make_plan(
            cli.parse(["--trainable", "digits_mlp", "--search-space", space, "--ranges", "lr=0.1..0.2"])
        )


@pytest.mark.long
@pytest.mark.parametrize("searcher", ["random", "tpe"])
def test_real_sweeps_grid_then_refined_then_resumed_without_the_grid(
    searcher: str, sweep: Command, place: Path
) -> None:
    common = ("--no-dashboard", "--results-dir", str(place))
    grid = sweep(
        *("--trainable", "digits_mlp", "--search-space", "tests.faulty.digits_grid", "--searcher", "grid"),
        *("--scheduler", "none", "--max-epochs", "2", "--name", "grid", *common),
    )
    assert grid.returncode == 0, grid.stdout + grid.stderr
    first = sweep(
        "--refine", str(place / "grid"), "--searcher", searcher, "--num-trials", "4", "--no-dashboard"
    )
    assert first.returncode == 0, first.stdout + first.stderr
    assert "lr: grid of 0.001, 0.01, 0.1, 1.0 -> " in first.stdout
    shutil.rmtree(place / "grid")
    more = sweep("--resume", str(place / "grid-refined"), "--num-trials", "6", "--no-dashboard")
    assert more.returncode == 0, more.stdout + more.stderr
    record = Record.read(place / "grid-refined")
    assert len(record.trials) == 6
    assert record.about["parents"][0]["name"] == "grid"
    low, high = (float(end) for end in str(record.about["identity"]["settings"]["ranges"]["lr"]).split(".."))
    assert all(low <= float(trial.params["lr"]) <= high for trial in record.trials)


BARE = """
from dataclasses import dataclass

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
    hidden: int = 32


def build_model(params): ...
def build_data(params): ...
"""
BARE_RANGES = {"lr": "1e-3..1.0:log", "hidden": "8..64:8"}


def test_a_trainable_without_a_space_is_refined_in_the_ranges_that_were_its_space(place: Path) -> None:
    user_file("refine_bare", BARE)
    searched(place, "bare", peak(0.03), trainable="refine_bare", ranges=BARE_RANGES, num_trials=30)
    plan = refined("results/bare")
    space = plan.space
    assert isinstance(space, FlatSpace)
    lr = space.domains["lr"].range
    assert lr is not None
    assert lr.is_log
    assert 0.001 <= lr.low < 0.03 < lr.high < 1
    assert space.fixed.keys() | space.domains.keys() == {"lr", "hidden"}
    given = refined("results/bare", "--ranges", "lr=0.01..0.1", "hidden=16,32").space
    assert isinstance(given, FlatSpace)
    assert given.describe() == {"lr": "0.01 to 0.1", "hidden": "one of 16, 32"}


def test_a_sweep_of_ranges_alone_is_resumed_with_its_file(place: Path) -> None:
    user_file("resume_bare", BARE)
    searched(place, "bare", peak(0.03), trainable="resume_bare", ranges=BARE_RANGES, num_trials=4)
    plan = make_plan(cli.parse(["--resume", str(place / "bare")]))
    assert plan.config.ranges == BARE_RANGES
    assert ranges_of(plan) == {"lr": (0.001, 1.0), "hidden": (8, 64)}


def test_a_trainable_without_a_space_and_ranges_is_told_how_to_give_some(place: Path) -> None:
    user_file("plan_bare", BARE)
    with pytest.raises(UserError, match=r"it has no search space\. Give --ranges, as in --ranges lr=1e-4"):
        make_plan(cli.parse(["--trainable", "plan_bare"]))

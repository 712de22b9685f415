"""Figures: each one of each kind of sweep, and what some of them must show."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import plotly.graph_objects as go
import pytest

from sweeps.analysis import fidelity
from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.advice import advise
from sweeps.analysis.figures import costs, style
from sweeps.analysis.figures.failures import causes
from sweeps.analysis.figures.lineage import ancestors
from sweeps.analysis.sweep import Sweep
from sweeps.common.objective import Objective
from sweeps.config.sweep_folder import SWEEP_FILE
from tests.support import kinds
from tests.support.kinds import KINDS, add, begun, drawn, rerun


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sweep]:
    """One of each kind, as a notebook has it."""
    folder = tmp_path_factory.mktemp("kinds")
    return {name: analysis_sweep.load(kinds.write(name, folder / name)) for name in KINDS}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", analysis_figures.FIGURES)
def test_each_figure_of_each_kind_of_sweep_shows_something_or_says_why_not(
    name: str, kind: str, sweeps: dict[str, Sweep]
) -> None:
    figure = analysis_figures.FIGURES[name](sweeps[kind])
    assert isinstance(figure, go.Figure)
    assert figure.layout.title.text
    assert figure.layout.height <= 1000, "a printed page holds no more"
    why = analysis_figures.why_blank(figure)
    assert bool(why) != bool(figure.data)
    json.loads(figure.to_json())


DRAWN = {
    "pruned": set(analysis_figures.FIGURES) - {"seeds", "failures", "lineage"},
    "single": {"learning_curves", "history", "time_spent", "utilization", "timeline"},
    "failed_only": set(),
    "empty": set(),
    "troubled": set(analysis_figures.FIGURES) - {"seeds", "lineage", "rung_survival"},
    "several": set(analysis_figures.FIGURES) - {"seeds", "lineage", "failures", "rung_survival"},
    "conditional": set(analysis_figures.FIGURES) - {"seeds", "lineage", "failures", "rung_survival"},
    "one_hyperparameter": set(analysis_figures.FIGURES)
    - {"seeds", "lineage", "failures", "rung_survival", "importance", "contour"},
}
"""Kind to the figures that show something."""


@pytest.mark.parametrize("kind", DRAWN)
def test_what_can_be_drawn_is_drawn(kind: str, sweeps: dict[str, Sweep]) -> None:
    figures = {name: figure(sweeps[kind]) for name, figure in analysis_figures.FIGURES.items()}
    assert {name for name, figure in figures.items() if not analysis_figures.why_blank(figure)} == DRAWN[kind]


def test_scores_of_different_epochs_are_never_compared(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["pruned"].record)
    assert found is not None
    assert (found.epoch, len(found.scores)) == (1, 30), "20 are needed, and 10 came to epoch 3"
    record = sweeps["pruned"].record
    assert found.scores == {t.number: t.epochs[1].score for t in record.trials}
    assert found.words == "scores at epoch 1, which 30 of 30 trials reached"
    said = analysis_figures.slices(sweeps["pruned"]).layout.title.subtitle.text
    assert found.words in said


def test_of_few_trials_the_epoch_is_the_last_that_two_thirds_reached(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["running"].record)
    assert found is not None
    assert (found.epoch, sorted(found.scores)) == (3, [0, 1, 2, 3, 4, 5])


def test_importance_finds_the_hyperparameter_that_decides(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["pruned"].record)
    assert found is not None
    shares = found.importances
    assert next(iter(shares)) == "lr"
    assert math.isclose(sum(shares.values()), 1)


def test_a_hyperparameter_that_few_trials_had_says_how_many(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.importance(sweeps["conditional"])
    assert sorted(figure.data[0].y) == ["lr", "momentum (20 trials)", "optimizer", "width"]
    assert "In brackets: how many trials had" in figure.layout.title.subtitle.text
    assert "In brackets" not in analysis_figures.importance(sweeps["pruned"]).layout.title.subtitle.text


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("running", "needs 20 trials with a score at the same epoch; 6 reached epoch 3"),
        ("empty", "No epoch has been reported"),
        ("constant", "All 24 trials have the same score"),
        ("one_hyperparameter", "fewer than two were varied"),
    ],
)
def test_importance_refuses_what_would_mean_nothing(kind: str, why: str, sweeps: dict[str, Sweep]) -> None:
    assert why in analysis_figures.why_blank(analysis_figures.importance(sweeps[kind]))
    found = fidelity.fidelity(sweeps[kind].record)
    assert found is None or found.importances == {}


def test_that_importance_is_not_told_is_said_of_each_trainable_by_its_own_epoch(tmp_path: Path) -> None:
    """Of 13 of the one and 11 of the other: together they are enough, and they are not compared."""
    record = begun(tmp_path, trainable=["cnn", "mlp"])
    for number in range(24):
        model, epochs = ("mlp", 6) if number < 13 else ("cnn", 2)
        words = {f"{model}.{name}": value for name, value in drawn(number).items()}
        add(record, words, epochs, trainable=model, score=(1.0 + number).__mul__)
    figure = analysis_figures.importance(analysis_sweep.load(tmp_path))
    assert analysis_figures.why_blank(figure) == (
        "mlp: importance needs 20 trials with a score at the same epoch; 13 reached epoch 6. With fewer, "
        "importance would be chance. cnn: importance needs 20 trials with a score at the same epoch; 11 "
        "reached epoch 2. With fewer, importance would be chance."
    )


def test_hyperparameters_are_of_less_weight_only_where_weights_are_shown(tmp_path: Path) -> None:
    from optuna.distributions import FloatDistribution

    ranges = {f"k{n}": FloatDistribution(0.0, 1.0) for n in range(10)}
    for trials, words in (
        (5, "; 2 hyperparameters left out"),
        (24, "; 2 hyperparameters of less importance left out"),
    ):
        folder = tmp_path / str(trials)
        record = begun(folder)
        for number in range(trials):
            params = {name: 0.37 * (number + 1) * (place + 2) % 1 for place, name in enumerate(ranges)}
            add(record, params, 1, ranges=ranges, score=params["k0"].__mul__)
        assert words in analysis_figures.slices(analysis_sweep.load(folder)).layout.title.subtitle.text


def test_hyperparameters_of_several_trainables_are_told_apart(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["several"].record)
    assert found is not None
    hyperparameters = [f"{model}.{name}" for model in ("cnn", "mlp") for name in ("lr", "momentum", "width")]
    assert sorted(found.tried.ranges) == sorted(["trainable", *hyperparameters])


def test_without_importance_the_first_hyperparameters_of_the_space_are_paired(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for number in range(8):
        params = drawn(number)
        add(record, {name: params[name] for name in ("width", "lr", "momentum")}, 3)
    figure = analysis_figures.contour(analysis_sweep.load(tmp_path))
    assert figure.layout.xaxis.title.text == "lr"
    assert figure.layout.yaxis.title.text == "width", (
        "the first two; Optuna puts them in the order of letters"
    )
    assert "the first 3 hyperparameters of the space" in figure.layout.title.subtitle.text


def test_a_log_axis_has_ticks_at_powers_of_ten_alone(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.slices(sweeps["pruned"])
    (axis,) = [axis for axis in figure.select_xaxes() if axis.title.text == "lr"]
    assert (axis.dtick, axis.tick0) == (2, -3), "of 1e-3, 1e-2, 1e-1 and 1 each second one"
    assert style.log_ticks([0.02, 0.3]) == {"nticks": style.LOG_TICKS}, "one power of ten is no scale"


def test_choices_are_named_without_quotes_and_have_room(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.slices(sweeps["several"])
    axes = [axis for axis in figure.select_xaxes() if axis.title.text == "trainable"]
    assert [list(axis.ticktext) for axis in axes] == [["cnn", "mlp"]]
    trace = next(trace for trace in figure.data if trace.xaxis == axes[0].plotly_name.replace("axis", ""))
    assert set(trace.x) == set(axes[0].tickvals)
    assert list(axes[0].range) == [-0.5, 1.5]


def test_curves_are_marked_where_trials_stopped_and_rungs_are_lines(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.learning_curves(sweeps["pruned"])
    ends = {trace.name: list(trace.x) for trace in figure.data if trace.mode == "markers"}
    assert {name: sorted(set(epochs)) for name, epochs in ends.items()} == {
        "finished (4)": [9],
        "pruned (26)": [1, 3],
    }
    assert [shape.x0 for shape in figure.layout.shapes] == [1, 3]
    best = sweeps["pruned"].record.best()
    assert best is not None
    assert f"best: trial {best.number}" in [trace.name for trace in figure.data]


def test_of_many_curves_the_best_and_some_others_are_drawn_and_that_is_said(tmp_path: Path) -> None:
    record = begun(tmp_path)
    with record.together():
        for number in range(220):
            add(record, drawn(number), 1, "pruned")
    figure = analysis_figures.learning_curves(analysis_sweep.load(tmp_path))
    assert "200 of 220 trials are drawn" in figure.layout.title.subtitle.text
    best = record.best()
    assert best is not None
    assert any(f"best: trial {best.number}" == trace.name for trace in figure.data)


def test_statuses_differ_by_more_than_their_colour() -> None:
    for of in ("color", "symbol", "dash", "pattern"):
        assert len({getattr(mark, of) for mark in style.MARKS.values()}) == len(style.MARKS)


def test_a_bar_of_survival_is_all_that_came_so_far(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.rung_survival(sweeps["pruned"])
    rows = {trace.name: list(trace.y) for trace in figure.data}
    assert rows == {
        "continued": [30, 10, 4, 0],
        "pruned": [0, 20, 6, 0],
        "finished": [0, 0, 0, 4],
    }


def test_the_best_so_far_never_gets_worse(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.history(sweeps["pruned"])
    lines = [list(trace.y) for trace in figure.data if trace.mode == "lines"]
    assert len(lines) == 2
    assert all(line == sorted(line) for line in lines)
    best = sweeps["pruned"].record.best()
    assert best is not None
    assert {line[-1] for line in lines} == {best.best_score(Objective("m", "max"))}


def test_a_smaller_loss_is_a_better_one(tmp_path: Path) -> None:
    from sweeps.record.record import Record

    record = Record.create(tmp_path, "s", "min", {"metric": "loss"})
    for number in range(4):
        add(record, drawn(number), 2, score=(5.0 - number).__add__)
    figure = analysis_figures.history(analysis_sweep.load(tmp_path))
    lines = [list(trace.y) for trace in figure.data if trace.mode == "lines"]
    assert lines[0] == [6.0, 5.0, 4.0, 3.0]


def test_what_pruning_saved_is_what_was_left_to_the_end(sweeps: dict[str, Sweep]) -> None:
    took = costs.spent(sweeps["pruned"])
    assert (took.epochs, took.saved_epochs) == (20 * 1 + 6 * 3 + 4 * 9, 20 * 8 + 6 * 6)
    assert math.isclose(took.saved_hours, (20 * 8 + 6 * 6) / 3600)
    assert math.isclose(took.parts["data wait"], 0.1 * took.seconds)
    assert math.isclose(sum(took.parts.values()), took.seconds)


def test_gpu_hours_count_the_share_of_a_gpu_that_a_trial_has(tmp_path: Path) -> None:
    settings = {"gpus_per_trial": 0.5, "cpus_per_trial": 3}
    record = begun(tmp_path, identity={"settings": settings})
    add(record, drawn(0), 9, "unfinished")
    assert math.isclose(costs.spent(analysis_sweep.load(tmp_path)).device_hours, 3 * 9 / 3600)
    record.place(0, {"pc": "a", "pid": 1, "gpu": "0"})
    took = costs.spent(analysis_sweep.load(tmp_path))
    assert (took.devices, round(took.device_hours * 3600, 3)) == ("GPU", 4.5)


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({"workers_per_trial": 2}, 2.0),
        ({"gpus_per_trial": 2, "workers_per_trial": 3}, 6.0),
        ({"trials_per_gpu": 4}, 0.25),
        ({"trials_per_gpu": 2, "gpus_per_trial": 0.5}, 0.5),
    ],
)
def test_gpu_hours_count_the_gpus_of_all_workers(
    settings: dict[str, float | str], gpus: float, tmp_path: Path
) -> None:
    per_gpu = settings.pop("trials_per_gpu", None)
    record = begun(tmp_path, identity={"settings": {"cpus_per_trial": 8, **settings}})
    (tmp_path / SWEEP_FILE).write_text("{}" if per_gpu is None else f"trials_per_gpu: {per_gpu}")
    add(record, drawn(0), 9, "unfinished")
    record.place(0, {"pc": "a", "pid": 1, "gpu": "0"})
    took = costs.spent(analysis_sweep.load(tmp_path))
    assert math.isclose(took.device_hours, gpus * took.seconds / 3600)


def test_cpu_hours_count_the_cpus_of_all_workers(tmp_path: Path) -> None:
    settings = {"cpus_per_trial": 3, "workers_per_trial": 2}
    add(begun(tmp_path, identity={"settings": settings}), drawn(0), 9, "unfinished")
    took = costs.spent(analysis_sweep.load(tmp_path))
    assert math.isclose(took.device_hours, 6 * took.seconds / 3600)


def test_a_gpu_that_trials_share_by_measurement_counts_once(tmp_path: Path) -> None:
    """Two trials on the same GPU at the same time, and one alone on another."""
    record = begun(tmp_path)
    (tmp_path / SWEEP_FILE).write_text("trials_per_gpu: auto")
    for number, gpu in enumerate("001"):
        add(record, drawn(number), 9, "unfinished")
        record.place(number, {"pc": "a", "pid": number, "gpu": gpu})
    sweep = analysis_sweep.load(tmp_path)
    rows = [list(trial.epochs.values()) for trial in sweep.record.trials]
    held_s = sum(
        max(row.time for row in of_gpu) - min(row.time - row.seconds for row in of_gpu)
        for of_gpu in (rows[0] + rows[1], rows[2])
    )
    assert held_s < costs.spent(sweep).seconds
    assert math.isclose(costs.spent(sweep).device_hours, held_s / 3600, rel_tol=1e-3)


def test_utilization_adds_up_to_the_seconds_that_were_trained() -> None:
    import numpy as np

    edges = np.linspace(1e9, 1e9 + 60, 13)
    spans = [(1e9 + 1, 1e9 + 11, 1.0), (1e9 + 5, 1e9 + 50, 1.0), (1e9, 1e9 + 60, 2.0)]
    means = costs._filled(spans, edges)
    assert math.isclose(float(means.sum()) * 5, 10 + 45 + 120, rel_tol=1e-6)
    assert math.isclose(float(means[11]), 2.0, rel_tol=1e-6)


def test_diverged_trials_are_grouped_by_cause_and_by_where_they_lie(sweeps: dict[str, Sweep]) -> None:
    found = causes(sweeps["troubled"])
    assert [(cause.status, cause.reason, len(cause.trials)) for cause in found] == [
        ("diverged", "acc was nan in epoch N", 10),
        ("failed", "OSError: <no space>", 1),
    ]
    assert found[0].where == "10 of 10 have lr > 0.1 (and none of the 30 that ended well)"
    assert found[1].region is None, "of one trial nothing can be told"


def test_a_cause_lies_in_the_very_region_that_is_to_be_cut_off(tmp_path: Path) -> None:
    """Also where poor trials that ended well lie beside its limit, and it is one of two causes."""
    record = begun(tmp_path)
    with record.together():
        for number in range(40):
            params = {**drawn(number), "lr": 10 ** (-4 + number / 10)}
            wrong = "MemoryError" if number % 3 == 0 else "acc was nan"
            if number >= 28 and number != 31:
                add(record, params, 1, "failed" if wrong == "MemoryError" else "diverged", wrong)
            else:
                add(record, params, 3)
    sweep = analysis_sweep.load(tmp_path)
    (cut,) = [str(region) for region in advise(sweep).cut]
    regions = [cause.region for cause in causes(sweep)]
    assert [str(region) for region in regions] == [cut] * 2
    assert any(cut in line for line in advise(sweep).lines)


def test_trouble_anywhere_has_no_region(tmp_path: Path) -> None:
    record = begun(tmp_path)
    with record.together():
        for number in range(60):
            add(record, drawn(number), 1, "failed" if number % 4 == 0 else "finished", "OSError: no")
    (cause,) = causes(analysis_sweep.load(tmp_path))
    assert cause.region is None


def test_a_value_of_a_choice_can_be_the_region(tmp_path: Path) -> None:
    record = begun(tmp_path)
    with record.together():
        for number in range(40):
            params = drawn(number)
            if params["width"] == 16:
                add(record, params, 0, "failed", "MemoryError")
            else:
                add(record, params, 3)
    (cause,) = causes(analysis_sweep.load(tmp_path))
    assert str(cause.region) == "width = 16"


def test_an_axis_ends_before_what_lies_far_out() -> None:
    figure = go.Figure()
    assert style.cut(figure, [0.9, 0.91, 0.92, 0.1, 0.93, 5.0]) == ""
    assert figure.layout.yaxis.range is None
    assert "0.9 to 0.93" in style.cut(figure, [0.9, 0.91, 0.92, 1e9, 0.93, math.nan])
    assert figure.layout.yaxis.range[1] < 1


def test_reruns_show_their_spread_and_stay_out_of_the_search(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for score in (0.9, 0.8):
        add(record, drawn(len(record.trials)), 1, score={1: score}.__getitem__)
    for number, score in ((0, 0.6), (0, 0.7), (1, 0.75)):
        rerun(record, number, score)
    sweep = analysis_sweep.load(tmp_path)
    points, means, search = analysis_figures.seeds(sweep).data
    assert list(zip(points.x, points.y, strict=True)) == [
        ("trial 1", 0.75),
        ("trial 0", 0.6),
        ("trial 0", 0.7),
    ]
    assert list(means.y) == pytest.approx([0.75, 0.65]), "the score that it was chosen for is not in it"
    assert list(means.error_y.array) == pytest.approx([0.0, 0.1 / math.sqrt(2)])
    assert list(search.y) == [0.8, 0.9]
    found = fidelity.fidelity(sweep.record)
    assert found is not None
    assert sorted(found.scores) == [0, 1]


def test_the_first_rerun_shows_while_others_are_to_come(tmp_path: Path) -> None:
    record = begun(tmp_path, confirm={"top": 1, "seeds": 2})
    add(record, drawn(0), 1)
    rerun(record, 0, 0.5, "unfinished")
    assert "No rerun has ended well" in analysis_figures.why_blank(
        analysis_figures.seeds(analysis_sweep.load(tmp_path))
    )
    record.end(1, "finished")
    rerun(record, 0, 0.6, "unfinished")
    (points, _, _) = analysis_figures.seeds(analysis_sweep.load(tmp_path)).data
    assert list(points.y) == [0.5]


def test_lineage_follows_sweeps_to_their_parents(tmp_path: Path) -> None:
    kinds.write("pruned", tmp_path / "first")
    add(begun(tmp_path / "second", parents=[{"name": "first", "folder": "gone/first"}]), drawn(0), 9)
    parents = [{"name": name, "folder": str(tmp_path / name)} for name in ("second", "lost")]
    kinds_of = begun(tmp_path / "third", parents=parents)
    add(kinds_of, drawn(1), 9)
    sweep = analysis_sweep.load(tmp_path / "third")
    found = [(one.name, one.generation, one.child, bool(one.best)) for one in ancestors(sweep)]
    assert found == [
        ("third", 0, "", True),
        ("second", 1, "third", True),
        ("lost", 1, "third", False),
        ("first", 2, "second", True),
    ]
    assert not analysis_figures.why_blank(analysis_figures.lineage(sweep))


def test_a_sweep_that_is_its_own_ancestor_ends(tmp_path: Path) -> None:
    begun(tmp_path / "a", parents=[{"name": "b", "folder": str(tmp_path / "b")}])
    begun(tmp_path / "b", parents=[{"name": "a", "folder": str(tmp_path / "a")}])
    assert len(ancestors(analysis_sweep.load(tmp_path / "a"))) == 3


def test_a_copy_of_a_folder_reads_the_same(sweeps: dict[str, Sweep], tmp_path: Path) -> None:
    shutil.copytree(sweeps["pruned"].folder, tmp_path / "copy")
    there, copy = sweeps["pruned"], analysis_sweep.load(tmp_path / "copy")
    assert (
        analysis_figures.learning_curves(copy).to_json() == analysis_figures.learning_curves(there).to_json()
    )

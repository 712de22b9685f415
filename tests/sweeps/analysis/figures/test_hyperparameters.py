"""Figures of the search: which hyperparameters decide, and how the best was found."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from sweeps.analysis import figures as analysis_figures
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.compared_trials import compared_trials
from sweeps.analysis.figures import style
from sweeps.analysis.sweep import Sweep
from sweeps.common.objective import Objective
from sweeps.record.record import Record
from tests.support.kinds import add, begun, drawn, of_conditions


@of_conditions
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
    found = compared_trials(sweeps[kind].record)
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


def test_choices_are_named_without_quotes_and_have_room(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.slices(sweeps["several"])
    axes = [axis for axis in figure.select_xaxes() if axis.title.text == "trainable"]
    assert [list(axis.categoryarray) for axis in axes] == [["cnn", "mlp"]]
    trace = next(trace for trace in figure.data if trace.xaxis == axes[0].plotly_name.replace("axis", ""))
    assert set(trace.x) == set(axes[0].categoryarray)
    assert list(axes[0].range) == [-0.5, 1.5]


def test_the_best_so_far_never_gets_worse(sweeps: dict[str, Sweep]) -> None:
    figure = analysis_figures.history(sweeps["pruned"])
    (line,) = (list(trace.y) for trace in figure.data if trace.mode == "lines")
    assert line == sorted(line)
    best = sweeps["pruned"].record.best()
    assert best is not None
    assert line[-1] == best.best_score(Objective("m", "max"))


def test_a_smaller_loss_is_a_better_one(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "min", {"metric": "loss"})
    for number in range(4):
        add(record, drawn(number), 2, score=(5.0 - number).__add__)
    figure = analysis_figures.history(analysis_sweep.load(tmp_path))
    lines = [list(trace.y) for trace in figure.data if trace.mode == "lines"]
    assert lines[0] == [6.0, 5.0, 4.0, 3.0, 3.0]


@pytest.mark.parametrize("mode", ["max", "min"])
def test_lines_go_through_the_axes_and_the_best_is_black_and_on_top(
    mode: Literal["max", "min"], tmp_path: Path
) -> None:
    record = Record.create(tmp_path, "s", mode, {"metric": "acc"})
    for number, (lr, width) in enumerate([(0.001, 4), (0.1, 16), (0.01, 8)]):
        add(record, {"lr": lr, "width": width}, 1, score={1: record.objective.sign * number}.__getitem__)
    figure = analysis_figures.parallel_coordinates(analysis_sweep.load(tmp_path))
    assert list(figure.layout.xaxis.ticktext) == ["acc", "lr", "width"]
    *bands, best, star = figure.data
    heights = [[round(y, 6) for y in band.y if y is not None] for band in bands]
    assert heights == [[0.0, 0.0, 0.0], [0.5, 1.0, 1.0], [1.0, 0.5, 0.5]], (
        "each on its own scale, lr by its log"
    )
    assert (list(best.y), best.line.color) == (list(bands[-1].y), style.BLACK)
    assert (list(star.x), list(star.y)) == ([0], [1.0]), "a good score lies above, of a loss, too"
    assert star.customdata[0][2] == "lr 0.01<br>width 8"
    words = {note.text for note in figure.layout.annotations}
    assert {"0.001", "0.01", "0.1", "4", "8", "16"} <= words

"""The front as a figure: its line, what it dominates, and the knee by name."""

from __future__ import annotations

from pathlib import Path

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.figures import front
from sweeps.analysis.figures.style import why_blank
from sweeps.record.reruns import seeds
from tests.support.weighed import FRONT, begin, new, report, weighed


def test_the_front_is_a_line_and_the_others_are_points_by_status(tmp_path: Path) -> None:
    record = weighed(tmp_path, [*FRONT, (0.5, 4.0)])
    begin(record, 4)
    report(record, 4, 1, (0.4, 9.0))
    record.end(4, "pruned")
    figure = front(analysis_sweep.load(tmp_path))
    traces = {trace.name: trace for trace in figure.data}
    assert list(traces) == ["dominated, finished", "dominated, pruned", "front", "knee: trial 1"]
    assert list(traces["front"].x) == [1.0, 2.0, 5.0]
    assert list(traces["front"].y) == [0.60, 0.85, 0.90]
    assert traces["front"].mode == "lines+markers"
    assert list(traces["knee: trial 1"].x) == [2.0]
    assert "acc 0.85, size_m 2" in traces["knee: trial 1"].customdata[0][1]
    assert figure.layout.xaxis.title.text == "size_m (min)"


def test_the_axes_show_the_front_and_what_is_near_it(tmp_path: Path) -> None:
    record = weighed(tmp_path, [*FRONT, (0.5, 4.0)])
    begin(record, 4)
    report(record, 4, 1, (0.4, 90.0))
    record.end(4, "pruned")
    figure = front(analysis_sweep.load(tmp_path))
    low, high = figure.layout.xaxis.range
    assert (low < 1.0, 5.0 < high < 10.0) == (True, True)
    low, high = figure.layout.yaxis.range
    assert low < 0.4 < 0.9 < high < 1.0


def test_of_three_objectives_each_two_have_their_points_and_no_line(tmp_path: Path) -> None:
    three = ("acc:max", "size_m:min", "ms:min")
    weighed(tmp_path, [(0.9, 5.0, 3.0), (0.8, 4.0, 2.0), (0.7, 1.0, 9.0)], objectives=three)
    figure = front(analysis_sweep.load(tmp_path))
    lines = [trace for trace in figure.data if trace.name == "front"]
    assert [trace.mode for trace in lines] == ["markers"] * 3


def test_where_the_front_is_confirmed_it_is_that_of_the_means(tmp_path: Path) -> None:
    record = weighed(tmp_path, FRONT)
    record.note("confirm", {"top": 3, "seeds": 1})
    for number, accuracy in ((0, 0.80), (1, 0.82), (2, 0.55)):
        again = record.begin(
            record.trials[number].point, record.trials[number].optuna, seeds(0, 1)[0], number
        )
        report(record, again.number, 1, (accuracy, FRONT[number][1]))
        record.end(again.number, "finished")
    figure = front(analysis_sweep.load(tmp_path))
    assert list(next(trace for trace in figure.data if trace.name == "front").y) == [0.55, 0.82]
    assert "means of the reruns" in figure.layout.title.subtitle.text


def test_without_a_trial_that_ended_well_it_says_so(tmp_path: Path) -> None:
    new(tmp_path, 1)
    assert why_blank(front(analysis_sweep.load(tmp_path))) == "No trial has ended well."

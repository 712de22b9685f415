"""How sure the first place is."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sweeps.analysis.report.confidence import confidence, validation_rows
from sweeps.record import lock
from sweeps.record.record import Record
from tests.conftest import propose
from tests.support.kinds import add, begun, drawn, rerun
from tests.support.reports import page_of, words_of


def test_a_winner_that_its_own_rerun_confirms_has_no_other_winner_before_it(tmp_path: Path) -> None:
    record = confirmed(tmp_path, (0, 0.9), (0, 0.92))
    record.note("test", {"trial": 3, "test_acc": 0.8765})
    record.note("tests", [{"trial": 0, "test_acc": 0.86}, {"trial": 3, "test_acc": 0.8765}])
    assert "They were scored 2 times." in words_of(page_of(tmp_path))


def always(score: float) -> Callable[[int], float]:
    """The same score in every epoch."""
    return lambda epoch: score


def confirmed(folder: Path, *reruns: tuple[int, float]) -> Record:
    """Two trials, and reruns of them: (which trial, score)."""
    record = begun(folder, confirm={"top": 2, "seeds": 2}, outcome="finished")
    for score in (0.9, 0.89):
        add(record, drawn(len(record.trials)), 1, score=always(score))
    for number, score in reruns:
        rerun(record, number, score, "finished" if math.isfinite(score) else "diverged")
    return record


def test_reruns_say_how_sure_the_first_place_is(tmp_path: Path) -> None:
    record = confirmed(tmp_path, (0, 0.7), (0, 0.72), (1, 0.8), (1, 0.82))
    record.note("test", {"trial": 5, "test_acc": 0.8765})
    said = words_of(page_of(tmp_path))
    assert (
        "Trial 1 is the best: acc 0.81 ± 0.014 (mean ± standard deviation over 2 new seeds). "
        "In the search it had acc 0.89, in epoch 1 of 1." in said
    )
    seed = record.trials[5].seed
    assert f"it scored test_acc 0.8765 (the weights of trial 5, its rerun with seed {seed})" in said
    assert "The best trial leads trial 0 by 0.1 on average, more than twice the standard error" in said
    assert "trained with one seed" not in said
    assert "The sweep is finished: 2 trials (2 finished) and 4 reruns." in said


def test_a_trial_whose_rerun_failed_comes_behind_one_with_a_lower_mean(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.9), (0, math.nan), (1, 0.5), (1, 0.6))
    said = words_of(page_of(tmp_path))
    assert "Trial 1 is the best: acc 0.55 ± 0.071" in said
    assert (
        "Trial 0 is second: 0.9 (with 1 new seed; 1 more rerun failed or diverged). "
        "Trials with fewer failed reruns rank first." in said
    )
    assert "leads" not in said


def test_two_of_the_same_mean_lead_nobody(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.7), (0, 0.8), (1, 0.72), (1, 0.78))
    said = words_of(page_of(tmp_path))
    assert "Trial 1 has the same mean: either trial may be the better one." in said
    assert "leads" not in said


@pytest.mark.slow
def test_what_makes_the_first_place_sure_is_said_as_it_is_typed(folders: dict[str, Path]) -> None:
    boxes = re.findall(r"<pre>(.*?)</pre>", page_of(folders["pruned"]))
    assert boxes[0].endswith(f"sweeps run --resume {folders['pruned']} --confirm 3")
    (folders["pruned"] / ".lock").touch()
    with lock.held(folders["pruned"]):
        assert "--confirm" not in words_of(page_of(folders["pruned"])), "one that runs can't be resumed"


def test_while_reruns_are_to_come_the_search_has_the_first_place(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.7), (0, 0.72), (1, 0.8))
    said = words_of(page_of(tmp_path))
    assert "Trial 0 is the best of the search: acc 0.9 in epoch 1 of 1." in said
    assert (
        "Confidence: Reruns so far: trial 1: 0.8 (with 1 new seed); trial 0: 0.71 ± 0.014 (mean ± standard "
        "deviation over 2 new seeds); 0 reruns unfinished, 1 to come. "
        "It is not known how much of a lead is chance. "
        "In the search trial 0 leads trial 1 by 0.01." in said
    )
    assert "trained with one seed" not in said


def test_reruns_that_all_failed_are_no_seed_that_was_seen(tmp_path: Path) -> None:
    nan = math.nan
    confirmed(tmp_path, (0, nan), (0, nan), (1, nan), (1, nan))
    said = words_of(page_of(tmp_path))
    assert "Reruns so far: trial 0: no score (2 reruns failed or diverged)" in said
    assert "trained with one seed" not in said


def test_of_others_whose_reruns_failed_it_is_not_said_that_there_were_none(tmp_path: Path) -> None:
    confirmed(tmp_path, (0, 0.7), (0, 0.72), (1, math.nan), (1, math.nan))
    said = words_of(page_of(tmp_path))
    assert "No other trial has a score with new seeds, so another trial may be as good." in said


@pytest.mark.slow
def test_reruns_that_are_to_come_are_not_said_to_be_trained(tmp_path: Path) -> None:
    record = confirmed(tmp_path)
    record.note("outcome", "interrupted")
    said = words_of(page_of(tmp_path))
    assert "Each trial was trained with one seed" in said
    assert "When the search has ended, the best trials are trained again with new seeds." in said


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (348, "differ by about 0.01"),
        (348, "The lead is within chance."),
        (344, "The lead is hardly beyond chance."),
        (320, "The lead is beyond chance."),
    ],
)
def test_rows_of_an_accuracy_tell_what_is_within_chance(second: int, words: str, tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished")
    for right in (350, second, *range(101, 113)):
        add(record, drawn(len(record.trials)), 1, score=always(float(np.float32(right / 360))))
    said = words_of(page_of(tmp_path))
    assert "acc is a share of 360 validation rows" in said
    assert words in said


def test_one_row_more_is_not_beyond_chance_where_the_best_has_all_rows_right(tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished")
    for right in (360, 359, *range(101, 113)):
        add(record, drawn(len(record.trials)), 1, score=always(float(np.float32(right / 360))))
    assert "The lead is hardly beyond chance." in confidence(record)[0]


def test_scores_that_a_program_prints_with_four_digits_are_of_its_rows_not_of_ten_thousand(
    tmp_path: Path,
) -> None:
    record = begun(tmp_path, outcome="finished")
    for right in (550, 545, *range(101, 113)):
        add(record, drawn(len(record.trials)), 1, score=always(round(right / 600, 4)))
    (said,) = confidence(record)
    assert "acc is a share of 600 validation rows" in said
    assert "The lead is within chance." in said


@pytest.mark.parametrize(
    ("loss", "rows"), [(0.1234567, 10_000), (0.123456, None), (1.25e-7, None), (0.1235, None)]
)
def test_four_digits_are_of_ten_thousand_rows_where_others_are_not_rounded(
    loss: float, rows: int | None, tmp_path: Path
) -> None:
    record = begun(tmp_path, outcome="finished")
    for right in (8775, 8774, *range(1001, 1113, 7)):
        number = propose(record, {}).number
        record.report(number, 1, right / 10_000, {"acc": right / 10_000, "loss": loss}, 1.0)
        record.end(number, "finished")
    assert validation_rows(record) == rows


@pytest.mark.parametrize("digits", [4, 16])
def test_a_loss_tells_no_rows(digits: int, tmp_path: Path) -> None:
    record = begun(tmp_path, outcome="finished")
    for number in range(12):
        add(record, drawn(number), 1, score=always(round(0.1 + number**1.5 / 45, digits)))
    assert validation_rows(record) is None
    assert "It is not known how much of a lead is chance." in words_of(page_of(tmp_path))

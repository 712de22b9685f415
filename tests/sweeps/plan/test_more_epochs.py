"""A sweep gets more epochs: which trials go on, from where, at what cost; what is refused. Without Ray."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.report import report_tables
from sweeps.common.errors import UserError
from sweeps.config.cli import read_yaml
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.plan import folder, more_epochs, run_start
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome, RaisedEpochs, Steered
from sweeps.schedulers import asha, halving
from sweeps.search.known_trials import KnownTrials
from sweeps.search.rungs import spans_left
from sweeps.sweep import run
from tests.sweeps.plan.test_resume import Sweep, look

FREE, BOUND = {"epochs": 0}, {"epochs": 3, "words": "OneCycleLR, total_steps 30", "is_final": True}


def ended_sweep(tmp_path: Path, schedule: Any = FREE, **changes: Any) -> Sweep:
    """Nine trials judged at epoch 1, of which trials 6, 7 and 8 have trained all 3 epochs; the best one, 8,
    has kept its weights."""
    sweep = Sweep(tmp_path, **{"num_trials": 9, "max_epochs": 3, "scheduler": "halving", **changes})
    for number in range(9):
        sweep.trial(number / 100, *([0.5, number / 10] if number > 5 else []))
        sweep.record.note_trial(number, schedule=schedule)
        sweep.record.end(number, "finished" if number > 5 else "pruned")
    sweep.checkpoint(8, 3)
    sweep.record.end_run(Outcome.FINISHED)
    return sweep


def statuses(record: Record) -> str:
    """The first letter of each."""
    return "".join(trial.status[0] for trial in record.trials)


def begun(sweep: Sweep, record: Record, number: int) -> Any:
    """The row of a trial that begins now, with 9 epochs."""
    return more_epochs.prepared(sweep.to_resume(max_epochs=9), record, record.trials[number])


def test_the_best_go_on_as_at_any_rung(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path)
    before = (sweep.folder / "record.journal").read_bytes()
    text = sweep.look(max_epochs=9).text
    assert (sweep.folder / "record.journal").read_bytes() == before
    told = "epochs 3 -> 9: epoch 3 is a rung now; 3 trials trained 3 epochs: "
    assert f"{told}trial 8 goes on, trial 7 waits for its turn, trial 6 is pruned there\n" in text
    assert "  about 6 epochs to train in all; 6 s of training, at 1 s an epoch\n" in text
    assert "\n  trial 8 continues after epoch 3\n  trial 7 waits at epoch 3 for other trials" in text
    record = sweep.resumed(max_epochs=9)
    assert statuses(record) == "ppppppp" + "uu"
    assert record.trials[7].is_paused
    assert [attempt.status for attempt in record.trials[6].attempts] == ["finished"]
    assert (record.info.max_epochs, record.info.settings.max_epochs) == (9, 9)
    assert record.info.runs[-1].changed == ["--max-epochs: 3 -> 9"]
    assert sweep.on_disk() == {8: [3]}
    assert begun(sweep, record, 8) is record.trials[8], "it goes on as it is"
    again = Record.read(sweep.folder)
    assert statuses(sweep.resumed(max_epochs=9)) == statuses(again), "a kill changes nothing"


def test_an_end_that_is_no_rung_lets_all_go_on(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, reduction_factor=2)
    text = sweep.look(max_epochs=9).text
    assert "epochs 3 -> 9: epoch 3 is no rung; 3 trials trained 3 epochs: trials 6, 7, 8 go on" in text
    assert statuses(sweep.resumed(max_epochs=9)) == "ppppppuuu"


def test_without_pruning_all_go_on_and_those_without_weights_begin_anew(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, scheduler="none")
    text = sweep.look(max_epochs=9).text
    assert "nothing is pruned; 3 trials trained 3 epochs: trials 6, 7, 8 go on" in text
    assert "about 24 epochs to train in all, 6 of them again: trials 6, 7 begin anew; 24 s of" in text
    assert "  trial 6 trains anew from its first epoch: its weights are gone" in text
    record = sweep.resumed(max_epochs=9)
    anew = begun(sweep, record, 6)
    assert (anew.status, len(anew.epochs), len(anew.attempts)) == ("unfinished", 0, 2)
    assert len(begun(sweep, record, 8).epochs) == 3


@pytest.mark.parametrize("scheduler", ["halving", "asha"])
def test_one_that_begins_anew_keeps_its_place_at_the_rungs(scheduler: str, tmp_path: Path) -> None:
    """Scores of a longer schedule are worse at first."""
    sweep = ended_sweep(tmp_path, BOUND, scheduler=scheduler)
    record = sweep.resumed(max_epochs=9, lr_schedule="anew")
    assert begun(sweep, record, 8).passed_epoch == 3
    assert sweep.on_disk() == {}, "it would go on from its checkpoint"
    method = {"halving": halving, "asha": asha}[scheduler].Scheduler
    config = sweep.to_resume(max_epochs=9).config
    for epoch in (1, 2, 3):
        record.report(8, epoch, 0.001, {}, 1.0)
        for known in (record, Record.read(sweep.folder)):
            assert method.for_record(config, known).decide(8, epoch) == "CONTINUE", epoch
        live, anew = (
            [method.for_record(config, each).decide(n, len(each.trials[n].epochs)) for n in (6, 7)]
            for each in (record, Record.read(sweep.folder))
        )
        assert live == anew
    assert record.trials[8].epochs[3].score == 0.001, "the record holds what was trained"


def test_a_schedule_that_ends_is_a_choice_of_the_user(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, BOUND)
    with pytest.raises(UserError) as refused:
        sweep.look(max_epochs=9)
    assert str(refused.value).splitlines() == [
        "--max-epochs 9: the learning rate of trial 8 is scheduled for 3 epochs (OneCycleLR, total_steps 30),"
        " and takes no step behind them. Say what becomes of it:",
        "  --lr-schedule restart: they go on from their weights, with a schedule for the epochs that are "
        "left: about 6 epochs",
        "  --lr-schedule anew: they train again from the start, with a schedule for 9 epochs: about 9 epochs",
    ]
    sweep.refuses("--max-epochs 9: the learning rate of trial 8", max_epochs=9, lr_schedule="keep")
    assert "trial 8 continues after epoch 3" in sweep.look(max_epochs=9, lr_schedule="restart").text
    assert "trial 8 trains anew from its first epoch\n" in sweep.look(max_epochs=9, lr_schedule="anew").text
    record = sweep.resumed(max_epochs=9, lr_schedule="restart")
    assert begun(sweep, record, 8).schedule_from == 3
    assert Record.read(sweep.folder).trials[8].schedule_from == 3


REFUSED: dict[str, dict[str, Any]] = {
    "--max-epochs 2: the sweep has 3, and its trials were pruned for an end at 3": {"max_epochs": 2},
    "--lr-schedule restart: it goes with more epochs than the sweep has, as in --max-epochs 9": {
        "lr_schedule": "restart"
    },
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_makes_no_sense_is_refused(fault: str, tmp_path: Path) -> None:
    ended_sweep(tmp_path).refuses(f"^{fault}", **REFUSED[fault])


def test_a_scheduler_may_not_take_more_epochs(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, scheduler="hyperband")
    sweep.trial(0.1)
    sweep.refuses(
        r"^--max-epochs 27: scheduler hyperband has decided for trials of 9 .*: \S*sweeps run --refine \S+",
        max_epochs=27,
    )


def test_trials_that_had_begun_to_train_are_given_the_new_epochs(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, scheduler="halving", max_epochs=3, num_trials=9)
    inside, waits = sweep.trial(0.1, 0.2), sweep.trial(0.1)
    for number in (inside, waits):
        sweep.record.note_trial(number, schedule=BOUND)
    sweep.checkpoint(inside, 1, 2)
    record = sweep.resumed(max_epochs=9, lr_schedule="restart")
    row = begun(sweep, record, inside)
    assert (row.schedule_from, row.planned_epochs, len(row.attempts)) == (2, 9, 0)
    new = sweep.to_resume(max_epochs=9)
    assert begun(sweep, record, inside) is record.trials[inside]
    assert not more_epochs.is_raised(new.config, record)


def test_reruns_train_to_the_new_end(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, confirm=1, confirm_top=1)
    best = sweep.record.trials[8]
    ((_, seed),) = sweep.record.reruns_to_come()
    rerun = sweep.record.begin(best.point, best.optuna, seed, confirms=8).number
    for epoch in (1, 2, 3):
        sweep.record.report(rerun, epoch, 0.5, {}, 1.0)
    sweep.record.end(rerun, "finished")
    assert sweep.record.confirmed()
    assert f"trial {rerun} (rerun of trial 8) trains anew" in sweep.look(max_epochs=9).text
    record = sweep.resumed(max_epochs=9)
    assert not record.confirmed()
    assert [trial.number for trial in record.unfinished_reruns] == [rerun]


def test_scores_at_the_old_end_are_known_to_searchers(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, reduction_factor=2)
    plan = sweep.to_resume(max_epochs=9)
    look(plan)
    sweep.record.note("raised", [vars(RaisedEpochs(3, 9))])
    known = KnownTrials(plan.config, plan.space, sweep.record)
    assert {result.epoch for result in known.results()} == {1, 2, 3}
    assert known.fidelity(3) == 3


def test_one_that_begins_anew_begins_once(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, BOUND)
    record = sweep.resumed(max_epochs=9, lr_schedule="anew")
    plan = sweep.to_resume(max_epochs=9)
    searcher = plan.searcher.build(plan.config, plan.space, record)
    searcher.slots = 9
    searcher.waits = functools.partial(plan.waits, record)
    searcher.prepared = functools.partial(run_start.prepared, plan, record)
    assert searcher.suggest("")["number"] == 8
    assert searcher.suggest("") is None


@pytest.mark.slow
def test_a_kill_behind_any_line_of_the_beginning_loses_nothing(tmp_path: Path) -> None:
    """The record as it was after each line of a resume with more epochs."""
    sweep = ended_sweep(tmp_path, BOUND)
    journal = sweep.folder / "record.journal"
    before = journal.read_bytes()
    whole = sweep.resumed(max_epochs=9, lr_schedule="restart")
    begun(sweep, whole, 8)
    lines = journal.read_bytes()[len(before) :].splitlines(keepends=True)
    resumed = functools.partial(sweep.resumed, max_epochs=9)
    for count in range(1, len(lines)):
        journal.write_bytes(before + b"".join(lines[:count]))
        is_noted = Record.read(sweep.folder).info.raised
        record = resumed() if is_noted else resumed(lr_schedule="restart")
        begun(sweep, record, 8)
        assert statuses(record) == statuses(whole), count
        assert (record.trials[8].schedule_from, record.trials[8].planned_epochs) == (3, 9), count
        assert len(record.trials[8].epochs) == 3


def stopped_by_a_target(tmp_path: Path) -> Sweep:
    """A sweep of 9 trials whose search a target has ended after 4, of which it has stopped the last two."""
    sweep = Sweep(tmp_path, num_trials=9, max_epochs=9, scheduler="halving")
    for scores in ([0.1], [0.2], [0.6, 0.7, 0.8], [0.5, 0.6]):
        number = sweep.trial(*scores)
        sweep.record.note_trial(number, schedule=FREE)
        if number < 2:
            sweep.record.end(number, "pruned")
    sweep.record.note_pause(2)
    for words in (["stop", "2"], ["stop", "3"], ["finish"]):
        sweep.record.note_steered(Steered(words, "--target 0.8: reached", time.time(), by="--target 0.8"))
    for number in (2, 3):
        sweep.record.end(number, "stopped", sweep.record.why_stopped(number))
    sweep.record.plan_trials(4)
    sweep.checkpoint(2, 3)
    sweep.record.end_run(Outcome.FINISHED)
    return sweep


def test_trials_that_a_limit_has_stopped_go_on(tmp_path: Path) -> None:
    sweep = stopped_by_a_target(tmp_path)
    text = sweep.look(max_epochs=27).text
    assert "2 trials ended, 2 unfinished, 0 to come" in text
    told = "no trial trained 9 epochs, and a limit stopped 2 trials: "
    assert f"{told}trial 3 goes on, trial 2 waits for its turn" in text
    assert "2 of them again: trial 3 begins anew" in text
    record = sweep.resumed(max_epochs=27)
    assert (statuses(record), record.most_trials) == ("ppuu", 4)
    assert record.trials[2].is_paused, "as the plan says: it has not gone on"
    for number in (2, 3):  # by a limit that is reached later
        record.note_steered(Steered(["stop", str(number)], "", time.time() + 1, by="--target 0.9"))
    assert statuses(sweep.resumed(max_epochs=27)) == "ppss"


def test_a_number_of_trials_that_is_typed_goes_on_after_a_limit(tmp_path: Path) -> None:
    sweep = stopped_by_a_target(tmp_path)
    assert "4 trials ended, 0 unfinished, 0 to come" in sweep.look().text
    typed = frozenset({"num_trials"})
    assert "4 trials ended, 0 unfinished, 5 to come" in sweep.look(typed=typed).text
    assert sweep.resumed(typed=typed).most_trials == 9


def test_more_trials_count_in_the_plan_for_more_epochs(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path)
    text = sweep.look(max_epochs=9, num_trials=36).text
    assert "6 trials ended, 3 unfinished, 27 to come" in text
    assert "3 trials trained 3 epochs: trial 8 goes on, trials 6, 7 wait for their turn" in text
    assert "about 69 epochs to train in all" in text, "27 to epoch 1, 9 on to 3, 4 on to 9"
    assert statuses(sweep.resumed(max_epochs=9, num_trials=36)) == "ppppppuuu"


def test_a_kill_before_the_settings_are_written_loses_no_schedule(tmp_path: Path) -> None:
    sweep = ended_sweep(tmp_path, BOUND)
    more_epochs.note(sweep.to_resume(max_epochs=9, lr_schedule="restart"), sweep.record)
    plan = more_epochs.with_noted(sweep.to_resume(), sweep.record)
    assert plan.config.max_epochs == 9
    with folder.opened(plan) as record:
        run_start.check_resume(plan, record)
        run_start.begin_run(plan, record)
        assert more_epochs.prepared(plan, record, record.trials[8]).schedule_from == 3
    assert read_yaml(str(sweep.folder / SWEEP_FILE), "--config")["max_epochs"] == 9
    typed = sweep.to_resume(typed=frozenset({"max_epochs"}))
    assert more_epochs.with_noted(typed, record) is typed, "fewer epochs are refused"


def test_the_plan_above_a_resume_has_the_epochs_of_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = ended_sweep(tmp_path)
    more_epochs.note(sweep.to_resume(max_epochs=9), sweep.record)
    assert run(sweep.to_resume(dry_run=True), None) == 0
    assert "each of at most 9 epochs" in capsys.readouterr().out


def test_one_that_goes_on_beside_one_that_took_its_place_costs_its_epochs(tmp_path: Path) -> None:
    """Trial 7 was promoted at epoch 3 and failed, so that trial 8 was; it is trained again."""
    sweep = Sweep(tmp_path, scheduler="halving", num_trials=9)
    for number in range(9):
        sweep.trial(number / 10, *([0.5, 0.6] if number > 5 else []), *([0.7] * 6 if number == 8 else []))
        if number != 7:
            sweep.record.end(number, "finished" if number == 8 else "pruned")
    (cohort,) = halving.Scheduler.cohorts(sweep.plan.config, [9])
    assert sum(trials * span for trials, span in spans_left(sweep.record, cohort)) == 6
    sweep.record.note_pause(7)
    assert sum(trials * span for trials, span in spans_left(sweep.record, cohort)) == 0


def test_an_attempt_that_was_cut_short_is_told_as_such(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, scheduler="none", max_epochs=9)
    number = sweep.trial(0.1, 0.2)
    record = sweep.resumed(max_epochs=27)
    begun = more_epochs.prepared(sweep.to_resume(max_epochs=27), record, record.trials[number])
    assert (begun.attempt, begun.epochs, begun.passed_epoch) == (1, {}, 2)
    for known in (record, Record.read(sweep.folder)):
        (row,) = known.trials[number].attempts
        assert (row.status, len(row.epochs)) == ("unfinished", 2)
        assert row.end == known.openings[0][0]
        assert [trial.number for trial in known.live] == [number]
    told = report_tables.attempts(analysis_sweep.load(sweep.folder).record).rows
    assert told == [["0", "1", "unfinished", "trained anew for 27 epochs", "2", "2 s", ""]]

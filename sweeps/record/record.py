"""The durable record of a sweep: every trial and every epoch, as soon as it is reported.

An append-only Optuna journal, written by the driver alone: several writers would propose trials twice. A
change is in the file before it takes effect, and synced to the disk at the end of a turn of Tune's loop. The
package optuna-dashboard opens it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import optuna
from optuna.trial import TrialState

from sweeps.common.imports import without_garbage_collection
from sweeps.common.objective import Mode
from sweeps.config.sweep_folder import JOURNAL
from sweeps.record import constraints, journal, sweep_info
from sweeps.record.journal import STUDY_ID, Journal, JournalReader, Operation, RecordLost, RecordUnreadable
from sweeps.record.replay import OF_TRIAL, ReplayedTrials
from sweeps.record.sweep_info import FORMAT, HeldOutScore, Outcome, Run, Steered
from sweeps.record.trials import (
    ATTEMPT_OF,
    EPOCH,
    NO_EARLIER,
    PAUSE,
    Earlier,
    EpochRow,
    Pause,
    Status,
    TrialEvent,
    TrialRow,
)
from sweeps.space.point import OptunaPoint, Point

# It warns where TPE draws one hyperparameter independently, as intended where ranges depend on each other.
optuna.logging.set_verbosity(logging.ERROR)


class Record(ReplayedTrials):
    """The trials of a sweep in memory; each change is in the file first.

    `Record.create` starts one, `Record.reopen` continues one, `Record.read` opens one to read.
    """

    def __init__(self, folder: Path, kind: type[Journal] = Journal) -> None:
        super().__init__()
        self.folder = folder
        self._reader = JournalReader(folder / JOURNAL)
        self._journal = kind(folder / JOURNAL)
        self.together = self._journal.together
        self._elapsed_before_s = 0.0
        self._run_began: float | None = None
        self.is_held = False
        """Whether no trial may begin or continue now."""
        self.is_ours = False
        """Whether this process has opened it to continue the sweep."""
        self.listeners: list[Callable[[TrialEvent, TrialRow], None]] = []
        """Told of each change of a trial that this process has written."""
        self.cut_bytes = 0
        """Of an incomplete end that was removed."""

    @classmethod
    def create(
        cls, folder: Path, name: str, mode: Mode, about: Mapping[str, Any], earlier: Earlier = NO_EARLIER
    ) -> Record:
        """A new record in a new folder; `earlier` holds trials of the sweeps that it refines. Metric and mode
        are those of the first objective; `about["objectives"]` names all of several, as `val_acc:max`."""
        record = cls(folder)
        (folder / JOURNAL).touch()
        about = {"format": FORMAT, **about, "mode": mode, "started": time.time()}
        objectives = sweep_info.parse(about).objectives
        record._write(Operation.CREATE_STUDY, **journal.study_fields(name, objectives))
        if "metric" in about:
            record._note_system("study:metric_names", objectives.metrics)
        for key, value in about.items():
            record.note(key, value)
        record._note_system("earlier", earlier.to_json())
        return record

    @classmethod
    def read(cls, folder: Path, kind: type[Journal] = Journal) -> Record:
        """The record of a running, finished or interrupted sweep; an incomplete last line is left out.

        Args:
            kind: an `UnwrittenJournal` takes changes that only this process is to know.

        Raises:
            FileNotFoundError: the folder holds no record.
            RecordUnreadable: it is damaged, or another version has made it, and this one can't read it.
        """
        record = cls(folder, kind)
        with without_garbage_collection():  # it takes 40 % of the time of a large file, and finds nothing
            record.read_on()
        return record

    def read_on(self) -> None:
        """Take up what was written since it was read; for a process that does not write it.

        Raises:
            FileNotFoundError, RecordUnreadable: as `read`; what is in memory then counts no more.
        """
        path = self.folder / JOURNAL
        if not path.is_file():
            raise FileNotFoundError(f"no sweep in {self.folder}: {path.name} is missing")
        try:
            for line in self._reader.unread():
                self.take(line)
        except (LookupError, TypeError) as error:  # each line is intact, but some are missing
            self._refuse_other_programs()
            why = f"lines are missing ({type(error).__name__}: {error})"
            if self.about.get("format") != FORMAT:
                why = f"another version of sweeps has made this sweep, and this one can't read it ({error})"
            raise RecordUnreadable(f"{path}: {why}") from None
        except RecordUnreadable:
            raise
        except ValueError as error:
            raise RecordUnreadable(f"{path}: damaged ({error})") from None
        if self.study_name is None:
            raise FileNotFoundError(f"no sweep in {self.folder}: {path.name} is empty")
        self._refuse_other_programs()

    def _refuse_other_programs(self) -> None:
        if "mode" not in self.about:
            path = self.folder / JOURNAL
            raise RecordUnreadable(f"{path}: this is an Optuna journal, but not the record of a sweep")

    def refuse_other_versions(self, what: str) -> None:
        """Raise a RecordUnreadable where another version has made the record, so that this one only reads it;
        `what` is to be done, in words."""
        if not self.info.is_of_this_version:
            raise RecordUnreadable(
                "another version of sweeps has made this sweep. Its results and its report open here; "
                f"to {what}, use that version"
            )

    def mend(self) -> None:
        """Remove an incomplete end, which `read` has left out, before a line is added."""
        self.cut_bytes = self._reader.cut()

    def is_intact(self) -> bool:
        """Whether the file still begins with what was read of it; an OSError where it can't be read."""
        return self._reader.is_intact()

    @classmethod
    def reopen(cls, folder: Path) -> Record:
        """The record of a sweep whose driver has ended, to continue it: only one process may.

        Raises:
            FileNotFoundError: the folder holds no record.
            RecordUnreadable: it is damaged, or another version has made it.
        """
        record = cls.read(folder)
        record.refuse_other_versions("resume it")
        record.mend()
        record.is_ours = True
        for trial in record.trials:
            if list(trial.epochs) != list(range(1, len(trial.epochs) + 1)):
                raise RecordUnreadable(
                    f"{folder / JOURNAL}: lines are missing (trial {trial.number} has epochs "
                    f"{', '.join(map(str, trial.epochs))}); restore the file from a copy"
                )
        return record

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune pickles all that it is given; a copy reads the same journal, and never writes."""
        return Record.read, (self.folder,)

    @property
    def name(self) -> str:
        """Of the sweep."""
        return self.info.name or self.folder.name

    @property
    def elapsed_s(self) -> float:
        """How long the sweep has run: earlier runs, each up to its last report, and this one."""
        if self._run_began is None:
            return max(self._reported_elapsed_s, self.info.elapsed_s)
        return self._elapsed_before_s + time.monotonic() - self._run_began

    def plan_trials(self, most: int) -> None:
        """Write how many trials there are to be in all; never fewer than have begun."""
        most = max(most, len(self.searched))
        planned = [*(before for before in self.info.planned if before < most), most]
        if planned != list(self.info.planned):
            self.note("planned", planned)

    def plan_chosen_points(self) -> None:
        """Plan as many more trials as the points that the user has chosen need."""
        needed = len(self.searched) + len(self.points_to_try())
        if needed > self.most_trials:
            self.plan_trials(needed)

    def start_clock(self) -> None:
        """Start to count the time of this run."""
        self._elapsed_before_s, self._run_began = self.elapsed_s, time.monotonic()

    def stop_clock(self) -> None:
        """Count no time until the clock is started again."""
        elapsed_s, self._run_began = self.elapsed_s, None
        self.note("elapsed_s", elapsed_s)

    def begin(
        self,
        point: Point,
        optuna_point: OptunaPoint,
        seed: int,
        confirms: int | None = None,
        origin: str = "",
    ) -> TrialRow:
        """Write a proposed trial; its number is the next one.

        Args:
            optuna_point: the same for Optuna and its dashboard.
            confirms: number of the trial that it reruns.
            origin: of an anchor, the earlier trial that it repeats.
        """
        attributes = {
            "trainable": point.trainable,
            "params": dict(point.params),
            "fixed": dict(point.fixed),
            "seed": seed,
            "start": time.time(),
            **({} if confirms is None else {"confirms": confirms}),
            **({"origin": origin} if origin else {}),
        }
        self._write(Operation.CREATE_TRIAL, **journal.trial_fields(optuna_point, attributes))
        self._tell("begun", len(self.trials) - 1)
        return self.trials[-1]

    def open_again(
        self,
        number: int,
        kept_epochs: int,
        why: str,
        passed_epoch: int = 0,
        decided_rungs: Sequence[int] = (),
    ) -> TrialRow:
        """Write that a trial that has ended, or is cut short, is to train on: a further attempt of it begins,
        with its number.

        What the attempt before has reported stays among `attempts` and in the order of reports at each epoch,
        by which schedulers have decided. The attempt is one line of the file: a kill leaves the trial ended
        or open.

        Args:
            kept_epochs: the attempt goes on after so many epochs, which are its own; 0: it starts anew.
            why: in words.
            passed_epoch: up to it the scheduler has decided, and decides nothing again.
            decided_rungs: to which the attempt comes late, as the scheduler says.
        """
        before = self.trials[number]
        system_attrs: dict[str, Any] = {
            f"{EPOCH}{epoch}": vars(row) for epoch, row in before.epochs.items() if epoch <= kept_epochs
        }
        for epoch, pause in before.pauses.items():
            # One that was stopped while it waited has not gone on: it waits again.
            has_waited = pause.ended is not None or before.status not in ("stopped", "unfinished")
            if epoch <= kept_epochs and has_waited:
                system_attrs[f"{PAUSE}{epoch}"] = [pause.began, pause.ended or before.end or pause.began]
        of_training = ("places", "checkpoint_bytes", "schedule", "schedule_from", "planned_epochs")
        kept = {name: value for name in of_training if (value := getattr(before, name))}
        fits = {} if before.status == "infeasible" else {"micro_batches": before.micro_batches}
        attributes = {
            **{name: getattr(before, name) for name in ("trainable", "params", "fixed", "seed", "origin")},
            **({} if before.confirms is None else {"confirms": before.confirms}),
            **fits,
            **({"passed_epoch": passed} if (passed := max(passed_epoch, before.passed_epoch)) else {}),
            **(kept if kept_epochs else {}),
            **({"left": before.left} if before.left.get("after_epoch") == kept_epochs else {}),
            ATTEMPT_OF: number,
            "attempt": before.attempt + 1,
            **({"decided_rungs": [*decided_rungs]} if decided_rungs else {}),
            "start": time.time(),
            "opened_for": why,
        }
        scores = {epoch: row.score for epoch, row in before.epochs.items() if epoch <= kept_epochs}
        with self.together():
            cut = self._ids[number]
            begun = journal.trial_fields(before.optuna, attributes, system_attrs, scores)
            self._write(Operation.CREATE_TRIAL, **begun)
            if before.status == "unfinished":  # for Optuna's dashboard
                self._write(Operation.TRIAL_STATE, trial_id=cut, **journal.end_fields(TrialState.FAIL))
        self._tell("begun", number)
        return self.trials[number]

    def place(self, number: int, place: Mapping[str, Any]) -> None:
        """Write where a trial trains, if that is new."""
        trial = self.trials[number]
        if trial.place != place:
            self._attribute(number, "places", [*trial.places, {**place, "after_epoch": len(trial.epochs)}])

    def report(
        self,
        number: int,
        epoch: int,
        score: float,
        metrics: Mapping[str, float],
        seconds: float,
        costs: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Write an epoch; a repeated one (trained again after a lost PC) changes nothing."""
        trial = self.trials[number]
        if epoch in trial.epochs:
            return
        # A clock that is set back must not change the order of the reports.
        moment = max(time.time(), self._last_report + 1e-6)
        row = EpochRow(score, dict(metrics), seconds, moment, self.elapsed_s, dict(costs))
        content: Any = vars(row)
        with self.together():
            self._attribute_of_system(number, f"{EPOCH}{epoch}", content)
            # Dashboards plot the value, and do not show system attributes.
            shown = {"step": epoch, "intermediate_value": score}
            self._write(Operation.TRIAL_INTERMEDIATE_VALUE, trial_id=self._ids[number], **shown)
        self._tell("report", number)

    def note_pause(self, number: int) -> None:
        """Write that a trial waits after its last epoch."""
        trial = self.trials[number]
        if not trial.is_paused:
            self._write_pause(trial, Pause(len(trial.epochs), max(time.time(), self._last_report)))

    def note_continued(self, number: int) -> None:
        """Write that a trial trains again, where it was paused."""
        trial = self.trials[number]
        if trial.is_paused:
            pause = trial.pauses[len(trial.epochs)]
            self._write_pause(trial, pause._replace(ended=max(time.time(), pause.began)))

    def _write_pause(self, trial: TrialRow, pause: Pause) -> None:
        times = [pause.began, pause.ended]
        self._attribute_of_system(trial.number, f"{PAUSE}{pause.after_epoch}", times)
        self._tell("paused" if pause.ended is None else "continued", trial.number)

    def notice(self, number: int, text: str) -> None:
        """Write a note for the user about a trial."""
        self._attribute(number, "notices", [*self.trials[number].notices, text])
        self._tell("notice", number)

    def note_trial(self, number: int, **fields: Any) -> None:
        """Write fields of a trial, by their names in TrialRow, where their values are new."""
        for key, value in fields.items():
            if value != getattr(self.trials[number], key):
                self._attribute(number, key, value)

    def end(
        self,
        number: int,
        status: Status,
        reason: str = "",
        log: str | None = None,
        static_metrics: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """Write how a trial ended; only the first end counts. One that ended well is infeasible all the same
        where it misses a constraint. `static_metrics` are those of one that was refused before training."""
        # As a report: --patience goes by what came first.
        trial, end = self.trials[number], max(time.time(), self._last_report)
        if trial.status != "unfinished":
            return
        status, reason = constraints.end_of(trial, self.objectives, status, reason)
        with self.together():
            self._attribute(number, "status", status)
            self.note_trial(number, reason=reason, log=log, static_metrics=dict(static_metrics), end=end)
            ended = journal.end_fields(*journal.state_and_values(trial, status, self.objectives))
            self._write(Operation.TRIAL_STATE, trial_id=self._ids[number], **ended)
        self._tell("ended", number)

    def give_up_reruns(self) -> list[int]:
        """End the reruns that are no longer asked for, as other trials lead after more search; their
        numbers."""
        top, seeds = self.wanted_reruns()
        others = [
            each for each in self.unfinished_reruns if each.confirms not in top or each.seed not in seeds
        ]
        for rerun in others:
            self.end(rerun.number, "pruned", f"trial {rerun.confirms} is no longer to be confirmed")
        return [rerun.number for rerun in others]

    def note_run(self, run: Run) -> None:
        """Write a start or a resume of the sweep."""
        with self.together():
            self.note("runs", [*self.about.get("runs", []), vars(run)])
            if run.num_trials is not None:
                self.plan_trials(run.num_trials)

    def end_run(self, outcome: Outcome) -> None:
        """Write that a run ended, and how, unless the record can't be written any more."""
        with contextlib.suppress(RecordLost):
            self.stop_clock()
            self.note("outcome", outcome)

    def note_steered(self, steered: Steered) -> None:
        """Write a command of the user."""
        self.note("steered", [*self.about.get("steered", []), vars(steered)])

    def annotate(self, number: int | None, **fields: Any) -> None:
        """Write the note or the tags of a trial, or of the sweep, by their names in TrialRow."""
        for key, value in fields.items():
            self.note(key if number is None else f"{key}{OF_TRIAL}{number}", value)

    def note_without_test(self, trainable: str) -> None:
        """Write that a trainable can't be scored on test rows, so that it is not tried again."""
        if trainable not in self.info.without_test:
            self.note("without_test", [*self.info.without_test, trainable])

    def note_test(self, test: HeldOutScore) -> None:
        """Write the winner's scores on the test rows, and each use of these rows."""
        reported = {} if test.reported is None else {"reported": test.reported}
        content = {"trial": test.run, **reported, **test.scores}
        if test not in self.info.tests:
            self.note("tests", [*self.about.get("tests", []), content])
        if test != self.info.test:
            self.note("test", content)

    def note(self, key: str, value: Any) -> None:
        """Write an attribute of the sweep."""
        self._write(Operation.STUDY_USER_ATTR, study_id=STUDY_ID, user_attr={key: value})

    def _note_system(self, key: str, value: Any) -> None:
        self._write(Operation.STUDY_SYSTEM_ATTR, study_id=STUDY_ID, system_attr={key: value})

    def _attribute(self, number: int, key: str, value: Any) -> None:
        self._write(Operation.TRIAL_USER_ATTR, trial_id=self._ids[number], user_attr={key: value})

    def _attribute_of_system(self, number: int, key: str, value: Any) -> None:
        self._write(Operation.TRIAL_SYSTEM_ATTR, trial_id=self._ids[number], system_attr={key: value})

    def _write(self, operation: Operation, **fields: Any) -> None:
        self.take(self._journal.append(operation, **fields))

    def _tell(self, event: TrialEvent, number: int) -> None:
        for listener in self.listeners:
            listener(event, self.trials[number])

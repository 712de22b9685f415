"""Take up the commands of `sweeps control`, from another terminal, while a sweep runs.

A command is checked, carried out (`control_apply.py`), written to the record with its time, and answered.
Those that a killed driver has taken up and not answered are taken up again by the resume, none of them twice.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from ray.tune.experiment import Trial

from sweeps.common.errors import UserError
from sweeps.common.formatting import moment
from sweeps.config import control_commands as words
from sweeps.config.sweep_folder import control_command, resume_command
from sweeps.execution.driver import control_apply
from sweeps.execution.driver.queue_turn import QueueTurn
from sweeps.execution.output.console import STATUS_EVERY_S
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.plan import retries, run_start
from sweeps.record import status
from sweeps.record.control_requests import Answer, Inbox, Request
from sweeps.record.journal import RecordLost
from sweeps.record.steering import annotate
from sweeps.record.sweep_info import Outcome, Steered
from sweeps.record.trials import Ending
from sweeps.search.search_method import RecordSearcher
from sweeps.storage.protocol import StorageError
from sweeps.trial.messages import message_of

LOOK_EVERY_S = 1.0
NO_WEIGHTS = "its weights can't be saved: it hangs before its best epoch has ended again"


class UserCommands:
    """The commands to a sweep."""

    def __init__(
        self,
        context: RunContext,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._context, self._clock, self._sleep = context, clock, sleep
        self._inbox = Inbox(context.plan.folder)
        self.searcher: RecordSearcher | None = None
        """Of the search that runs, which follows the ranges."""
        self.turn: QueueTurn | None = None
        """Of a sweep of the queue."""
        self._look_next = 0.0
        self._fault = ""

    def take_up(self) -> bool:
        """Take up the commands that have come, about once a second; whether there were any."""
        if self._clock() < self._look_next:
            return False
        self._look_next = self._clock() + LOOK_EVERY_S
        try:
            return self._answer_all()
        except OSError as error:  # the folder of commands is gone, say: the sweep goes on
            if (fault := f"No command can be taken up: {error}") != self._fault:
                self._context.say(fault)
            self._fault = fault
            return False

    def is_to_end(self) -> bool:
        """Whether the search must end, once commands are taken up: for a searcher whose points are refused
        one after another, while nothing trains and Tune's loop waits for it."""
        self._context.tell_unmet()
        self.take_up()
        return self._context.is_due

    def wait_for_go(self) -> bool:
        """Wait as long as the sweep is paused, or in the queue; whether it may train."""
        while self._wait_in_pause() or (self.turn is not None and self.turn.wait(self._take_up_early)):
            continue
        self._context.record.is_held = False
        return self._context.end.is_running

    def _take_up_early(self) -> None:
        """Take up commands while nothing trains."""
        if self.take_up():  # a trial was stopped, maybe, or fewer are to come
            with contextlib.suppress(OSError):  # of the storage: what is left is seen to when trials go on
                run_start.settle(self._context.plan, self._context.record)

    def _wait_in_pause(self) -> bool:
        """Wait as long as the sweep is paused; whether it was."""
        context, record, end = self._context, self._context.record, self._context.end
        if (paused_at := record.info.paused_at) is not None and end.is_open:
            end.outcome = Outcome.PAUSED
            again = control_command(context.plan.folder, "go")
            context.say(f"Paused {moment(paused_at)}; the processes of the trials end. To continue: {again}")
            record.stop_clock()
            context.places.withdraw()
            if self.turn is not None:
                self.turn.give_up()
            status_next = self._clock() + STATUS_EVERY_S
            while end.outcome is Outcome.PAUSED:
                self._sleep(LOOK_EVERY_S / 2)
                self._take_up_early()
                if not context.console.is_terminal and self._clock() >= status_next:
                    status_next = self._clock() + STATUS_EVERY_S
                    context.say(f"Paused {moment(paused_at)}{status.how_far(record)}. To continue: {again}")
            record.start_clock()
            return True
        if end.outcome is Outcome.PAUSED:  # trials have left their processes, for those of another plan
            end.outcome = Outcome.RUNNING
            with contextlib.suppress(OSError):  # the same
                run_start.settle(context.plan, record)
        return False

    def _answer_all(self) -> bool:
        requests, faults = self._inbox.take()
        for fault in faults:
            self._context.say(f"A command was ignored: {fault}")
        for request in requests:
            self._inbox.answer(request, self._answer(request))
        plan, searcher = self._context.plan, self.searcher
        if searcher is not None and searcher.space is not plan.space:
            searcher.search_on(plan.searcher(plan.config, plan.space, self._context.record))
        return bool(requests)

    def _annotated(self, request: Request) -> Answer | None:
        """Write a note, or tags; None of another command."""
        if request.words[0] not in words.ANNOTATING:
            return None
        try:
            return Answer(annotate(self._context.record, words.parse(request.words)))
        except (UserError, RecordLost) as error:
            return Answer(str(error), is_refused=True)

    def _answer(self, request: Request) -> Answer:
        """Carry out a command, unless that was done before."""
        if (annotated := self._annotated(request)) is not None:
            return annotated
        context, record = self._context, self._context.record
        for done in record.info.steered:
            if done.request == request.name:
                return Answer(done.answer)
        typed = " ".join(request.words)
        try:
            if not context.end.is_open:
                again = resume_command(record.folder, *status.flags_of_resume(record))
                raise UserError(f"the sweep is stopping ({context.end.outcome}). Resume it: {again}")
            with record.together():
                text, more = control_apply.carry_out(context, words.parse(request.words))
                record.note_steered(Steered(list(request.words), text, time.time(), request.name, **more))
                retries.open_noted(context.plan, record)
                record.plan_chosen_points()
        except (UserError, OSError) as error:
            named = "" if str(error).startswith(request.words[0]) else f" {typed}"
            context.say(f"Refused{named}: {error}")
            return Answer(str(error), is_refused=True)
        context.say(f"{typed}: {text}")
        return Answer(text)

    def close(self) -> None:
        """Refuse what comes when the trials have ended."""
        record = self._context.record
        outcome = Outcome.LOST if self._context.cluster.watch.lost else self._context.end.outcome
        has_ended = outcome is not Outcome.LOST and self._context.end.is_running

        def refusal(request: Request) -> str:
            flags = status.flags_for(record, request.words, has_ended=has_ended)
            if has_ended:
                how = "Afterwards, a resume does that" if flags else "To add some"
                again = resume_command(record.folder, *(flags or ["--num-trials", "N"]))
                return f"the trials of this sweep have ended. {how}: {again}"
            again = resume_command(record.folder, *status.flags_of_resume(record), *flags)
            how = "A resume does that" if flags else "Resume it"
            return f"the sweep is ending ({outcome}). {how}: {again}"

        with contextlib.suppress(OSError):
            for _ in range(10):  # some may come while the last look is taken
                for request in self._inbox.take()[0]:
                    refused = Answer(refusal(request), is_refused=True)
                    self._inbox.answer(request, self._annotated(request) or refused)
                if self._inbox.close():
                    return


class StoppedTrials(DriverCallback):
    """Takes up commands at the end of each turn of Tune's loop, sees whether a limit of the sweep is reached,
    and ends the trials that the user or a limit stops.

    One that trains is asked to leave at its next step, as when the sweep stops; one that is to be proposed
    again is not; one that its scheduler has paused is ended by the scheduler.
    """

    def __init__(
        self, commands: UserCommands, context: RunContext, searcher: RecordSearcher, processes: TrialActors
    ) -> None:
        self._commands, self._context = commands, context
        self._searcher, self._processes = searcher, processes

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Take up commands, and go on with those that take a while."""
        self._commands.take_up()
        control_apply.end_search_if_enough(self._context)
        record, plan = self._context.record, self._context.plan
        if not (to_stop := [number for number in record.info.stopped if record.is_to_stop(number)]):
            return
        asked = [
            process
            for process in self._processes.training()
            if process.trial.config["number"] in to_stop and self._has_caught_up(process)
        ]
        for process in asked:
            if process.leaves_in_s is None:
                process.leaves_in_s = self._context.config.stop_grace
        self._processes.ask_to_leave(asked)
        for number in to_stop:
            try:
                is_lacking = plan.lacks_weights(record, number)
            except StorageError:  # it is asked again in the next turn
                continue
            if is_lacking and self._processes.not_left[number] < 2:
                continue  # it is trained again up to its best epoch, twice at most
            if self._searcher.withdraw(number):
                self._end(number, NO_WEIGHTS if is_lacking else "")

    def _has_caught_up(self, process: TrialActor) -> bool:
        """Whether a process has trained its trial as far as the record has it: after a lost process or a
        resume, some epochs are trained again."""
        reported = len(self._context.record.trials[process.trial.config["number"]].epochs)
        report = message_of(process.trial.last_result).report
        return (0 if report is None else report.epoch) >= reported

    def _end(self, number: int, fault: str) -> None:
        """End a trial that has no process; one with a fault has failed: no other trial is to wait for it."""
        record = self._context.record
        ending = Ending("failed", fault) if fault else Ending("stopped", record.why_stopped(number))
        self._context.plan.end_trial(record, number, ending)

"""The turn of a sweep that was started with --queue: it waits until all sweeps before it have ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from rich.live import Live
from rich.text import Text

from sweeps.common import gpus, local_dirs
from sweeps.common.formatting import duration
from sweeps.common.imports import module_command
from sweeps.config.sweep_config import flag
from sweeps.execution.output.console import STATUS_EVERY_S
from sweeps.execution.run_context import RunContext
from sweeps.ray_cluster import placement, session
from sweeps.ray_cluster.places import place_divider, shared_sweeps
from sweeps.ray_cluster.places.place_division import Allotment
from sweeps.ray_cluster.places.shared_sweeps import Ahead
from sweeps.ray_start import queued_sweeps
from sweeps.ray_start.ray_folder import User
from sweeps.record.sweep_info import Outcome

LOOK_EVERY_S = 1.0
MEASURE_EVERY_S = 5.0
"""Between two looks at the GPUs of a cluster, whose PCs are asked by a task each."""
OTHERS_CLAIM_S = 5.0
"""Seconds in which the sweeps that run claim their places, where the divider of places knows none of them."""


class QueueTurn:
    """Waits for the turn of a sweep, which it then has until it pauses or ends.

    Args:
        ahead: claims places, and returns the sweeps for which it waits; None: its turn has come.
    """

    def __init__(
        self,
        context: RunContext,
        ahead: Callable[[], Ahead | None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._context, self._ahead, self._clock, self._sleep = context, ahead, clock, sleep
        self._has_come = False

    def give_up(self) -> None:
        """Wait again before it trains: it pauses."""
        self._has_come = False

    def wait(self, take_up: Callable[[], object]) -> bool:
        """Wait for the turn, unless the sweep has it or is to end; whether there was anything to wait for."""
        context, record = self._context, self._context.record
        if self._has_come or not context.end.is_running or (ahead := self._ahead()) is None:
            self._has_come = True
            return False
        began = self._clock()
        record.stop_clock()
        record.note("waits_since", time.time())
        try:
            with self._shown() as show:
                while ahead is not None and context.end.is_running:
                    show(ahead)
                    take_up()
                    self._sleep(LOOK_EVERY_S)
                    ahead = self._ahead()
        finally:
            with record.together():
                record.note("waits_since", None)
                record.note("waited_s", record.info.waited_s + self._clock() - began)
            record.start_clock()
        if ahead is None:
            self._has_come = True
            context.say("No sweep is before this one any more: it begins.")
        return True

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Callable[[Ahead], None]]:
        """Tells for what it waits: on a terminal in a line that is drawn again; in a log when other sweeps
        are before it, and once a minute."""
        context, began = self._context, self._clock()
        told, next_s = Ahead().who, began + STATUS_EVERY_S

        def drawn(ahead: Ahead) -> Text:
            return Text(f"Waits in the queue, for {duration(self._clock() - began)}: {ahead.in_words()}.")

        def log(ahead: Ahead) -> None:
            nonlocal told, next_s
            if ahead.who != told or self._clock() >= next_s:
                told, next_s = ahead.who, self._clock() + STATUS_EVERY_S
                context.say(f"Waits in the queue: {ahead.in_words()}.")

        if (cell := context.cell) is not None:
            yield lambda ahead: cell.draw(drawn(ahead))
        elif context.console.is_terminal and not context.console.is_dumb_terminal:
            with Live(console=context.console, auto_refresh=False, transient=True) as live:
                yield lambda ahead: live.update(drawn(ahead), refresh=True)
        else:
            yield log


class QueueClaims:
    """The claims of a sweep that waits in the queue.

    Args:
        others: the other sweeps that use its Ray, as far as that is known.
    """

    def __init__(self, context: RunContext, others: Callable[[], Sequence[User]]) -> None:
        self._context, self._others = context, others
        self._ahead: Ahead | None = None
        self._claims_from_s = 0.0
        """Before, the last answer holds."""

    def ahead(self) -> Ahead | None:
        """Claim; for whom this sweep waits, None where its turn has come."""
        if time.monotonic() < self._claims_from_s:
            return self._ahead
        others = self._others()
        if place_divider.found() is None and others:
            place_divider.started(is_on_this_pc=self._context.cluster.is_alone)
            return self._let_claim()
        came_ns = self._context.places.came_s * 1e9
        starting = [f"{u.name} (process {u.pid})" for u in others if not u.has_claimed and u.begun < came_ns]
        before = Ahead() if self._ahead is None else self._ahead
        answer = self._claim(Ahead(neighbours=before.neighbours, starting=starting))
        if answer is None:
            return self._let_claim()
        if answer.waits_for or starting:
            self._ahead = shared_sweeps.ahead(answer.waits_for, place_divider.answered(), starting)
        elif lines := self._neighbours():
            self._ahead = Ahead(neighbours=lines)
            if not before.neighbours:
                self._claim(self._ahead)  # what it was just given goes to other sweeps
            if not self._context.cluster.is_alone:
                self._claims_from_s = time.monotonic() + MEASURE_EVERY_S
        else:
            self._context.places.note_wait("")
            self._ahead = None
        return self._ahead

    def _claim(self, ahead: Ahead) -> Allotment | None:
        """Claim: no places where it waits on more than the sweeps that the divider of places knows."""
        context, of_trial = self._context, self._context.gpus_per_trial
        worker, closed = placement.worker_resources(context.config, of_trial), context.cluster.closed
        context.places.note_wait("; ".join(ahead.beside_sweeps))
        wanted = 0 if ahead.beside_sweeps else context.slots(of_trial)
        return context.places.claim_turn(context.config, worker, wanted, closed)

    def _let_claim(self) -> Ahead:
        """Let the sweeps that run claim first, where the divider of places knows none of them."""
        self._claims_from_s = time.monotonic() + OTHERS_CLAIM_S
        self._ahead = self._ahead or Ahead()
        return self._ahead

    def _neighbours(self) -> Sequence[str]:
        """Others on the GPUs, for whom a sweep waits whose turn has come; [] where trials may begin. Then the
        free memory of the GPUs is as of now."""
        context, here = self._context, self._context.cluster.here
        if here is not None and not context.config.beside:
            own = here.ray_folder.process_ids()
            if lines := gpus.lines(session.gpus_of(context.config), own):
                return lines
        return session.measure_again(context.config, context.cluster, context.gpus_per_trial, context.say)


def turn_of(context: RunContext) -> QueueTurn | None:
    """The turn of a sweep in the queue; None where it does not wait."""
    if not context.config.queue:
        return None

    def others() -> Sequence[User]:
        users = [] if (here := context.cluster.here) is None else here.ray_folder.users()
        return [user for user in users if user.pid != os.getpid()]

    return QueueTurn(context, QueueClaims(context, others).ahead)


def noted(context: RunContext, signals: Sequence[int]) -> contextlib.AbstractContextManager[None]:
    """Note a sweep of the queue of this PC for a block: `sweeps up` starts it again after a reboot.

    Args:
        signals: those that have stopped it, Ctrl-C or others.
    """
    config, folder, here = context.config, context.plan.folder.resolve(), context.cluster.here
    if not config.queue or here is None:
        return contextlib.nullcontext()
    words = [*module_command("sweeps")[1:], "run", "--resume", str(folder), *local_dirs.typed_again()]
    words += ["--queue", "--priority", str(config.priority)]
    words += [
        flag(name) for name, is_given in (("beside", config.beside), ("force", config.force)) if is_given
    ]

    def may_shut_down() -> bool:
        """Whether not the user has ended it: a PC that shuts down sends another signal, or ends Ray first."""
        return any(number != signal.SIGINT for number in signals) or context.end.outcome is Outcome.LOST

    return queued_sweeps.noted(folder, words, may_shut_down, is_kept=here.ray_folder.stays)

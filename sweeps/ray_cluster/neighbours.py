"""Other people and programs on the GPUs of a sweep: found before it starts, so that none tramples another.

A process of this sweep's own Ray is none of them: Ray gives each GPU to one of its sweeps at a time.
"""

from __future__ import annotations

import getpass
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import psutil

from sweeps.common import gpus
from sweeps.common.errors import UserError
from sweeps.common.gpus import Card
from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import broadcast, placement
from sweeps.ray_cluster.gpus import list_gpus, own_processes
from sweeps.ray_cluster.nodes import PC, Node
from sweeps.ray_start.ray_folder import HOLDER, RayFolder, listed, ray_folders

OF_RAY, IDLE = "ray::", "ray::IDLE"
"""Beginnings of the names that Ray gives to processes that work for somebody, and to those that wait."""


def refuse_beside(cards: Sequence[Card], own: Collection[int] = ()) -> None:
    """Refuse to start beside others on the GPUs of this PC.

    Args:
        cards: the GPUs that the sweep may use.
        own: process ids of one's own Ray and of those that use it.

    Raises:
        UserError: some are used by others; the text says what can be done.
    """
    if not (found := gpus.lines(cards, own)):
        return
    free = [str(card.index) for card in cards if not card.neighbours(own)]
    other = f"--gpus {','.join(free)} uses {'the other one' if len(free) == 1 else 'the others'}, "
    is_one = len(found) == 1
    raise UserError(
        f"{'; '.join(found)}: --queue waits until {'it is' if is_one else 'they are'} free, "
        f"{other if free else ''}--beside runs beside {'it' if is_one else 'them'}"
    )


def check_this_pc(config: SweepConfig, own: Collection[int] = ()) -> None:
    """Look who else is on this PC, before a sweep starts there; print whose trials train beside it.

    Args:
        config: of the sweep.
        own: process ids of one's own Ray and of those that use it.

    Raises:
        UserError: others are on its GPUs, and it is not to run beside them.
    """
    if not config.beside and not config.queue:  # which waits for them
        refuse_beside(those_of(config), own)
    if line := trials_of_others():
        print(line, flush=True)


def refuse_overlap(config: SweepConfig, mine: RayFolder) -> None:
    """Refuse to start where another Ray of this user has some of the same GPUs, and sweeps: each would give
    them to its own trials.

    Args:
        config: of the sweep.
        mine: the Ray of the sweep.

    Raises:
        UserError: there is one.
    """
    cards = {} if config.beside or config.queue else {card.uuid: card for card in those_of(config)}
    for ray_folder in ray_folders() if cards else ():
        if ray_folder.folder == mine.folder or not (users := ray_folder.users()):
            continue
        state = ray_folder.state()
        try:
            variables = psutil.Process(state.pids[HOLDER]).environ() if state is not None else None
        except psutil.Error:  # it has just ended
            continue
        theirs = [] if variables is None else gpus.listed(variables)
        if shared := [card for card in theirs if card.uuid in cards]:
            numbers = ", ".join(str(card.index) for card in shared)
            both = {card.uuid for card in shared}
            free = [str(card.index) for card in cards.values() if card.uuid not in both]
            others = f", choose others (--gpus {','.join(free)})" if free else ""
            raise UserError(
                f"GPU{'s' * (len(shared) > 1)} {numbers}: {listed(users)} may use it, too, by another choice "
                "of GPUs, and both would train on it. To share its GPUs, type the command "
                f"{_choice_of(variables or {})}{others}, or train beside it (--beside)"
            )


def _choice_of(variables: Mapping[str, str]) -> str:
    """How a Ray with these variables is joined."""
    named = variables.get(gpus.VISIBLE)
    if named is None:
        return f"without --gpus, and with {gpus.VISIBLE} unset"
    is_typed = variables.get(gpus.ORDER) == gpus.BY_PLACE
    return f"with --gpus {named}" if is_typed else f"without --gpus, and with {gpus.VISIBLE}={named}"


def those_of(config: SweepConfig) -> list[Card]:
    """The GPUs of this PC that a sweep may use which joins no cluster; [] where its trials take none.

    A program that runs the sweep, such as a notebook, is no other one.
    """
    cards = gpus.listed(os.environ)
    if not placement.gpus_per_trial(config, [PC(0, len(cards))]):
        return []
    mine = {each.pid for each in psutil.Process().parents()}
    return [
        replace(card, processes=tuple(each for each in card.processes if each.pid not in mine))
        for card in cards
    ]


def of_every_pc(there: Sequence[Node]) -> dict[Node, str]:
    """The PCs of a cluster on whose GPUs others are, and who."""
    answers = broadcast.ask(there, _lines_here)
    return {pc: "; ".join(answer.value) for pc, answer in answers.items() if answer.value}


def _lines_here() -> list[str]:
    return gpus.lines(list_gpus(), own_processes())


def trials_of_others() -> str:
    """A line about the processes of other people's Ray on this PC; "" where there are none."""
    found = Counter[str]()
    for process in psutil.process_iter(["username", "cmdline"]):
        title = next(iter(process.info["cmdline"] or ()), "")
        if title.startswith(OF_RAY) and not title.startswith(IDLE):
            found[process.info["username"] or "unknown"] += 1
    found.pop(getpass.getuser(), None)
    who = (f"{name} ({number} process{'es' * (number > 1)})" for name, number in sorted(found.items()))
    return f"beside     Ray of other users runs on this PC, too: {', '.join(who)}" if found else ""

"""The commands that steer a running sweep, as they are typed: `sweeps control NAME COMMAND`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.common.cli.parser import PAIRS_EXAMPLES, named_texts
from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.settings import typed
from sweeps.common.yaml_values import hyperparameter, nearest
from sweeps.config.sweep_config import SweepConfig

COMMANDS = {
    "stop TRIAL": "end a trial; its scores so far count, and it is not tried again",
    "try NAME=VALUE ...": "train these hyperparameters next",
    "retry TRIAL|STATUS ...": "train trials again that failed, diverged or are infeasible",
    "set SETTING=VALUE ...": "change num-trials, max-epochs, max-concurrent, target, patience or a limit",
    "set NAME=LOW..HIGH ...": "draw the trials to come from another range; NAME=VALUE fixes one at a value",
    "pause": "save what the trials have trained, and free their GPUs and processes",
    "go": "continue after a pause",
    "finish": "begin no new trial, and let those that have begun end",
    "note [TRIAL] TEXT": 'write a note on the sweep, or on a trial, also when it has ended; "" removes it',
    "tag [TRIAL] TAG ...": "add tags to the sweep, or to a trial, also when it has ended",
    "untag [TRIAL] TAG ...": "remove tags",
}
"""Each with what it does, for `--help`."""
OF_SWEEP = """A note or a tag is of the sweep where no TRIAL is given. Give "" in its place
where the note or the first tag is a number: tag "" 2026"""
NAMES = tuple(dict.fromkeys(words.split()[0] for words in COMMANDS))
ANNOTATING = ("note", "tag", "untag")
"""Those that change nothing of the sweep, and are taken by one that has ended, too."""
MOST_OF_NOTE = 10_000
"""Characters."""
SETTABLE = (
    *("num_trials", "max_concurrent", "share", "time_budget_hours"),
    *("target", "patience", "max_gpu_hours", "max_epochs", "lr_schedule"),
)
"""Settings that may change while a sweep runs, and with a resume."""
RETRIED = ("failed", "diverged", "infeasible")
"""Statuses of trials that can be trained again."""
WITHDRAWN = "Withdrawn: nothing has changed."
"""Of a command that was not taken up before Ctrl-C."""


@dataclass(frozen=True)
class Command:
    """A command to a running sweep."""

    name: str
    """One of NAMES."""
    trial: int = -1
    """Number of the trial, of `stop`; of notes and tags -1 where the sweep is meant."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters of `try`, settings of `set`."""
    retried: tuple[int | str, ...] = ()
    """Of `retry`, numbers of trials, and statuses of RETRIED."""
    ranges: Mapping[str, Any] = field(default_factory=dict)
    """Of `set`, what is no setting: hyperparameters, which only the sweep knows."""
    note: str = ""
    tags: tuple[str, ...] = ()
    """Of `tag` and `untag`."""


def parse(words: Sequence[str]) -> Command:
    """A command of its words.

    Raises:
        UserError: there is no such command, or a word or a value does not fit; every fault, one a line.
    """
    refuse(_faults_of_characters(words))
    name, *rest = words or ("",)
    if name not in NAMES:
        fault = f"{name}: no such command.{nearest(name, NAMES)}" if name else "give a command."
        raise UserError(f"{fault} Choices: {', '.join(NAMES)}")
    if name == "stop":
        if len(rest) != 1 or (number := number_of_trial(rest[0])) is None:
            typed = f"stop {' '.join(rest)}".rstrip()
            raise UserError(f"{typed}: give the number of one trial, as in stop 7")
        return Command(name, trial=number)
    if name in ANNOTATING:
        return _annotation(name, rest)
    if name == "retry":
        return Command(name, retried=retried("retry", rest))
    if name == "try":
        return Command(name, values={key: hyperparameter(text) for key, text in _pairs(name, rest).items()})
    if name == "set":
        pairs = _pairs(name, rest)
        settings = {key: text for key, text in pairs.items() if key.replace("-", "_") in SETTABLE}
        others = {key: hyperparameter(text) for key, text in pairs.items() if key not in settings}
        return Command(name, values=_settings(settings), ranges=others)
    if rest:
        raise UserError(f"{name} {' '.join(rest)}: {name} takes nothing else")
    return Command(name)


def _faults_of_characters(words: Sequence[str]) -> list[str]:
    """Of words that are no text: their command is kept in the record, and written to tables and pages."""
    must = "give UTF-8 text, without control characters other than line breaks and tabs"
    faults = []
    for word in words:
        text = word.replace("\r\n", "\n")
        wrong = [each for each in text if each not in "\n\t" and unicodedata.category(each) in ("Cc", "Cs")]
        if wrong:
            faults.append(f"{word[:40]!a}: it has the character {wrong[0]!a}; {must}")
    return faults


def retried(where: str, words: Sequence[str]) -> tuple[int | str, ...]:
    """The trials that are to be trained again, of words such as `failed 7 trial_0012`.

    Args:
        where: begins the message: the flag, or the command.
        words: that were typed.

    Raises:
        UserError: none was given, or some are neither; every fault, one a line.
    """
    give = f"give numbers of trials, or {', '.join(RETRIED[:-1])} or {RETRIED[-1]}, as in {where} failed"
    found = {word: word if word in RETRIED else number_of_trial(word) for word in words}
    wrong = [word for word, each in found.items() if each is None]
    refuse([f"{where} {word}: {give}.{nearest(word, RETRIED)}" for word in wrong])
    if not words:
        raise UserError(f"{where}: {give}")
    return tuple(dict.fromkeys(each for each in found.values() if each is not None))


def _annotation(name: str, words: list[str]) -> Command:
    """A command of ANNOTATING; the number of a trial comes first. "" in its place means the sweep, whose note
    or tag may be a number."""
    number = number_of_trial(words[0]) if words else None
    means_sweep = words[:1] == [""] and (name != "note" or len(words) > 1)  # note "" removes one
    if number is not None or means_sweep:
        words = words[1:]
    trial = -1 if number is None else number
    if name != "note":
        where = name if number is None else f"{name} {number}"
        return Command(name, trial=trial, tags=tags(where, words))
    if len(words) != 1:
        raise UserError('note: give one text in quotes, as in note "a baseline" or note 7 "lr too high"')
    text = words[0].replace("\r\n", "\n").strip()  # a form in a browser sends both
    if len(text) > MOST_OF_NOTE:
        raise UserError(f"note: it has {len(text):,} characters; give at most {MOST_OF_NOTE:,}")
    return Command(name, trial=trial, note=text)


def tags(where: str, words: Sequence[str]) -> tuple[str, ...]:
    """Tags, each once.

    Args:
        where: begins the message: the flag, or the command.
        words: that were typed.

    Raises:
        UserError: none was given, or some are none; every fault, one a line.
    """
    if not words:
        raise UserError(f"{where}: give tags, as in {where} baseline good")
    must = "a tag has 1 to 40 letters, digits, '.', '_' and '-'; several are separated by spaces"
    refuse([f"{where} {word}: {must}" for word in words if not re.fullmatch(r"[A-Za-z0-9._-]{1,40}", word)])
    return tuple(dict.fromkeys(words))


def number_of_trial(word: str) -> int | None:
    """The number of a trial, of `7` or `trial_0007`; None of another word."""
    found = re.fullmatch(r"(?:trial_)?(\d{1,9})", word)
    return None if found is None else int(found[1])


def _pairs(name: str, words: Sequence[str]) -> dict[str, str]:
    """Name to value as text, of the words of `try` or `set`."""
    faults = [] if words else [f"{name}: give name=value, as in {name} {PAIRS_EXAMPLES[name]}"]
    pairs = named_texts(words, name, faults)
    refuse(faults)
    return pairs


def _settings(pairs: Mapping[str, str]) -> dict[str, Any]:
    values, faults = dict[str, Any](), list[str]()
    for name, text in pairs.items():
        shown, key = name.replace("_", "-"), name.replace("-", "_")
        setting = SweepConfig.settings()[key]
        # Which null would leave to the default.
        kind = int if key in ("num_trials", "max_epochs") else setting.kind
        with collecting(faults):
            is_none = text == "none" and kind is not int
            values[key] = typed(f"set {shown}", kind, None if is_none else text)
            if fault := setting.fault(values[key]):
                faults.append(fault.replace(f"--{shown}", f"set {shown}", 1))
    refuse(faults)
    return values

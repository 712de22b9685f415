"""The commands that steer a running sweep, as they are typed: `sweeps control NAME COMMAND`."""

from __future__ import annotations

import re
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
    "set SETTING=VALUE ...": "change num-trials, max-concurrent or time-budget-hours",
    "pause": "save what the trials have trained, and free their GPUs and processes",
    "go": "continue after a pause",
    "finish": "begin no new trial, and let those that have begun end",
}
"""Each with what it does, for `--help`."""
NAMES = tuple(words.split()[0] for words in COMMANDS)
SETTABLE = ("num_trials", "max_concurrent", "time_budget_hours")
"""Settings that may change while a sweep runs, and with a resume."""
WITHDRAWN = "Withdrawn: nothing has changed."
"""Of a command that was not taken up before Ctrl-C."""


@dataclass(frozen=True)
class Command:
    """A command to a running sweep."""

    name: str
    """One of NAMES."""
    trial: int = -1
    """Number of the trial, of `stop`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Hyperparameters of `try`, settings of `set`."""


def parse(words: Sequence[str]) -> Command:
    """A command of its words.

    Raises:
        UserError: there is no such command, or a word or a value does not fit; every fault, one a line.
    """
    name, *rest = words or ("",)
    if name not in NAMES:
        fault = f"{name}: no such command.{nearest(name, NAMES)}" if name else "give a command."
        raise UserError(f"{fault} Choices: {', '.join(NAMES)}")
    if name == "stop":
        return Command(name, trial=_trial(rest))
    if name == "try":
        return Command(name, values={key: hyperparameter(text) for key, text in _pairs(name, rest).items()})
    if name == "set":
        return Command(name, values=_settings(_pairs(name, rest)))
    if rest:
        raise UserError(f"{name} {' '.join(rest)}: {name} takes nothing else")
    return Command(name)


def _trial(words: Sequence[str]) -> int:
    found = re.fullmatch(r"(?:trial_)?(\d{1,9})", words[0]) if len(words) == 1 else None
    if found is None:
        raise UserError(f"stop {' '.join(words)}".rstrip() + ": give the number of one trial, as in stop 7")
    return int(found[1])


def _pairs(name: str, words: Sequence[str]) -> dict[str, str]:
    """Name to value as text, of the words of `try` or `set`."""
    faults = [] if words else [f"{name}: give name=value, as in {name} {PAIRS_EXAMPLES[name]}"]
    pairs = named_texts(words, name, faults)
    refuse(faults)
    return pairs


def _settings(pairs: Mapping[str, str]) -> dict[str, Any]:
    choices = [name.replace("_", "-") for name in SETTABLE]
    values, faults = dict[str, Any](), list[str]()
    for name, text in pairs.items():
        shown, key = name.replace("_", "-"), name.replace("-", "_")
        setting = SweepConfig.settings().get(key)
        if setting is None or key not in SETTABLE:
            what = "no such setting" if setting is None else "can't change while a sweep runs"
            faults.append(f"set {name}: {what}.{nearest(shown, choices)} Choices: {', '.join(choices)}")
            continue
        kind = int if key == "num_trials" else setting.kind  # which null would leave to the default
        with collecting(faults):
            is_none = text == "none" and kind is not int
            values[key] = typed(f"set {shown}", kind, None if is_none else text)
            if fault := setting.fault(values[key]):
                faults.append(fault.replace(f"--{shown}", f"set {shown}", 1))
    refuse(faults)
    return values

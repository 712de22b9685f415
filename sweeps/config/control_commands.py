"""The commands that steer a running sweep, as they are typed: `sweeps control results/NAME COMMAND`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweeps.common.cli.parser import Fault, typed
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import ParamValue, hyperparameter, nearest
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
        return Command(name, values=point(rest, "try"))
    if name == "set":
        return Command(name, values=_settings(rest))
    if rest:
        raise UserError(f"{name} {' '.join(rest)}: {name} takes nothing else")
    return Command(name)


def point(words: Sequence[str], where: str) -> dict[str, ParamValue]:
    """The hyperparameters of a trial of one's own choosing.

    Args:
        words: each as `lr=0.1`.
        where: what takes them, for messages.

    Raises:
        UserError: a word is none; every fault, one a line.
    """
    pairs, faults = _pairs(words, where, "lr=0.1 batch_size=64")
    if faults:
        raise UserError("\n".join(faults))
    return {name: hyperparameter(text) for name, text in pairs.items()}


def _trial(words: Sequence[str]) -> int:
    found = re.fullmatch(r"(?:trial_)?(\d{1,9})", words[0]) if len(words) == 1 else None
    if found is None:
        raise UserError(f"stop {' '.join(words)}".rstrip() + ": give the number of one trial, as in stop 7")
    return int(found[1])


def _settings(words: Sequence[str]) -> dict[str, Any]:
    pairs, faults = _pairs(words, "set", "num-trials=48 max-concurrent=3")
    choices = [name.replace("_", "-") for name in SETTABLE]
    values = {}
    for name, text in pairs.items():
        shown, key = name.replace("_", "-"), name.replace("-", "_")
        if key not in SETTABLE:
            hint = f"{nearest(shown, choices)} Choices: {', '.join(choices)}"
            is_one = key in SweepConfig.settings()
            what = "can't change while a sweep runs" if is_one else "no such setting"
            faults.append(f"set {name}: {what}.{hint}")
            continue
        setting = SweepConfig.settings()[key]
        value = None if text in ("null", "none") else typed(f"set {shown}", setting.kind, text)
        if key == "num_trials" and value is None:
            value = Fault(f"set {shown} {text}: must be a whole number")
        if value is not None and not isinstance(value, Fault) and (fault := setting.fault(value)):
            value = Fault(fault.replace(f"--{shown}", f"set {shown}", 1))
        faults += [value] if isinstance(value, Fault) else []
        values[key] = value
    if faults:
        raise UserError("\n".join(faults))
    return values


def _pairs(words: Sequence[str], where: str, example: str) -> tuple[dict[str, str], list[str]]:
    """Names and values as text, and a fault for each word that has none, or a name twice."""
    pairs: dict[str, str] = {}
    faults = [] if words else [f"{where}: give NAME=VALUE, as in {where} {example}"]
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            faults.append(f"{where} {word}: give NAME=VALUE, as in {where} {example}")
        elif name in pairs:
            faults.append(f"{where} {word}: {name} is given twice")
        else:
            pairs[name] = value
    return pairs, faults

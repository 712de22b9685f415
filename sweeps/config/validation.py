"""Check a config by itself: bounds, and settings that contradict each other."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection

from sweeps.common.formatting import bytes_of
from sweeps.common.objective import MODES, MOST_OBJECTIVES, RELATIONS, Constraint, split
from sweeps.common.yaml_values import nearest
from sweeps.config.sweep_config import SweepConfig, flag
from sweeps.kinds.registry import is_project

NEEDED_SETTINGS = {
    "refine_keep": "refine",
    "confirm_top": "confirm",
    "force": "resume",
    "submit": "address",
    "data": "address",
    "cli_config": "lightning_cli",
    "hydra_overrides": "hydra",
}
"""Settings that have an effect with another one alone."""


def check(config: SweepConfig, typed: Collection[str] = ()) -> list[str]:
    """The faults of a config, before any plug-in is read.

    Args:
        config: that was asked for.
        typed: settings that were given as flags. A file of settings holds the defaults, too.
    """
    faults = [*config.out_of_bounds(), *_faults_of_grace(config, typed), *_faults_of_retention(config)]
    faults += [
        f"{flag(name)} needs {flag(needed)}"
        for name, needed in NEEDED_SETTINGS.items()
        if getattr(config, name) != getattr(SweepConfig, name) and not getattr(config, needed)
    ]
    faults += [*_faults_of_gpus(config), *_faults_of_address(config), *_faults_of_names(config)]
    faults += [*_faults_of_objectives(config), *_faults_of_constraints(config)]
    if len(config.metrics) > 1 and "confirm_top" in typed:
        faults.append("--confirm-top: with several objectives --confirm reruns the whole front")
    is_new = config.resume is None and config.name is not None
    if is_new and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", str(config.name)):
        faults.append(
            f"--name {config.name!r}: give at most 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    return faults


def _faults_of_grace(config: SweepConfig, typed: Collection[str]) -> list[str]:
    is_typed = config.resume is None and "grace_epochs" in typed
    is_default = config.grace_epochs == SweepConfig.grace_epochs and not is_typed
    if config.scheduler == "none" or config.grace_epochs <= config.max_epochs or is_default:
        return []  # short trials are not pruned by the default
    return [
        f"--grace-epochs {config.grace_epochs}: the first rung is after the last epoch. "
        f"Give at most --max-epochs {config.max_epochs}, or --scheduler none"
    ]


def _faults_of_retention(config: SweepConfig) -> list[str]:
    keep = config.keep_checkpoints
    if not isinstance(keep, str) or bytes_of(keep):
        return []
    return [
        f"--keep-checkpoints {keep}: must be a number of trials, at least 1, or a size above 0 in kB, MB, GB "
        "or TB, such as 20GB"
    ]


def _faults_of_gpus(config: SweepConfig) -> list[str]:
    trials, gpus, workers = config.trials_per_gpu, config.gpus_per_trial, config.workers_per_trial
    if trials == "auto" and workers > 1:
        return [
            f"--trials-per-gpu auto can't be combined with --workers-per-trial {workers}: "
            "each worker needs its own GPU"
        ]
    if not trials or gpus is None or (trials != "auto" and math.isclose(trials * gpus, 1)):
        return []
    return [f"--trials-per-gpu {trials}: contradicts --gpus-per-trial {gpus:g}; give one of them"]


def _faults_of_address(config: SweepConfig) -> list[str]:
    address = config.address or ""
    if not config.submit:
        wrong = f"--address {address}: give HOST:6379, or auto (or http://HOST:8265 with --submit)"
        return [wrong] if "://" in address else []
    faults = []
    if "://" in address and not address.startswith(("http://", "https://")):
        faults.append(f"--address {address}: give HOST:6379, auto, or http://HOST:8265")
    why = {
        "dashboard": "the page would open on the head. Run `sweeps dashboard results/NAME` there",
        "dry_run": "a plan depends on the PC that makes it; run it on the head",
        "refine": "the head does not have the sweep of this PC; run it where the sweep is",
    }
    faults += [
        f"{flag(name)} can't be combined with --submit: {text}"
        for name, text in why.items()
        if getattr(config, name)
    ]
    kept = ("params", "ranges") if config.resume is not None else ()
    why_kept = "can't be combined with --submit --resume: the sweep keeps its own"
    return faults + [f"{flag(name)} {why_kept}" for name in kept if getattr(config, name)]


def _faults_of_objectives(config: SweepConfig) -> list[str]:
    given, example = config.metrics, "--metric val_acc:max params_m:min"
    if config.metric is not None and not all(given or [""]):
        return ["--metric: give at least one"]
    if len(given) > MOST_OBJECTIVES:
        most = f"give at most {MOST_OBJECTIVES}: with more, almost no trial is better than another"
        return [f"--metric {' '.join(given)}: {len(given)} objectives; {most}"]
    if len(given) == 1:
        mode = split(given[0])[1]
        if mode and config.mode not in (None, mode):
            return [f"--metric {given[0]}: contradicts --mode {config.mode}; give one of them"]
        suffix = given[0].rpartition(":")[2] if ":" in given[0] else ""  # a name may have a colon, too
        is_misspelt = not mode and config.mode is None and nearest(suffix, MODES)
        return [_fault_of_mode(given[0], example)] if is_misspelt else []
    faults = [_fault_of_mode(text, example) for text in given if not split(text)[1]]
    names = [split(text)[0] for text in given]
    faults += [
        f"--metric {' '.join(given)}: {name} is given twice" for name in names if names.count(name) > 1
    ][:1]
    if given and config.mode is not None:
        faults.append(f"--mode {config.mode}: with several objectives each has its own, as in {example}")
    return faults


def _fault_of_mode(text: str, example: str) -> str:
    """Of an objective that has none."""
    name, colon, mode = text.rpartition(":")
    if not colon:
        choices = " or ".join(f"{text}:{mode}" for mode in reversed(MODES))
        return (
            f"--metric {text}: its mode is missing; with several objectives give {choices}, as in {example}"
        )
    return f"--metric {text}: {mode!r} is no mode.{nearest(mode, MODES)} Give {name}:max or {name}:min"


def _faults_of_constraints(config: SweepConfig) -> list[str]:
    faults, found = list[str](), list[Constraint]()
    for text in config.constraints:
        try:
            found.append(Constraint.parse(text))
        except ValueError:
            form = f"METRIC, one of {', '.join(RELATIONS)}, and a number"
            faults.append(f'--constraint {text}: give {form}, in quotes: "params_m<=5"')
    for low, high in itertools.permutations(found, 2):
        are_a_range = low.metric == high.metric and low.relation[0] == ">" and high.relation[0] == "<"
        is_a_value = low.bound == high.bound and low.relation + high.relation == ">=<="
        if are_a_range and low.bound >= high.bound and not is_a_value:
            faults.append(f"--constraint {low} {high}: no value meets both")
    return faults


def _faults_of_names(config: SweepConfig) -> list[str]:
    kinds = [name for name in ("lightning_cli", "hydra", "trainable") if getattr(config, name) is not None]
    if len(kinds) > 1:
        return [f"{flag(kinds[0])} can't be combined with {flag(kinds[1])}: each is a trainable"]
    names = config.trainables or [name for name in (config.lightning_cli, config.hydra) if name is not None]
    spaces = config.search_spaces
    faults = [] if names or config.trainable is None else ["--trainable: give at least one"]
    for kind, given in (("trainable", names), ("search_space", spaces), ("loggers", config.logger_names)):
        faults += [
            f"{flag(kind)} {name}: separate names by spaces: {name.replace(',', ' ')}"
            for name in given
            if "," in name and not is_project(name)
        ]
        if kind != "search_space" and len(set(given)) < len(given):
            faults.append(f"{flag(kind)} {' '.join(given)}: a name is given twice")
    if config.search_space is not None and names and len(spaces) != len(names):
        several = f"as many search spaces as trainables ({len(names)}), in the order {', '.join(names)}"
        wanted = f"one search space, for {names[0]}" if len(names) == 1 else several
        own = "its own" if len(names) == 1 else "their own"
        faults.append(f"--search-space {' '.join(spaces)}: give {wanted}; or none, to use {own}")
    return faults

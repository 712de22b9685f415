"""What is wrong with a config by itself: settings beyond their bounds, and those that do not go together."""

from __future__ import annotations

import math
import re

from sweeps.config.sweep_config import SweepConfig, flag


def check(config: SweepConfig) -> list[str]:
    """The faults of a config by itself, before any plug-in is looked at."""
    faults = config.out_of_bounds()
    if config.scheduler != "none" and config.grace_epochs > config.max_epochs:
        faults.append(
            f"--grace-epochs {config.grace_epochs}: the first rung lies after the last epoch; "
            f"at most --max-epochs {config.max_epochs}, or --scheduler none"
        )
    if config.refine is None and config.refine_keep != SweepConfig.refine_keep:
        faults.append("--refine-keep: only with --refine")
    faults += _faults_of_gpus(config)
    faults += _faults_of_address(config)
    faults += _faults_of_names(config)
    if config.force and config.resume is None:
        faults.append("--force: only with --resume")
    if (
        config.resume is None
        and config.name is not None
        and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", config.name)
    ):
        faults.append(
            f"--name {config.name!r}: a folder's name of at most 100 letters, digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    return faults


def _faults_of_gpus(config: SweepConfig) -> list[str]:
    trials, gpus, workers = config.trials_per_gpu, config.gpus_per_trial, config.workers_per_trial
    if trials == "auto" and workers > 1:
        return [f"--trials-per-gpu auto: each of --workers-per-trial {workers} computes on a GPU of its own"]
    if not trials or gpus is None or (trials != "auto" and math.isclose(trials * gpus, 1)):
        return []
    return [f"--trials-per-gpu {trials}: that is not --gpus-per-trial {gpus:g}; give one of them"]


def _faults_of_address(config: SweepConfig) -> list[str]:
    address = config.address or ""
    if not address and config.data != SweepConfig.data:
        return ["--data: only with --address; on one PC data is read where it lies"]
    if not config.submit:
        wrong = f"--address {address}: give HOST:6379, or auto (or http://HOST:8265 with --submit)"
        return [wrong] if "://" in address else []
    faults = [] if address else ["--submit: only with --address"]
    if "://" in address and not address.startswith(("http://", "https://")):
        faults.append(f"--address {address}: give HOST:6379, auto, or http://HOST:8265")
    why = {
        "dashboard": "its page would be the head's; there: sweeps dashboard results/NAME",
        "dry_run": "a plan is of where it is made; type it on the head",
        "refine": "it reads a sweep of this PC, which the head does not have; type it there",
    }
    faults += [
        f"{flag(name)}: not with --submit: {text}" for name, text in why.items() if getattr(config, name)
    ]
    settled = ("params", "ranges") if config.resume is not None else ()
    return faults + [
        f"{flag(name)}: not with --submit --resume: the sweep has its own"
        for name in settled
        if getattr(config, name)
    ]


def _faults_of_names(config: SweepConfig) -> list[str]:
    names, spaces = config.trainables, config.search_spaces
    faults = [] if names or config.trainable is None else ["--trainable: give one, or several"]
    faults += [
        f"{flag(kind)} {name}: several are given with a space between, {name.replace(',', ' ')}"
        for kind, given in (("trainable", names), ("search_space", spaces), ("loggers", config.logger_names))
        for name in given
        if "," in name
    ]
    faults += [
        f"{flag(kind)} {' '.join(given)}: one is given twice"
        for kind, given in (("trainable", names), ("loggers", config.logger_names))
        if len(set(given)) < len(given)
    ]
    if config.search_space is not None and names and len(spaces) != len(names):
        each = (
            f"one, for {names[0]}"
            if len(names) == 1
            else (f"one for each of {len(names)} trainables ({', '.join(names)}), in their order")
        )
        faults.append(f"--search-space {' '.join(spaces)}: give {each}; or none: each its own")
    return faults

"""Check a config by itself: bounds, settings that contradict each other, and those of a sweep to resume."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sweeps.common.errors import UserError, collecting
from sweeps.common.formatting import bytes_of, short
from sweeps.common.imports import missing
from sweeps.common.objective import MODES, MOST_OBJECTIVES, RELATIONS, Constraint, split
from sweeps.common.yaml_values import nearest
from sweeps.config.control_commands import retried, tags
from sweeps.config.sweep_config import SweepConfig, flag, listed
from sweeps.kinds.commands.command_words import CommandWords, shown
from sweeps.kinds.registry import is_project

NEEDED_SETTINGS = {
    "refine_keep": "refine",
    "confirm_top": "confirm",
    "force": "resume",
    "retry": "resume",
    "lr_schedule": "resume",
    "submit": "address",
    "priority": "queue",
    "data": "address",
    "hydra_overrides": "hydra",
    "notify_on": "notify_command",
}
"""Settings that have an effect with another one alone."""
NEVER_CHANGED = (
    *("trainable", "metric", "mode", "constraint", "scheduler"),
    *("grace_epochs", "reduction_factor", "workers_per_trial"),
)
"""The scores, rungs and checkpoints of a record depend on these: not even --force changes them."""
NOTIFY_EVENTS = ("best", "failed", "half", "end")
"""Words of --notify-on."""
WAYS = ("command", "lightning_cli", "hydra", "trainable")
"""Settings that say what is trained; one of them is given."""
EXAMPLE_OF_OBJECTIVES = "--metric val_acc:max params_m:min"


def check(config: SweepConfig, typed: Collection[str] = ()) -> list[str]:
    """The faults of a config, before any plug-in is read.

    Args:
        config: that was asked for.
        typed: settings that were given as flags. A file of settings holds the defaults, too.
    """
    return [
        *config.out_of_bounds(),
        *_faults_of_trials(config, typed),
        *_faults_of_address(config),
        *_faults_of_packages(config),
        *_faults_of_names(config),
        *_faults_of_variables(config),
        *_faults_of_objectives(config, typed),
        *_faults_of_constraints(config),
        *_faults_of_notify_on(config.notify_events),
    ]


def refuse_other(now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Compare the settings of a resume with those of the sweep.

    Raises:
        UserError: some of NEVER_CHANGED differ, or there are fewer epochs.
    """
    if (epochs := now["max_epochs"]) < (had := before.get("max_epochs", epochs)):
        raise UserError(fewer_epochs(f"--max-epochs {epochs}", had))
    faults = [
        f"{flag(name)} {short(now[name]) or 'none'}: the sweep has {short(before[name]) or 'none'}"
        for name in NEVER_CHANGED
        if name in before and short(now[name]) != short(before[name])  # `[a]` in a file is `a`
    ]
    if faults:
        reason = (
            "Its trials were scored, pruned and saved with these settings. Start a new sweep to change them; "
            "`--refine NAME` starts one that learns from these trials."
        )
        raise UserError("\n".join([*faults, reason]))


def fewer_epochs(typed: str, had: int) -> str:
    """Why a sweep can't have fewer epochs."""
    return (
        f"{typed}: the sweep has {had}, and its trials were pruned for an end at {had} or later. More epochs "
        "are possible; --num-trials, --target and --patience end a search sooner"
    )


def _faults_of_trials(config: SweepConfig, typed: Collection[str]) -> Iterator[str]:
    """Of their epochs, their checkpoints and their GPUs; and of settings that need another one."""
    # Short trials are not pruned by the default.
    is_asked = config.grace_epochs != SweepConfig.grace_epochs or (
        config.resume is None and "grace_epochs" in typed
    )
    if is_asked and config.scheduler != "none" and config.grace_epochs > config.max_epochs:
        yield (
            f"--grace-epochs {config.grace_epochs}: the first rung is after the last epoch. "
            f"Give at most --max-epochs {config.max_epochs}, or --scheduler none"
        )
    if config.retry is not None:
        with collecting(faults := list[str]()):
            retried("--retry", config.retried)
        yield from faults
    keep = config.keep_checkpoints
    if isinstance(keep, str) and not bytes_of(keep):
        yield (
            f"--keep-checkpoints {keep}: must be a number of trials, at least 1, or a size above 0 in kB, "
            "MB, GB or TB, such as 20GB"
        )
    for name, needed in NEEDED_SETTINGS.items():
        if getattr(config, name) != getattr(SweepConfig, name) and not getattr(config, needed):
            yield f"{flag(name)} needs {flag(needed)}"
    trials, gpus, workers = config.trials_per_gpu, config.gpus_per_trial, config.workers_per_trial
    if trials == "auto" and workers > 1:
        yield (
            f"--trials-per-gpu auto can't be combined with --workers-per-trial {workers}: "
            "each worker needs its own GPU"
        )
    elif trials and gpus is not None and (trials == "auto" or not math.isclose(trials * gpus, 1)):
        yield f"--trials-per-gpu {trials}: contradicts --gpus-per-trial {gpus:g}; give one of them"
    if gpus is not None and gpus > 1 and gpus % 1:  # Ray has no others
        yield f"--gpus-per-trial {gpus:g}: must be a whole number, or a share of one GPU such as 0.5"


def _faults_of_address(config: SweepConfig) -> Iterator[str]:
    address = config.address or ""
    if not config.submit:
        if "://" in address:
            yield f"--address {address}: give HOST:6379, or auto (or http://HOST:8265 with --submit)"
        return
    if "://" in address and not address.startswith(("http://", "https://")):
        yield f"--address {address}: give HOST:6379, auto, or http://HOST:8265"
    why = {
        "dashboard": "--submit: the page would open on the head. Run `sweeps dashboard results/NAME` there",
        "dry_run": "--submit: a plan depends on the PC that makes it; run it on the head",
        "refine": "--submit: the head does not have the sweep of this PC; run it where the sweep is",
    }
    if config.resume is not None:
        why |= {"params": "--submit --resume: the sweep keeps its own"}
    for name, text in why.items():
        if getattr(config, name):
            yield f"{flag(name)} can't be combined with {text}"


def _faults_of_packages(config: SweepConfig) -> Iterator[str]:
    """Of those that this PC lacks; another cluster may have them."""
    is_needed = config.fit.strategy.startswith("deepspeed") and config.address is None
    if is_needed and (fault := missing("deepspeed", "deepspeed")):
        yield f"--strategy {config.fit.strategy}: {fault}"


def _faults_of_names(config: SweepConfig) -> Iterator[str]:
    """Of the name of the sweep, and of the names of plug-ins."""
    is_new = config.resume is None and config.name is not None
    if is_new and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", str(config.name)):
        yield (
            f"--name {config.name!r}: give at most 100 letters (a-z, A-Z), digits, '.', '_' and '-', "
            "beginning with a letter or a digit"
        )
    if config.tags is not None:
        with collecting(faults := list[str]()):
            tags("--tags", listed(config.tags))
        yield from faults
    kinds = [name for name in WAYS if getattr(config, name) is not None]
    if len(kinds) > 1:
        yield f"{flag(kinds[0])} can't be combined with {flag(kinds[1])}: each is a trainable"
        return
    names = config.trainables or [name for name in (config.lightning_cli, config.hydra) if name is not None]
    spaces = config.search_spaces
    if config.trainable is not None and not names:
        yield "--trainable: give at least one"
    for kind, given in (("trainable", names), ("search_space", spaces), ("loggers", config.logger_names)):
        for name in given:
            if "," in name and not is_project(name):
                yield f"{flag(kind)} {name}: separate names by spaces: {name.replace(',', ' ')}"
        if kind != "search_space" and len(set(given)) < len(given):
            yield f"{flag(kind)} {' '.join(given)}: a name is given twice"
    if config.search_space is not None and names and len(spaces) != len(names):
        yield (
            f"--search-space {' '.join(spaces)}: give as many as there are trainables ({len(names)}), in the "
            f"order {', '.join(names)}; or none, to use those of the trainables"
        )


def _faults_of_variables(config: SweepConfig) -> Iterator[str]:
    """Of those in a command, which no shell replaces. A sweep that has begun with some goes on."""
    command = config.command if config.command and config.resume is None else ""
    words = list[str]()
    with contextlib.suppress(ValueError):  # `CommandTrainable.find` tells it
        words += CommandWords.of(command).words
    for before, word in itertools.pairwise(words):
        # With a blank it is a script, of a shell on another PC, say, or of awk.
        is_variable = re.fullmatch(r"(?:[\w.-]+=)?\$[A-Za-z_]\S*", word)
        if is_variable and not re.fullmatch(r"-\w*[ce]", before):
            yield f"--command {shown(command)!r}: {word}: variables are of a shell: give bash -c '...'"


def _faults_of_objectives(config: SweepConfig, typed: Collection[str]) -> Iterator[str]:
    given, metrics = config.metrics, " ".join(config.metrics)
    if config.metric is not None and not all(given or [""]):
        yield "--metric: give at least one"
    elif len(given) > MOST_OBJECTIVES:
        most = f"give at most {MOST_OBJECTIVES}: with more, almost no trial is better than another"
        yield f"--metric {metrics}: {len(given)} objectives; {most}"
    elif len(given) == 1:
        mode, suffix = split(metrics)[1], metrics.rpartition(":")[2]
        if mode and config.mode not in (None, mode):
            yield f"--metric {metrics}: contradicts --mode {config.mode}; give one of them"
        # A name may have a colon, too.
        if not mode and config.mode is None and ":" in metrics and nearest(suffix, MODES):
            yield _fault_of_mode(metrics)
    elif given:
        yield from (_fault_of_mode(text) for text in given if not split(text)[1])
        names = [split(text)[0] for text in given]
        if twice := next((name for name in names if names.count(name) > 1), None):
            yield f"--metric {metrics}: {twice} is given twice"
        if config.mode is not None:
            each = f"with several objectives each has its own, as in {EXAMPLE_OF_OBJECTIVES}"
            yield f"--mode {config.mode}: {each}"
        for name in ("target", "patience"):
            if getattr(config, name) is not None:
                yield f"{flag(name)}: it is of one score, and there are several objectives"
        if "confirm_top" in typed:
            yield "--confirm-top: with several objectives --confirm reruns the whole front"


def _fault_of_mode(text: str) -> str:
    """Of an objective that has none."""
    name, colon, mode = text.rpartition(":")
    if colon:
        return f"--metric {text}: {mode!r} is no mode.{nearest(mode, MODES)} Give {name}:max or {name}:min"
    give = f"with several objectives give {text}:max or {text}:min, as in {EXAMPLE_OF_OBJECTIVES}"
    return f"--metric {text}: its mode is missing; {give}"


def _faults_of_constraints(config: SweepConfig) -> Iterator[str]:
    found: list[Constraint] = []
    for text in config.constraints:
        try:
            found.append(Constraint.parse(text))
        except ValueError:
            form = f"METRIC, one of {', '.join(RELATIONS)}, and a number"
            yield f'--constraint {text}: give {form}, in quotes: "params_m<=5"'
    for low, high in itertools.permutations(found, 2):
        are_a_range = low.metric == high.metric and low.relation[0] == ">" and high.relation[0] == "<"
        is_a_value = low.bound == high.bound and low.relation + high.relation == ">=<="
        if are_a_range and low.bound >= high.bound and not is_a_value:
            yield f"--constraint {low} {high}: no value meets both"


def _faults_of_notify_on(events: Sequence[str]) -> Iterator[str]:
    for event in events:
        if event not in NOTIFY_EVENTS:
            near = nearest(event, NOTIFY_EVENTS)
            yield f"--notify-on {event}: no such event.{near} Choices: {', '.join(NOTIFY_EVENTS)}"
    if not events:
        yield f"--notify-on: give at least one of {', '.join(NOTIFY_EVENTS)}"

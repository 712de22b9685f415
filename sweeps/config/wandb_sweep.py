"""A sweep's file of Weights & Biases as settings: `--wandb-sweep sweep.yaml`

Its keys: https://docs.wandb.ai/models/sweeps/sweep-config-keys. What each means is read in the schema, the
sampling and the stopping of github.com/wandb/sweeps, and in the command that `wandb agent` makes.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.common.errors import UserError, collecting, refuse
from sweeps.common.formatting import plain_name, short
from sweeps.common.yaml_values import is_number, nearest, read_lines
from sweeps.kinds.commands.command_words import OF_ALL

METHODS = {"bayes": None, "random": "random", "grid": "grid"}
"""Its methods, and the searcher of each; None: the default one."""
GOALS = {"minimize": "min", "maximize": "max"}
COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
"""Where the file has none."""
LEFT_OUT = (
    *("project", "entity", "description", "controller", "job", "image_uri", "scheduler", "apiVersion"),
    "kind",
)
"""Keys that mean nothing without W&B's server."""
KEYS = (
    *("program", "command", "method", "metric", "metrics", "parameters", "early_terminate", "run_cap"),
    "name",
)
MACRO = re.compile(r"\$\{(env|interpreter|program|envvar:\w+|args\w*)\}")
"""Others are left as they are: Hydra's and OmegaConf's have the same form."""
SAFE = re.compile(r"[\w@%+=:,./{}-]+")
"""A word that means itself."""
EPOCHS = ("epochs", "max_epochs", "num_epochs", "n_epochs", "num_train_epochs", "trainer.max_epochs")
"""Hyperparameters that say how long a program trains, by custom."""
DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "constant": ("value",),
    "categorical": ("values",),
    "categorical_w_probabilities": ("values", "probabilities"),
    "uniform": ("min", "max"),
    "int_uniform": ("min", "max"),
    "q_uniform": ("min", "max", "q"),
    "log_uniform": ("min", "max"),
    "log_uniform_values": ("min", "max"),
    "q_log_uniform": ("min", "max", "q"),
    "q_log_uniform_values": ("min", "max", "q"),
    "inv_log_uniform": ("min", "max"),
    "inv_log_uniform_values": ("min", "max"),
    "normal": ("mu", "sigma"),
    "q_normal": ("mu", "sigma", "q"),
    "log_normal": ("mu", "sigma"),
    "q_log_normal": ("mu", "sigma", "q"),
    "beta": ("a", "b"),
    "q_beta": ("a", "b", "q"),
}
"""Name to the keys beside it."""
DEFAULTS = {"mu": 0.0, "sigma": 1.0, "q": 1.0, "a": 1.0, "b": 1.0}
MOST_EXPONENT = 700
"""e to a larger one is no number."""
WIDTH_SIGMA = 2.0
"""Of a normal distribution, which has no ends: 95 % of its values lie within."""


def read(path: str) -> tuple[dict[str, Any], list[str]]:
    """The settings of a file, and a line for each thing in it that has no counterpart.

    Raises:
        UserError: it can't be read, or something in it is wrong, one a line.
    """
    content = read_lines(path, f"--wandb-sweep {path}")
    faults: list[str] = []
    settings, lines = dict[str, Any](), list[str]()
    for part in (_search, _objective, _hyperparameters, _pruning, _command):
        with collecting(faults):
            found, said = part(content)
            settings |= found
            lines += said
    if unknown := [str(key) for key in content if key not in (*KEYS, *LEFT_OUT)]:
        faults += [f"{key}: no such key.{nearest(key, KEYS)}" for key in unknown]
    refuse([f"--wandb-sweep {path}: {fault}" for fault in faults])
    if left_out := [key for key in LEFT_OUT if key in content]:
        lines.append(f"{', '.join(left_out)}: left out, these are of W&B's server")
    epochs = [settings[kind].get(name) for kind in ("params", "ranges") for name in EPOCHS]
    most = max((_largest(each) for each in epochs if each is not None), default=0)
    if most := max(most, settings.get("max_epochs", 0)):
        settings["max_epochs"] = most
    return settings, [f"{path}: {line}" for line in lines]


Part = tuple[dict[str, Any], list[str]]
"""Settings, and lines of what has no counterpart."""


def _search(content: Mapping[str, Any]) -> Part:
    method, cap = content.get("method"), content.get("run_cap")
    name = plain_name(str(content.get("name") or ""))
    found: dict[str, Any] = {"name": name} if name else {}
    if not isinstance(method, str) or method not in METHODS:
        raise UserError(f"method {short(method)}: must be one of {', '.join(METHODS)}")
    found |= {"searcher": METHODS[method]} if METHODS[method] else {}
    if cap is not None and not (is_number(cap) and cap == int(cap) and cap > 0):
        raise UserError(f"run_cap {short(cap)}: must be a whole number above 0")
    if cap is None and method != "grid":
        return found, ["run_cap: it has none, so the number of trials is that of --num-trials"]
    return found | ({} if cap is None else {"num_trials": int(cap)}), []


def _objective(content: Mapping[str, Any]) -> Part:
    if (several := content.get("metrics")) is not None:
        if not isinstance(several, list):
            raise UserError(f"metrics {short(several)}: must be a list")
        return {"metric": [_metric(each)[0] for each in several]}, []
    if (metric := content.get("metric")) is None:
        return {}, []
    text, lines = _metric(metric)
    target = metric.get("target")
    if target is not None and not is_number(target):
        raise UserError(f"metric.target {short(target)}: must be a number")
    return {"metric": [text], **({} if target is None else {"target": float(target)})}, lines


def _metric(metric: Any) -> tuple[str, list[str]]:
    """As --metric takes it, and what is left out."""
    if not isinstance(metric, Mapping) or not isinstance(metric.get("name"), str):
        raise UserError(f"metric {short(metric)}: must have a name, and a goal: minimize or maximize")
    goal = metric.get("goal", "minimize")
    if not isinstance(goal, str) or goal not in GOALS:
        raise UserError(f"metric.goal {short(goal)}: must be minimize or maximize")
    unused = [f"metric.{key}" for key in metric if key not in ("name", "goal", "target")]
    return f"{metric['name']}:{GOALS[goal]}", [f"{', '.join(unused)}: left out"] if unused else []


def _hyperparameters(content: Mapping[str, Any]) -> Part:
    given = content.get("parameters")
    if not isinstance(given, Mapping) or not given:
        raise UserError("parameters: must be 'name: values' lines")
    ranges, params, faults, lines = dict[str, Any](), dict[str, Any](), list[str](), list[str]()
    for name, asked in _leaves(given):
        with collecting(faults):
            if not isinstance(asked, Mapping):
                raise UserError(f"parameters.{name} {short(asked)}: must hold value, values, or min and max")
            kind = _distribution(name, asked)
            if kind == "constant":
                params[name] = asked["value"]
            elif kind.startswith("categorical"):
                values = asked["values"]
                if not isinstance(values, list) or not values:
                    raise UserError(f"parameters.{name}.values {short(values)}: must be a list of values")
                ranges[name] = values
                lines += [f"{name}: probabilities are left out"] if "probabilities" in asked else []
            else:
                ranges[name], line = _range(name, kind, asked)
                lines += [line] if line else []
    refuse(faults)
    return {"ranges": ranges, "params": params}, lines


def _leaves(given: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Hyperparameters by name; those inside another one have the name of a path, as optimizer/lr."""
    for name, asked in given.items():
        if isinstance(asked, Mapping) and isinstance(asked.get("parameters"), Mapping):
            yield from _leaves(asked["parameters"], f"{before}{name}/")
        else:
            yield f"{before}{name}", asked


def _distribution(name: str, asked: Mapping[str, Any]) -> str:
    """The distribution of a hyperparameter, also where only its keys say so.

    Raises:
        UserError: there is none, or a key is missing, unknown or no number.
    """
    where = f"parameters.{name}"
    kind = asked.get("distribution")
    if kind is None:
        ends = [asked.get("min"), asked.get("max")]
        whole = all(isinstance(end, int) for end in ends)
        by_keys = {"value": "constant", "values": "categorical", "min": "int_uniform" if whole else "uniform"}
        kind = next((kind for key, kind in by_keys.items() if key in asked), None)
        if kind is None:
            raise UserError(f"{where}: must hold value, values, or min and max")
        if "probabilities" in asked and kind == "categorical":
            kind = "categorical_w_probabilities"
    if not isinstance(kind, str) or kind not in DISTRIBUTIONS:
        raise UserError(f"{where}.distribution {kind!r}: no such one.{nearest(str(kind), DISTRIBUTIONS)}")
    keys = DISTRIBUTIONS[kind]
    if unknown := [str(key) for key in asked if key not in (*keys, "distribution")]:
        raise UserError(f"{where}.{unknown[0]}: {kind} has no such key.{nearest(unknown[0], keys)}")
    if missing := [key for key in keys if key not in asked and key not in DEFAULTS]:
        raise UserError(f"{where}.{missing[0]}: {kind} needs it")
    if "value" not in keys and "values" not in keys:
        for key in keys:
            if not is_number(asked.get(key, 0)):
                raise UserError(f"{where}.{key} {short(asked[key])}: must be a number")
        if asked.get("q", 1) <= 0:
            raise UserError(f"{where}.q {short(asked['q'])}: must be above 0")
    return kind


def _range(name: str, kind: str, asked: Mapping[str, Any]) -> tuple[str, str]:
    """A distribution of numbers as --ranges takes it, and a line where it becomes another one.

    Raises:
        UserError: it is empty, or its logarithm is none.
    """
    values = {key: asked.get(key, DEFAULTS.get(key)) for key in DISTRIBUTIONS[kind]}
    plain, is_log = kind.removeprefix("q_").removeprefix("inv_"), "log" in kind
    if plain == "beta":
        low, high = 0.0, 1.0
    elif "normal" in plain:
        low, high = (values["mu"] + sign * WIDTH_SIGMA * values["sigma"] for sign in (-1, 1))
    else:
        low, high = values["min"], values["max"]
    if plain in ("log_normal", "log_uniform"):  # it has the exponents
        low, high = (-high, -low) if kind.startswith("inv_") else (low, high)
        if high > MOST_EXPONENT:
            of_values = "log_uniform_values" if plain == "log_normal" else f"{kind}_values"
            raise UserError(
                f"parameters.{name}: {kind} takes exponents of e, and e to the {short(high)} is too "
                f"large. For the values themselves give {of_values}"
            )
        low, high = math.exp(low), math.exp(high)
    if not low < high:
        raise UserError(f"parameters.{name}: min {short(low)} must be below max {short(high)}")
    if is_log and low <= 0:
        raise UserError(f"parameters.{name}.min {short(low)}: must be above 0 on a log scale")
    step = values.get("q") if kind.startswith("q_") else None
    text = _text(low, high, is_log, step, kind == "int_uniform")
    if "normal" in plain or plain == "beta":
        shown = ", ".join(f"{values[key]:g}" for key in DISTRIBUTIONS[kind])
        return (
            text,
            f"{name}: {kind}({shown}) is searched from {text.partition(':')[0].replace('..', ' to ')}",
        )
    if kind.endswith("log_uniform") and 0 < values["min"] < values["max"] <= 1:
        these = f"{values['min']:g} to {values['max']:g}"
        return text, (
            f"{name}: {kind} takes exponents of e, so it is searched from {low:.4g} to {high:.4g}; for "
            f"{these} give {kind}_values"
        )
    return text, ""


def _text(low: float, high: float, is_log: bool, step: float | None, is_whole: bool) -> str:
    """A range, whose ends are steps where it has them."""
    if step is not None:
        low, high = round(low / step) * step, round(high / step) * step
        low = step if is_log and low <= 0 else low
        is_whole = step == int(step)
    ends = (int(low), int(high)) if is_whole else (_clean(low), _clean(high))
    marks = [*(["log"] if is_log else []), *([f"{int(step) if is_whole else step!r}"] if step else [])]
    return ":".join([f"{ends[0]!r}..{ends[1]!r}", *marks])


def _clean(value: float) -> float:
    """Without the rounding error of an exponent: 0.0009999999999999998 is 0.001."""
    return float(f"{value:.10g}")


def _pruning(content: Mapping[str, Any]) -> Part:
    rule = content.get("early_terminate")
    if rule is None:
        return {"scheduler": "none"}, [
            "early_terminate: it has none, so no trial is pruned; --scheduler halving prunes"
        ]
    if not isinstance(rule, Mapping) or rule.get("type") != "hyperband":
        raise UserError(f"early_terminate {short(rule)}: must have type hyperband")
    given = {key: rule[key] for key in ("min_iter", "max_iter", "s", "eta") if key in rule}
    for key, value in given.items():
        if not (is_number(value) and value >= (2 if key == "eta" else 1)):
            raise UserError(f"early_terminate.{key} {short(value)}: must be a number of at least 1, eta of 2")
    eta = round(given.get("eta", 3))
    found = {"scheduler": "asha", "reduction_factor": eta}
    unused = [f"early_terminate.{key}" for key in rule if key not in (*given, "type")]
    lines = [f"{', '.join(unused)}: left out"] if unused else []
    if "max_iter" in given:
        if "s" not in given:
            raise UserError("early_terminate.s: max_iter needs it, the number of brackets")
        most = int(given["max_iter"])
        first = [int(most / eta**power) for power in range(1, int(given["s"]) + 1)]
        return found | {"grace_epochs": min(n for n in (most, *first) if n >= 1), "max_epochs": most}, lines
    if "min_iter" not in given:
        raise UserError("early_terminate: must have min_iter, or max_iter and s")
    return found | {"grace_epochs": int(given["min_iter"])}, lines


def _command(content: Mapping[str, Any]) -> Part:
    """The command of a trial, with placeholders where the file has macros of hyperparameters."""
    words, program = content.get("command") or COMMAND, content.get("program")
    if not isinstance(words, list | tuple):
        raise UserError(f"command {short(words)}: must be a list of words")
    if program is None and any("${program}" in str(word) for word in words):
        raise UserError(
            "program: it has none. A sweep of a function is run from Python: sweeps.run(train, ...)"
        )
    texts = [str(word) for word in words]
    if texts[:1] == ["${env}"] and "=" not in "".join(texts[1:2]):  # /usr/bin/env, which sets variables
        texts = texts[1:]
    found = [_word(text, str(program)) for text in texts]
    if not any(f"{{{name}}}" in found for name in OF_ALL):
        found.append("{wandb_config}")
    return {"command": " ".join(word if SAFE.fullmatch(word) else shlex.quote(word) for word in found)}, []


def _word(word: str, program: str) -> str:
    """A word of the command, as --command has it: macros replaced, other braces doubled."""
    parts = MACRO.split(word)  # text and macro in turn
    found = [*map(_doubled, parts)]
    for place in range(1, len(parts), 2):
        macro, _, variable = parts[place].partition(":")
        if macro not in ("env", "interpreter", "program", "envvar", *OF_ALL):
            raise UserError(f"command {word}: no such macro.{nearest(macro, OF_ALL)}")
        known = {"program": program, "interpreter": "python", "env": "env"}
        known["envvar"] = os.environ.get(variable, variable)
        found[place] = _doubled(known[macro]) if macro in known else f"{{{macro}}}"
    return "".join(found)


def _doubled(text: str) -> str:
    """A text with its braces, which are no placeholder."""
    return text.replace("{", "{{").replace("}", "}}")


def _largest(value: Any) -> int:
    """The largest number of a fixed hyperparameter or of choices; 0 of others."""
    found = [each for each in (value if isinstance(value, list) else [value]) if is_number(each)]
    if isinstance(value, str) and ".." in value:
        found = [float(value.partition("..")[2].partition(":")[0])]
    return int(max(found, default=0))

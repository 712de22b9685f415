"""params.yaml: all that is needed to repeat a run. It is beside the weights, and `--params FILE` reads it.

    trainable: fashion_cnn
    params: {lr: 0.1, width: 8}         # its hyperparameters
    fit: {max_epochs: 27, seed: 7, ...} # how it was trained: fields of FitConfig, flags of sweeps.fit
    score: 0.8815                       # its result, which is not read back
    epoch: 19

A file with `params` alone, or with hyperparameters alone, is valid too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.common.yaml_values import dump_yaml, load_yaml, nearest, read_lines

BEST = "best"
"""Folder of the best trial of a sweep, and of the best epoch of a single run; the file is in it."""
FILE = "params.yaml"
WEIGHTS_FILE = "weights.pt"
"""Beside it: the state_dict of the best epoch in fp32, for `torch.load(..., weights_only=True)`."""
HOOKS_FILE = "hooks.pt"
"""Beside the weights, where there is any: what the model's `on_save_checkpoint` and the data module's
`state_dict` add to a checkpoint."""


CHECKPOINT_FOLDER = "checkpoint"
"""Beside it, of a function that trains: what its `save` has written."""


def files_of_weights(folder: Path) -> list[Path]:
    """The files in a folder that hold a trained model."""
    found = [folder / WEIGHTS_FILE, folder / HOOKS_FILE, *(folder / CHECKPOINT_FOLDER).rglob("*")]
    return [path for path in found if path.is_file()]


@dataclass(frozen=True)
class Recipe:
    """The content of a file; what it lacks is empty."""

    path: str
    trainable: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)


def write(
    trainable: str,
    params: Mapping[str, Any],
    fit: Mapping[str, Any],
    came_of_it: Mapping[str, Any],
    head: Sequence[str] = (),
) -> str:
    """The text of a file.

    Args:
        trainable: its name.
        params: hyperparameters; the others have the defaults of Params.
        fit: settings of the training; those that are None are left out.
        came_of_it: the result, further keys.
        head: comments above.
    """
    given = {name: value for name, value in fit.items() if value is not None}
    content = {"trainable": trainable, "params": dict(params), "fit": given, **came_of_it}
    return "".join(f"# {line}\n" for line in head) + dump_yaml(content)


def named(word: str) -> str:
    """The file that a word names: of the best trial of a sweep or a run, by its name in results/ or by its
    folder, or a YAML file by its path; "" where it names none."""
    best = f"{BEST}/{FILE}"
    try:
        folder = project.in_results(word, best)
    except UserError:
        if "=" in word:  # a pair, of more characters than the name of a file has
            return ""
        raise
    if "=" in word and project.is_closed(folder / best):  # a pair, where only others may look into results/
        return ""
    if project.is_file(folder / best):
        return str(folder / best)
    is_file = "=" not in word and word.endswith((".yaml", ".yml"))
    return word if is_file else str(Path(word, FILE)) if (folder / FILE).is_file() else ""


def trainable_of(path: str) -> str:
    """The trainable that a file names; "" where it names none or can't be read."""
    try:
        return str(load_yaml(Path(path).expanduser().read_text()).get("trainable") or "")
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return ""


def read(path: str, settings: Collection[str]) -> Recipe:
    """Read a file.

    Args:
        path: as the user gave it.
        settings: names that its `fit` may hold.

    Raises:
        UserError: it can't be read, or its content is not as above.
    """
    where = f"--params {path}"
    content = read_lines(path, where)
    if "params" not in content:
        return Recipe(path, params={str(name): value for name, value in content.items()})
    params, fit = content["params"] or {}, content.get("fit") or {}
    for name, part in (("params", params), ("fit", fit)):
        if not isinstance(part, Mapping):
            raise UserError(f"{where}: {name}: must be 'name: value' lines")
    if unknown := [name for name in map(str, fit) if name not in settings]:
        faults = [f"fit.{name}: no such setting.{nearest(name, settings)}" for name in unknown]
        raise UserError(f"{where}: {'; '.join(faults)}")
    hyperparameters = {str(name): value for name, value in params.items()}
    return Recipe(path, str(content.get("trainable") or ""), hyperparameters, fit)

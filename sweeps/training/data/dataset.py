"""Prepared data sets: their sources, their folder, and whether they have been prepared."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from sweeps.common import local_dirs
from sweeps.common.errors import UserError
from sweeps.common.formatting import command, count, shown_path, size
from sweeps.common.local_dirs import PREPARED_DIR_VARIABLE
from sweeps.common.param_types import build_params, held, hints_of, refusal
from sweeps.common.yaml_values import ParamValue
from sweeps.kinds import source_files
from sweeps.kinds.trainable import Description, Trainable
from sweeps.training.data import raw_files, shards
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import Manifest, NotPrepared


class UndeclaredHyperparameter(UserError):
    """`prepare` or `raw_items` reads a hyperparameter that PREPARE_PARAMS does not name."""


class Declared:
    """A trainable's Params of which only PREPARE_PARAMS can be read: the key of the data holds no others.

    Args:
        reader: function that gets it, for the message of `UndeclaredHyperparameter`.
    """

    def __init__(self, params: Any, hyperparameters: tuple[str, ...], reader: str) -> None:
        hidden = {field.name for field in dataclasses.fields(params)} - set(hyperparameters)
        made_of = params, hyperparameters, reader
        self.__dict__.update(_params=params, _hidden=hidden, _reader=reader, _made_of=made_of)

    __class__ = property(lambda self: type(self._params))  # for `super()` in what Params derives

    def __reduce__(self) -> tuple[Any, ...]:
        return Declared, self._made_of

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._hidden:
            raise UndeclaredHyperparameter(
                f"{self._reader} reads the hyperparameter {name}: add it to PREPARE_PARAMS"
            )
        own = getattr(type(self._params), name, None)
        is_static = isinstance(inspect.getattr_static(type(self._params), name, None), staticmethod)
        if isinstance(own, property | cached_property | FunctionType) and not is_static:
            return own.__get__(self)  # it reads the hyperparameters here, too
        return getattr(self._params, name)


@dataclass(frozen=True)
class DataSet:
    """The prepared data of the current raw files, hyperparameters and code; it may be still to prepare."""

    description: Description
    """Of the trainable."""
    hyperparameters: Mapping[str, ParamValue]
    """PREPARE_PARAMS with their values."""
    items: tuple[Item, ...]
    code: str
    """Checksum of the code of `prepare`."""

    @property
    def name(self) -> str:
        """The trainable's, without its packages."""
        return self.description.content.rpartition(".")[2]

    @cached_property
    def key(self) -> str:
        """Checksum of all that the rows depend on."""
        files = sorted((item.split, item.name, item.sha256) for item in self.items)
        return _digest([self._recipe, files])

    @property
    def folder(self) -> Path:
        return root() / f"{self.name}-{self.key[:12]}"

    @property
    def parts_folder(self) -> Path:
        """Folder of `part`."""
        return root() / f"{self.name}-parts-{_digest(self._recipe)[:12]}"

    @property
    def raw_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)

    @property
    def source(self) -> str:
        """Number, size and common folder of the raw files."""
        folder = os.path.commonpath([item.path.parent for item in self.items])
        return f"{count(len(self.items), 'raw file')} of {size(self.raw_bytes)} in {folder}"

    def part(self, item: Item) -> Path:
        """File of one raw file's rows, kept until all raw files are prepared."""
        return self.parts_folder / f"{item.part}.arrows"

    def manifest(self) -> Manifest | None:
        """The manifest; None when the data has not been prepared.

        Raises:
            NotPrepared: the data is damaged.
        """
        return Manifest.read(self.folder) if (self.folder / shards.MANIFEST).exists() else None

    def is_there(self) -> bool:
        """Whether it has been prepared and is complete."""
        try:
            return self.manifest() is not None
        except NotPrepared:
            return False

    def describe(self) -> str:
        """One line for a plan."""
        return f"{'prepared' if self.is_there() else 'to be prepared'}: {self.source}"

    def in_a_line(self) -> str:
        """Folder, rows and skipped files of what has been prepared.

        Raises:
            NotPrepared: it is missing or damaged.
        """
        manifest = Manifest.read(self.folder)
        rows = ", ".join(f"{manifest.rows(split):,} rows {split}" for split in manifest.splits)
        skipped = len(manifest.about.get("skipped", []))
        return f"{shown_path(self.folder)}, {rows}" + (f", {skipped:,} raw files skipped" if skipped else "")

    def command(self, *more: str) -> str:
        """The command that prepares it, with `more` arguments at its end."""
        words = [f"{name}={value}" for name, value in self.hyperparameters.items()]
        words = ["--params", *words] if words else []
        for name, variable in local_dirs.OF_THE_MACHINE.items():
            if folder := local_dirs.named_folder(variable):
                words += [name, shown_path(folder)]
        return command("prepare", self.description.name, *words, *more)

    @property
    def _recipe(self) -> list[Any]:
        """What the rows of one raw file depend on, beside that file."""
        return [shards.FORMAT, self.code, sorted(self.hyperparameters.items())]


def root() -> Path:
    """The folder of all prepared data: --prepared-dir, else in the user's cache."""
    return local_dirs.named_folder(PREPARED_DIR_VARIABLE) or local_dirs.cache_dir() / "prepared"


def find_data_set(trainable: Trainable, params: Mapping[str, ParamValue]) -> DataSet:
    """The data set of a trainable with a preparation; raw files without a known checksum are read.

    Args:
        params: given hyperparameters; only PREPARE_PARAMS are used.

    Raises:
        UserError: raw files are missing, Params refuses the hyperparameters, or `raw_items` reads another.
    """
    preparation, asked = trainable.preparation, trainable.name
    assert preparation is not None
    params_class, names = trainable.params_class, preparation.params
    given = {name: value for name, value in params.items() if name in names}
    if fault := refusal(params_class, given):
        shown = ", ".join(f"{name}={value}" for name, value in given.items()) or "its defaults"
        raise UserError(f"{asked}: Params refuses {shown} (only PREPARE_PARAMS are set): {fault}")
    all_params, hints = build_params(params_class, given), hints_of(params_class)
    hyperparameters = {name: held(getattr(all_params, name), hints[name]) for name in names}
    readable = Declared(build_params(params_class, hyperparameters), tuple(hyperparameters), "raw_items")
    try:
        items = raw_files.find(asked, preparation.raw_items, readable, root() / "checksums.json")
    except UndeclaredHyperparameter as error:
        raise UserError(f"{asked}: {error}") from None
    return DataSet(trainable.description, hyperparameters, tuple(items), _code_of(trainable))


def _code_of(trainable: Trainable) -> str:
    """Checksum of the module that defines `prepare` and of what it imports of its project. A partial, say, or
    what a decorator makes has its arguments from the trainable: then its code counts.

    This program's own modules are left out: `shards.FORMAT` stands for them.
    """
    assert trainable.preparation is not None
    prepare = trainable.preparation.prepare
    home = sys.modules.get(getattr(prepare, "__module__", ""))
    made_there = home is not None and _is_made_in(home, prepare)
    files = source_files.files([source_files.source_of(home)] if home and made_there else trainable.sources())
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        if not name.startswith("sweeps/"):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def _is_made_in(module: ModuleType, prepare: Any) -> bool:
    """Whether a module has it under any name, or a class there has it as a method that needs no instance."""
    owner, _, name = str(getattr(prepare, "__qualname__", "")).rpartition(".")
    of_class = getattr(getattr(module, owner, None), name, None)
    return any(each is prepare for each in vars(module).values()) or bool(of_class == prepare)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()

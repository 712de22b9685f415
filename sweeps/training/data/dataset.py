"""Prepared data: what it is made of, in which folder it is, and whether it has been made."""

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
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sweeps.common import machine_folders, source_files
from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import command, count, place, size
from sweeps.common.machine_folders import PREPARED_DIR_VARIABLE
from sweeps.common.yaml_values import ParamValue
from sweeps.training.config import Trainable
from sweeps.training.data import raw_files, shards
from sweeps.training.data.former_names import in_former_names
from sweeps.training.data.raw_files import Item
from sweeps.training.data.shards import Manifest, NotPrepared

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule

CHECKSUMS_FILE = "checksums.json"
"""In the folder of all prepared data: checksums of raw files that are known."""
KEY_LENGTH = 12
"""Characters of a key that stand in a folder's name."""


class UndeclaredHyperparameter(UserError):
    """`prepare` or `raw_items` reads a hyperparameter that PREPARE_PARAMS does not name."""


class Declared:
    """A trainable's Params of which PREPARE_PARAMS alone can be read: data is not known by the others.

    Args:
        params: with its methods and properties.
        hyperparameters: names of those that can be read.
        reader: the function that gets it, for the message of `UndeclaredHyperparameter`.
    """

    def __init__(self, params: Any, hyperparameters: tuple[str, ...], reader: str) -> None:
        hidden = {field.name for field in dataclasses.fields(params)} - set(hyperparameters)
        self.__dict__.update(_params=params, _hidden=hidden, _reader=reader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pickle asks before there is anything
            raise AttributeError(name)
        if name in self._hidden:
            raise UndeclaredHyperparameter(
                f"{self._reader} reads the hyperparameter {name}: add it to PREPARE_PARAMS"
            )
        return getattr(self._params, name)


@dataclass(frozen=True)
class DataSet:
    """The prepared data of the current raw files, hyperparameters and code, whether made yet or not."""

    trainable: str
    """As it was named."""
    module: str
    """The trainable's module path."""
    hyperparameters: Mapping[str, ParamValue]
    """PREPARE_PARAMS with their values."""
    items: tuple[Item, ...]
    code: str
    """Checksum of the code of `prepare`."""

    @property
    def name(self) -> str:
        """Of the trainable, without its packages."""
        return self.module.rpartition(".")[2]

    @cached_property
    def key(self) -> str:
        """Checksum of all that the rows follow from."""
        files = sorted((item.split, item.name, item.sha256) for item in self.items)
        return _digest([self._recipe, files])

    @property
    def folder(self) -> Path:
        """Its folder, which may not exist yet."""
        return root() / f"{self.name}-{self.key[:KEY_LENGTH]}"

    @property
    def parts_folder(self) -> Path:
        """The folder of the rows of each raw file, until all raw files are prepared."""
        return root() / f"{self.name}-parts-{_digest(self._recipe)[:KEY_LENGTH]}"

    @property
    def lock_file(self) -> Path:
        """Locked by the process that makes it."""
        return root() / f".{self.parts_folder.name}.lock"

    @property
    def raw_bytes(self) -> int:
        """Of all raw files."""
        return sum(item.size_bytes for item in self.items)

    @cached_property
    def folder_of_raw_files(self) -> Path:
        """That holds them all."""
        return Path(os.path.commonpath([item.path.parent for item in self.items]))

    def part(self, item: Item) -> Path:
        """The file of its rows, until all raw files are prepared."""
        return self.parts_folder / f"{item.part}.arrow"

    def manifest(self) -> Manifest | None:
        """Of the data set; None when it has not been made.

        Raises:
            NotPrepared: it is damaged.
        """
        return Manifest.read(self.folder) if (self.folder / shards.MANIFEST).exists() else None

    def is_there(self) -> bool:
        """Whether it has been made, and its files are there."""
        try:
            return self.manifest() is not None
        except NotPrepared:
            return False

    def describe(self) -> str:
        """In a line, for a plan."""
        files = f"{count(len(self.items), 'raw file')} of {size(self.raw_bytes)}"
        where = f"in {self.folder_of_raw_files}"
        return f"prepared: {files} {where}" if self.is_there() else f"to be prepared: {files} {where}"

    def in_a_line(self) -> str:
        """What has been made.

        Raises:
            NotPrepared: it is not there, or damaged.
        """
        manifest = Manifest.read(self.folder)
        rows = ", ".join(f"{manifest.rows(split):,} rows {split}" for split in manifest.splits)
        skipped = len(manifest.about.get("skipped", []))
        return f"{place(self.folder)}, {rows}" + (f", {skipped:,} raw files skipped" if skipped else "")

    def command(self, *more: str) -> str:
        """What prepares it, to be typed.

        Args:
            more: arguments behind those that say what it is.
        """
        named = machine_folders.OF_THE_MACHINE.items()
        folders = [(name, folder) for name, variable in named if (folder := os.environ.get(variable))]
        hyperparameters = [f"{name}={value}" for name, value in self.hyperparameters.items()]
        where = [text for name, folder in folders for text in (name, place(Path(folder)))]
        params = ["--params", *hyperparameters] if hyperparameters else []
        return command("prepare", self.trainable, *params, *where, *more)

    @property
    def _recipe(self) -> list[Any]:
        """What the rows of one raw file follow from, beside that file."""
        return [shards.FORMAT, self.code, sorted(self.hyperparameters.items())]


def root() -> Path:
    """The folder of all prepared data of this user, or of this machine."""
    named = os.environ.get(PREPARED_DIR_VARIABLE)
    return Path(named) if named else machine_folders.cache_dir() / "prepared"


def describe_data(name: str, trainable: Any, params: Any) -> str:
    """What a trainable says of its data, in a line; "" of data that is prepared, of which its folder tells.

    Raises:
        UserError: it is not there.
    """
    if not hasattr(trainable, "describe_data"):
        return "" if has_preparation(trainable) else f"as {name}.build_data has it"
    try:
        return str(trainable.describe_data(params))
    except OSError as error:
        raise UserError(str(error)) from None


def has_preparation(trainable: Any) -> bool:
    """Whether its raw data is prepared before it trains."""
    return hasattr(trainable, "prepare")


def look(asked: str, module: ModuleType, params: Mapping[str, ParamValue]) -> DataSet:
    """The data set of a trainable; raw files without a known checksum are read.

    Args:
        asked: the trainable, as it was named.
        module: the trainable.
        params: its hyperparameters that are given; those that prepared rows do not depend on are left out.

    Raises:
        UserError: raw files are missing, Params refuses the hyperparameters, or `raw_items` reads another.
    """
    all_params = _params(asked, module, {k: v for k, v in params.items() if k in module.PREPARE_PARAMS})
    hyperparameters = {name: getattr(all_params, name) for name in module.PREPARE_PARAMS}
    try:
        items = raw_files.find(
            asked,
            module.raw_items,
            Declared(module.Params(**hyperparameters), tuple(hyperparameters), "raw_items"),
        )
    except UndeclaredHyperparameter as error:
        raise UserError(f"{asked}: {error}") from None
    items = raw_files.with_checksums(items, root() / CHECKSUMS_FILE)
    return DataSet(asked, module.__name__, hyperparameters, tuple(items), _code_of(module.prepare, module))


def build_data(trainable: Trainable, params: Any, folder: Path | None) -> LightningDataModule:
    """The trainable's data module; one whose data is prepared gets the folder of it.

    Raises:
        CannotTrain: there is no folder, and it needs one.
    """
    if not has_preparation(trainable):
        return trainable.build_data(params)
    if folder is None:
        raise CannotTrain("this trainable reads prepared data, and no folder of it was given")
    return trainable.build_data(params, folder)


def _params(asked: str, module: ModuleType, hyperparameters: Mapping[str, ParamValue]) -> Any:
    try:
        return module.Params(**hyperparameters)
    except (ValueError, TypeError) as error:
        given = ", ".join(f"{name}={value}" for name, value in hyperparameters.items()) or "its defaults"
        raise UserError(f"{asked}: Params refuses {given} (PREPARE_PARAMS alone are set): {error}") from None


def _code_of(prepare: Any, module: ModuleType) -> str:
    """Checksum of the module that defines `prepare` and of what that imports of its project.

    This program's own modules are left out: what they would change about rows is `shards.FORMAT`.
    """
    home = sys.modules.get(getattr(inspect.unwrap(prepare), "__module__", ""), module)
    files = source_files.files(home if getattr(home, "__file__", None) else module)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        if not name.startswith("sweeps/"):
            content = hashlib.sha256(in_former_names(path.read_bytes())).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()

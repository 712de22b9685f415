"""A study that Optuna has made without this program, in a database or a journal, to read."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from sweeps.common.errors import UserError, first_line
from sweeps.common.yaml_values import nearest
from sweeps.config.sweep_folder import SQLITE, STUDY


@dataclass(frozen=True)
class Study:
    """A study."""

    directions: Sequence[str]
    """`minimize` or `maximize`, of each objective."""
    metrics: Sequence[str]
    """Their names; [] where it has none."""
    trials: Sequence[FrozenTrial]


def read(path: Path, name: str, what: str) -> Study:
    """A study in a file, which stays as it is.

    Args:
        name: of the study; "" where there is one alone.
        what: begins messages.

    Raises:
        UserError: the file holds no such study.
    """
    with tempfile.TemporaryDirectory() as scratch:
        storage = _storage(path, Path(scratch), what)
        studies = [each.study_name for each in storage.get_all_studies()]
        if not studies:
            raise UserError(f"{what}: it holds no study of Optuna")
        listed = f"Studies: {', '.join(studies)}"
        if name and name not in studies:
            raise UserError(f"{what}: no such study.{nearest(name, studies)} {listed}")
        if not name and len(studies) > 1:
            example = f"{path}{STUDY}{studies[0]}"
            raise UserError(f"{what}: it holds several studies; name one, as in {example}. {listed}")
        study = optuna.load_study(study_name=name or studies[0], storage=storage)
        directions = [each.name.lower() for each in study.directions]
        return Study(directions, study.metric_names or [], study.get_trials(deepcopy=False))


def _storage(path: Path, scratch: Path, what: str) -> BaseStorage:
    try:
        with path.open("rb") as file:
            is_sqlite = file.read(16) == b"SQLite format 3\0"
        if not is_sqlite:
            return JournalStorage(JournalFileBackend(str(path)))
        # A copy: Optuna writes tables of its own into a file that it opens.
        original = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        with closing(original), closing(sqlite3.connect(scratch / "study.db")) as copy:
            original.backup(copy)
            tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
        if "studies" in tables:
            return RDBStorage(f"{SQLITE}{scratch / 'study.db'}")
    except Exception as error:  # of Optuna, SQLAlchemy or JSON, about whatever the file holds
        raise UserError(f"{what}: it is no CSV, and no study of Optuna: {first_line(error)}") from None
    raise UserError(f"{what}: it holds no study of Optuna")

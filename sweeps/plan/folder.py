"""The sweep's folder, `results/NAME/`, which holds the whole sweep."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeps.common import atomic_io, local_dirs, project
from sweeps.common.atomic_io import write
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.config.sweep_config import listed, to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE, no_sweep, resume_command
from sweeps.plan.fingerprint import identity
from sweeps.plan.plan import Plan
from sweeps.record import lock
from sweeps.record.control_requests import Inbox
from sweeps.record.journal import RecordLost, RecordUnreadable
from sweeps.record.record import Record
from sweeps.record.trials import NO_EARLIER

WAIT_S = 1.0
"""In which another process may finish a note of the sweep that is resumed."""


@contextlib.contextmanager
def opened(plan: Plan) -> Iterator[Record]:
    """The record of a new or a resumed sweep, locked for this process.

    A new folder without trials is removed when a mistake of the user ends the sweep.

    Raises:
        UserError: the folder can't be written or read, or another process runs the sweep.
    """
    resumes = plan.config.resume is not None
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock.held(plan.folder, WAIT_S) if resumes else _created(plan))
            record = Record.reopen(plan.folder)
            stack.enter_context(_inbox_open(plan))
        except (OSError, RecordUnreadable) as error:
            raise UserError(f"{'--resume ' if resumes else ''}{shown_path(plan.folder)}: {error}") from None
        try:
            yield record
        except UserError:
            if not resumes and not record.trials:
                shutil.rmtree(plan.folder, ignore_errors=True)
            raise
        except RecordLost as error:
            raise UserError(str(error)) from None
        except BaseException:
            again = resume_command(plan.folder)
            print(f"\nAll results so far are recorded. Resume: {again}", file=sys.stderr)
            raise


@contextlib.contextmanager
def _inbox_open(plan: Plan) -> Iterator[None]:
    """Keep the commands to a sweep for as long as it is starting; its trials take them up."""
    inbox = Inbox(plan.folder)
    try:
        inbox.open()
    except OSError as error:
        print(f"This sweep can't be steered: {error}", flush=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            inbox.close()


def taken(folder: Path) -> str:
    """That a new sweep can't have a folder that is there."""
    again = "give another name"
    if no_sweep(folder) is None:
        again = f"to continue that sweep: {resume_command(folder)}; else {again}"
    return f"--name {folder.name}: {folder} exists already; {again}"


@contextlib.contextmanager
def _created(plan: Plan) -> Iterator[None]:
    """Make the folder, and hold its lock, before it gets its name: nobody finds it without its process, and
    of two starts with one name one gets it."""
    folder = plan.folder
    # Of starts that were killed.
    local_dirs.remove_left(f".{folder.name}.*.part", folder.parent, older_than_s=60.0)
    part = atomic_io.part_of(folder.with_name(f"{folder.name}.{platform.node()}.{os.getpid()}"))
    with contextlib.ExitStack() as stack:
        try:
            with atomic_io.atomic_write(folder, part):
                _fill(plan, part)
                stack.enter_context(lock.held(part))
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise UserError(taken(folder)) from None
            raise
        yield


def write_settings(plan: Plan, folder: Path) -> None:
    """Write the settings, and what they name that is in no file of the project."""
    write(folder / SWEEP_FILE, to_yaml(plan.config))
    for model in plan.models:
        for name, content in model.trainable.kept_files().items():
            write(folder / name, content)


def _fill(plan: Plan, part: Path) -> None:
    config = plan.config
    part.mkdir(parents=True)
    about: dict[str, Any] = {
        "sweep": config.name,
        "trainable": config.trainable,
        "metric": config.objective.metric,
        "seed": config.seed,
        "max_epochs": config.max_epochs,
        "identity": identity(plan),
    }
    if config.tags is not None:
        about["tags"] = listed(config.tags)
    if config.objectives.are_several:
        about["objectives"] = config.metrics
    if config.constraints:
        about["constraints"] = config.constraints
    if (noted := project.to_note()) is not None:
        about[project.KEY] = noted
    if known := [vars(each.point) for each in plan.baselines if each.point is not None]:
        about["baselines"] = known
    if plan.lineage is not None:
        about["parents"] = list(plan.lineage.parents)
    write_settings(plan, part)
    earlier = NO_EARLIER if plan.lineage is None else plan.lineage.earlier
    Record.create(part, str(config.name), config.objective.mode, about, earlier)

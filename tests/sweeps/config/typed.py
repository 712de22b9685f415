"""What is typed, and what the program answers to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config.cli import parse


def yaml_file(folder: Path, text: str) -> str:
    (folder / "sweep.yaml").write_text(text)
    return str(folder / "sweep.yaml")


def faults(*arguments: str) -> list[str]:
    with pytest.raises(UserError) as raised:
        parse(arguments)
    return str(raised.value).splitlines()


def sweep_in(
    results: Path, name: str, text: str = "name: was\nresults_dir: /was\nnum_trials: 5\nseed: 3\n"
) -> Path:
    """The folder of a sweep with these settings."""
    (results / name).mkdir(parents=True)
    yaml_file(results / name, text)
    (results / name / "record.journal").touch()
    return results / name

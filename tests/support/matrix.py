"""The releases that this program works with: `python -m tests.support.matrix [COLUMN ...]` (make test-matrix)

Each column is an environment of its own with the wheel of this checkout: a sweep of the README's model, a
resume, a report, then the quick tests of the rooms that stand on these packages. uv installs them: gigabytes,
about a minute a column. Pythons are those that uv finds or can download. docs/versions.md gets the table.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests import ROOT

PAGE = ROOT / "docs" / "versions.md"
SHOWN = ("torch", "lightning", "ray", "optuna", "numpy", "pyarrow")
TESTS = ("tests/sweeps/training", "tests/sweeps/trial", "tests/sweeps/searchers", "tests/sweeps/space")
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "pytest-rerunfailures", "hypothesis", "setuptools")
OLDEST = {"torch": "2.4.1", "lightning": "2.5.0", "ray": "2.50.1", "optuna": "4.2.1", "numpy": "1.26.4"}
MIDDLE = {"torch": "2.13.0", "lightning": "2.6.6", "ray": "2.60.0", "optuna": "5.0.0"}


@dataclass(frozen=True)
class Column:
    """An environment: a Python, and releases of packages; those that are not named are the newest."""

    python: str
    pins: dict[str, str] = field(default_factory=dict)


COLUMNS = {
    "oldest": Column("3.11", OLDEST),
    "newest": Column("3.14"),
    "old PyTorch": Column("3.12", MIDDLE | {"torch": "2.4.1"}),
    "new PyTorch": Column("3.12", {name: pin for name, pin in MIDDLE.items() if name != "torch"}),
    "old Lightning": Column("3.12", MIDDLE | {"lightning": "2.5.0"}),
    "old Ray": Column("3.12", MIDDLE | {"ray": "2.50.1"}),
    "old Optuna": Column("3.12", MIDDLE | {"optuna": "4.2.1"}),
    "Python 3.13": Column("3.13", MIDDLE),
}
CORNERS = ("oldest", "newest")


@dataclass
class Environment:
    """A column, installed in a folder."""

    folder: Path
    column: Column

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    def install(self, wheel: Path) -> None:
        """Make the environment: first what a user would have, then this program, which changes none of it."""
        uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
        venv = str(self.folder / "venv")
        run([uv, "venv", "--quiet", "--python", self.column.python, venv])
        pip = [uv, "pip", "install", "--quiet", "--python", self.python]
        pins = [f"{name}=={pin}" for name, pin in self.column.pins.items() if name != "ray"]
        run([*pip, *(pins or ["torch", "lightning"])])
        before = self.versions()
        ray = [f"ray[tune]=={pin}" for name, pin in self.column.pins.items() if name == "ray"]
        run([*pip, str(wheel), *ray, *TOOLS])
        changed = {name for name, number in before.items() if self.versions()[name] != number}
        if changed:
            raise AssertionError(f"installing this program has changed {', '.join(sorted(changed))}")

    def versions(self) -> dict[str, str]:
        """Of the packages of the table that are there."""
        code = (
            "from importlib.metadata import distributions\n"
            "for each in distributions():\n"
            f"    if each.name.lower() in {SHOWN}: print(f'{{each.name.lower()}}={{each.version}}')"
        )
        return dict(pair.split("=") for pair in run([self.python, "-c", code]).split())

    def sweep(self) -> None:
        """Sweep the README's model, resume it and write its report."""
        project = self.folder / "project"
        project.mkdir()
        (project / "digits.py").write_text(example())
        sweeps = [str(Path(self.python).with_name("sweeps"))]
        run([*sweeps, "run", "digits", "-n", "4", "--max-epochs", "3", "--name", "first"], project)
        run([*sweeps, "run", "--resume", "first", "-n", "6"], project)
        run([*sweeps, "report", "first"], project)

    def test(self) -> str:
        """Run the quick tests; their last line."""
        quick = ["-m", "not slow and not long and not gpu", "-n", "2", "--dist", "loadfile", "-q"]
        out = run([self.python, "-m", "pytest", *quick, "--timeout", "300", *TESTS], ROOT)
        return re.sub(r" in .*|=+ ?", "", out.strip().splitlines()[-1]).strip()


def run(command: Sequence[str], here: Path = ROOT) -> str:
    """The output of a command; AssertionError with its end where it fails."""
    temporary = {"TMPDIR": tempfile.gettempdir(), "PYTHONSAFEPATH": "1"} if here != ROOT else {}
    done = subprocess.run(
        command, cwd=here, env={**os.environ, **temporary}, text=True, stdout=-1, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-3000:]}")
    return done.stdout


def example() -> str:
    """The model of the README."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    return code[1]


def tried(name: str, wheel: Path) -> list[str]:
    """A row of the table."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        environment = Environment(Path(folder), COLUMNS[name])
        try:
            environment.install(wheel)
            environment.sweep()
            result = environment.test()
        except AssertionError as error:
            print(f"{name}: {error}", flush=True)
            result = "fails: " + str(error).splitlines()[0][:60]
        versions = environment.versions()
        shown = run([environment.python, "-c", "import platform; print(platform.python_version())"]).strip()
    print(f"{name}: {result}, {time.monotonic() - began:.0f} s", flush=True)
    return [name, shown, *(versions.get(package, "-") for package in SHOWN), result]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the columns that are named, or all, and write the table; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.matrix", description=str(__doc__))
    parser.add_argument("columns", nargs="*", help=f"some of: {', '.join(COLUMNS)}; corners: {CORNERS}")
    asked = parser.parse_args(arguments).columns
    names = CORNERS if asked == ["corners"] else asked or list(COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)])
        (wheel,) = Path(folder).glob("*.whl")
        rows = [tried(name, wheel) for name in names]
    if not asked:
        write(rows)
    return any("fail" in row[-1] or "error" in row[-1] for row in rows)


def write(rows: Sequence[Sequence[str]]) -> None:
    """The table of the page."""
    titles = ["", "Python", *SHOWN, "quick tests"]
    lines = ["| " + " | ".join(cells) + " |" for cells in (titles, ["---"] * len(titles), *rows)]
    text = PAGE.read_text()
    table = f"<!-- table -->\nOn {datetime.date.today()}:\n\n" + "\n".join(lines) + "\n<!-- end -->"
    PAGE.write_text(re.sub(r"<!-- table -->.*?<!-- end -->", table, text, flags=re.DOTALL))


if __name__ == "__main__":
    sys.exit(main())

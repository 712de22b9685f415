"""The releases that this program works with: `python -m tests.support.matrix [COLUMN ...]` (make test-matrix)

Each column is an environment of its own with the wheel of this checkout: a sweep of the README's model with
its report, a resume, then the quick tests of the rooms that stand on these packages. uv installs them,
gigabytes, some minutes a column, while the one before is tried. Pythons are those that uv finds or can
download. docs/versions.md gets a row for each.

`corners` are the oldest and the newest column with fewer tests, and without a row: those that CI tries.
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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.common.imports import TESTED
from tests import ROOT

PAGE = ROOT / "docs" / "versions.md"
SHOWN = (*TESTED, "numpy", "pyarrow")
ROOMS = ("training", "trial", "searchers", "space", "analysis", "ray_cluster/test_ray_internals.py")
AT_CORNERS = (
    "training/test_torch_internals.py",
    "training/test_lightning_internals.py",
    "training/runs/test_fit_loop.py",
    "ray_cluster/test_ray_internals.py",
    "space/test_optuna_space.py",
    "analysis/test_compared_trials.py",
    "searchers/test_tpe.py",
    "trial/test_runner.py",
)
"""Tests of what other releases have changed before: 2 cores have them done in two minutes."""
OF_NO_RELEASE = (
    "finite_score_beats", "number_of_workers", "devices_than_gpus", "answered_with_those_that_are",
    "best_epoch_before_a_checkpoint", "program_that_sigterm_ends", "computes_no_more", "are_reported_again",
    "begins_in_the_folder", "imported_once", "what_an_import_draws",
)  # fmt: skip
"""Words in the names of those tests there that go by no package: the corners leave them out."""
TOOLS = (
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "pytest-rerunfailures",
    "hypothesis",
    "setuptools",
    "matplotlib",
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OLDEST = {"torch": "2.4.1", "lightning": "2.5.3", "ray": "2.50.1", "optuna": "4.2.1"}
"""The releases that TESTED names the oldest; with them NumPy 1."""


def locked() -> dict[str, str]:
    """The releases that `make` installs."""
    torch = re.search(r"^TORCH +\?= (.+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert torch is not None
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    return {"torch": torch[1]} | {name: pins[name] for name in TESTED if name in pins}


@dataclass(frozen=True)
class Column:
    """An environment: a Python, and releases of packages; those that are not named are the newest."""

    python: str
    pins: dict[str, str] = field(default_factory=dict)


LOCKED = locked()
COLUMNS = {
    "oldest": Column("3.11", OLDEST | {"numpy": "1.26.4"}),
    "newest": Column("3.14"),
    **{f"old {TESTED[name][0]}": Column("3.12", LOCKED | {name: pin}) for name, pin in OLDEST.items()},
    "new PyTorch": Column("3.12", {name: pin for name, pin in LOCKED.items() if name != "torch"}),
    "Python 3.13": Column("3.13", LOCKED),
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
        self.make()
        pip = [uv(), "pip", "install", "--quiet", "--python", self.python]
        pins = [f"{name}=={pin}" for name, pin in self.column.pins.items() if name != "ray"]
        run([*pip, *(pins or ["torch", "lightning"])])
        before = self.versions()
        ray = [f"ray[tune]=={pin}" for name, pin in self.column.pins.items() if name == "ray"]
        run([*pip, str(wheel), *ray, *TOOLS])
        after = self.versions()
        changed = {name for name, number in before.items() if after[name] != number}
        if changed:
            raise AssertionError(f"installing this program has changed {', '.join(sorted(changed))}")

    def make(self) -> None:
        """Make it empty, with the newest Python up to the wanted one that uv finds or can download."""
        self.folder.mkdir()
        wanted, venv = self.column.python, str(self.folder / "venv")
        for python in PYTHONS[PYTHONS.index(wanted) :: -1]:
            of_pyenv = Path.home().glob(f".pyenv/versions/{python}.*/bin/python")  # where uv does not look
            try:
                run([uv(), "venv", "--quiet", "--clear", "--python", str(next(of_pyenv, python)), venv])
            except AssertionError:
                print(f"Python {python} is not here, and uv can't download it", flush=True)
            else:
                return
        raise AssertionError(f"there is no Python up to {wanted}")

    def versions(self) -> dict[str, str]:
        """Of Python and of the packages of the table."""
        code = (
            "import platform\n"
            "from importlib.metadata import distributions\n"
            "print(f'python={platform.python_version()}')\n"
            "for each in distributions():\n"
            f"    if each.name.lower() in {SHOWN}: print(f'{{each.name.lower()}}={{each.version}}')"
        )
        return dict(pair.split("=") for pair in run([self.python, "-c", code]).split())

    def sweep(self) -> None:
        """Sweep the README's model, which ends with its report."""
        self._project.mkdir()
        (self._project / "digits.py").write_text(example())
        run([*self._run, "digits", "-n", "4", "--max-epochs", "3", "--name", "first"], self._project)
        if not (self._project / "results" / "first" / "report.html").is_file():
            raise AssertionError("the sweep has ended without its report")

    def resume(self) -> None:
        """Go on with that sweep."""
        run([*self._run, "--resume", "first", "-n", "6"], self._project)

    @property
    def _project(self) -> Path:
        return self.folder / "project"

    @property
    def _run(self) -> list[str]:
        return [str(Path(self.python).with_name("sweeps")), "run"]

    def test(self, tests: Sequence[str]) -> str:
        """Run the quick tests; their last line."""
        quick = ["-m", "not slow and not long and not gpu", "-n", "2", "--dist", "loadfile", "-q"]
        quick += ["-k", f"not ({' or '.join(OF_NO_RELEASE)})"] if tests == AT_CORNERS else []
        files = [f"tests/sweeps/{each}" for each in tests]
        out = run([self.python, "-m", "pytest", *quick, "--timeout", "300", *files], ROOT)
        return re.sub(r" in .*|=+ ?", "", out.strip().splitlines()[-1]).strip()


def uv() -> str:
    """The command."""
    return shutil.which("uv") or str(Path(sys.executable).with_name("uv"))


def run(command: Sequence[str], here: Path = ROOT) -> str:
    """The output of a command; AssertionError with its end where it fails."""
    own = {"TMPDIR": tempfile.gettempdir(), "PYTHONSAFEPATH": "1"} if here != ROOT else {}
    done = subprocess.run(
        command, cwd=here, env={**os.environ, **own}, text=True, stdout=-1, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-5000:]}")
    return done.stdout


def example() -> str:
    """The model of the README."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code is not None
    return code[1]


def tried(name: str, environment: Environment, installed: Future[None], tests: Sequence[str]) -> list[str]:
    """A row of the table."""
    began = time.monotonic()
    try:
        installed.result()
        environment.sweep()
        with ThreadPoolExecutor(1) as beside:  # it waits for processes that start half of its time
            resumed = beside.submit(environment.resume)
            result = environment.test(tests)
            resumed.result()
    except AssertionError as error:
        print(f"{name}: {error}", flush=True)
        result = "fails: " + str(error).splitlines()[0][:60]
    versions = environment.versions() if Path(environment.python).exists() else {}
    shutil.rmtree(environment.folder)
    print(f"{name}: {result}, {time.monotonic() - began:.0f} s", flush=True)
    return [name, *(versions.get(each, "-") for each in ("python", *SHOWN)), result]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the columns that are named, or all, and write their rows; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.matrix", description=str(__doc__))
    parser.add_argument("columns", nargs="*", help=f"some of: {', '.join(COLUMNS)}; or: corners")
    asked = parser.parse_args(arguments).columns
    are_corners = asked == ["corners"]
    if unknown := [name for name in asked if name not in COLUMNS and not are_corners]:
        parser.error(f"{unknown[0]}: no such column (a name of two words in quotes)")
    names = CORNERS if are_corners else asked or list(COLUMNS)
    failed = False
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder, ThreadPoolExecutor(1) as pool:
        run([uv(), "build", "--quiet", "--wheel", "--out-dir", folder, str(ROOT)])
        (wheel,) = Path(folder).glob("*.whl")
        environments = [Environment(Path(folder, str(n)), COLUMNS[name]) for n, name in enumerate(names)]
        coming: list[Future[None]] = []
        for number, name in enumerate(names):
            coming += [pool.submit(each.install, wheel) for each in environments[len(coming) : number + 2]]
            tests = AT_CORNERS if are_corners else ROOMS
            row = tried(name, environments[number], coming[number], tests)
            failed |= "fail" in row[-1] or "error" in row[-1]
            if not are_corners:
                write(row)
    return failed


def write(row: Sequence[str]) -> None:
    """Put a row into the table of the page, in place of the one of the same name."""
    head, table, tail = re.split(
        r"(?<=<!-- table -->\n)(.*?)(?=<!-- end -->)", PAGE.read_text(), flags=re.DOTALL
    )
    titles = ["", "Python", *(TESTED[name][0] if name in TESTED else name for name in SHOWN), "tests", "on"]
    rows = {line.split("|")[1].strip(): line for line in table.splitlines()[2:]}
    rows[row[0]] = "| " + " | ".join([*row, str(datetime.date.today())]) + " |"
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    lines += [rows[name] for name in COLUMNS if name in rows]
    PAGE.write_text(head + "".join(f"{line}\n" for line in lines) + tail)


if __name__ == "__main__":
    sys.exit(main())

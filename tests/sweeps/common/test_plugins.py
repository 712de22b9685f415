"""Plug-ins are found in a project, by name or path."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sweeps.common.plug_in_files import TRAINABLE, write

FIND = """
import sys
from sweeps.common.errors import UserError
from sweeps.config import plugins
from sweeps.kinds import registry
kind, *names = sys.argv[1:]
is_trainable = kind == "trainable"
try:
    for name in names:
        source = (registry.find(name).sources()[0] if is_trainable else plugins.search_space(name).source)
        print(source[1])
    print("choices:", *(registry.choices() if is_trainable else plugins.choices(kind)))
except UserError as error:
    print("error:", error)
"""


def found_in(folder: Path, *arguments: str) -> list[str]:
    """What is found from a folder, in a process of its own: files, then the choices; or the error."""
    program = folder.parent / f"program-{folder.name}"  # as the wheel has it: without our own project
    program.mkdir(exist_ok=True)
    if not (program / "sweeps").exists():
        (program / "sweeps").symlink_to(ROOT / "sweeps")
    done = subprocess.run(
        [sys.executable, "-c", FIND, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(program)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" not in done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("is_package", [True, False])
def test_a_project_has_its_own_trainables_and_spaces_and_no_others(is_package: bool, tmp_path: Path) -> None:
    write(tmp_path, {"trainables/mine.py": TRAINABLE, "search_spaces/mine.py": "SPACE = {}\n"})
    if is_package:
        write(tmp_path, {"trainables/__init__.py": "", "search_spaces/__init__.py": ""})
    assert found_in(tmp_path, "trainable", "mine") == [str(tmp_path / "trainables/mine.py"), "choices: mine"]
    space = str(tmp_path / "search_spaces" / "mine.py")
    assert found_in(tmp_path, "search_space", "mine") == [space, "choices: mine"]


@pytest.mark.parametrize(
    ("is_installed", "to_do"),
    [
        (True, "It is an installed copy; replace it: {python} -m pip install -e ."),
        (False, "Rename one of them"),
    ],
)
def test_a_file_that_another_of_its_name_hides_is_named_with_what_to_do(
    is_installed: bool, to_do: str, tmp_path: Path
) -> None:
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env/bin/python"
    other = next(tmp_path.glob("env/lib/python*/site-packages")) if is_installed else tmp_path / "there"
    here = tmp_path / "here"
    write(here, {"my_net.py": TRAINABLE})
    write(other, {"my_net.py": TRAINABLE})
    done = subprocess.run(
        [python, "-P", "-c",
         "import my_net; from sweeps.kinds import registry; registry.find('my_net')"],
        cwd=here, env={"PYTHONPATH": os.pathsep.join([str(other), str(ROOT), *site.getsitepackages()])},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    told = f"--trainable my_net: Python imported {other}/my_net.py in place of {here}/my_net.py. "
    assert told + to_do.format(python=python) in done.stderr


@pytest.mark.parametrize("typed", ["cnn", "cnn.py", "./cnn.py", "{here}/cnn.py"])
def test_a_file_where_the_command_is_typed_is_found_by_its_name_or_path(typed: str, tmp_path: Path) -> None:
    write(tmp_path, {"cnn.py": TRAINABLE + "SPACE = {}\n", "data.py": "ROWS = 3\n"})
    found = found_in(tmp_path, "trainable", typed.format(here=tmp_path))
    assert found == [str(tmp_path / "cnn.py"), "choices: cnn"]
    assert found_in(tmp_path, "search_space", "cnn") == [str(tmp_path / "cnn.py"), "choices: cnn"]


@pytest.mark.parametrize("typed", ["models/vit.py", "models.vit", "other-models/big.py"])
def test_a_file_is_found_by_its_path_also_in_a_folder_that_is_no_package(typed: str, tmp_path: Path) -> None:
    write(tmp_path, {"models/vit.py": TRAINABLE, "other-models/big.py": TRAINABLE})
    expected = tmp_path / ("other-models/big.py" if "big" in typed else "models/vit.py")
    assert found_in(tmp_path, "trainable", typed)[0] == str(expected)


def test_a_file_that_is_no_trainable_is_told_what_it_lacks(tmp_path: Path) -> None:
    write(tmp_path, {"data.py": "METRIC = 1\n", "cnn.py": TRAINABLE})
    (found,) = found_in(tmp_path, "trainable", "data.py")
    lacks = f"{tmp_path}/data.py does not define MODE, Params, build_model, build_data"
    assert found.startswith(f"error: --trainable data.py: {lacks} (a trainable defines ")
    assert "--command" not in found
    write(tmp_path, {"main.py": "print('val_acc=0.5')\n"})
    (_, found) = found_in(tmp_path, "trainable", "main.py")
    assert found.endswith(". A program that prints its metric is swept by --command")


def test_a_package_in_a_folder_where_python_does_not_look_is_named_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, {"src/net/__init__.py": "", "src/cnn.py": f"import net.parts\n{TRAINABLE}"})
    (found,) = found_in(tmp_path, "trainable", "src/cnn.py")
    assert found.endswith(". It is in src/: install your project, or set PYTHONPATH=src")
    write(tmp_path, {"net/__init__.py": "", "src/cnn.py": f"import net.typo\n{TRAINABLE}"})
    (found,) = found_in(tmp_path, "trainable", "src/cnn.py")
    assert "It is in" not in found
    write(tmp_path, {"src/cnn.py": f"import no_such_net\n{TRAINABLE}"})
    (found,) = found_in(tmp_path, "trainable", "src/cnn.py")
    assert found.endswith(f"No module named 'no_such_net' ({tmp_path}/src/cnn.py, line 1)")


def test_a_misspelt_name_or_path_is_answered_with_what_lies_there(tmp_path: Path) -> None:
    write(tmp_path, {"cnn.py": TRAINABLE, "trainables/mlp.py": TRAINABLE, "data.py": ""})
    (found,) = found_in(tmp_path, "trainable", "cmn")
    assert found.startswith(
        "error: --trainable cmn: no such trainable. Did you mean 'cnn'? Choices: cnn, mlp, "
    )
    (found,) = found_in(tmp_path, "trainable", "./cm.py")
    assert "Did you mean 'cnn.py'?" in found


def test_a_folder_that_is_no_project_names_the_command_that_begins_one(tmp_path: Path) -> None:
    write(tmp_path, {"data.py": "ROWS = 3\n"})
    (found,) = found_in(tmp_path, "trainable", "cnn")
    assert (
        f"{tmp_path} is not a project: it has no trainables/ and no .py file that defines build_model"
        in found
    )
    assert "init FOLDER. A program that prints its metric needs none: " in found
    assert found.endswith("run --command PROGRAM")


def test_a_file_beside_a_trainable_that_can_not_be_read_hides_none(tmp_path: Path) -> None:
    write(tmp_path, {"mine.py": TRAINABLE, "broken.py": f"{TRAINABLE}\0"})
    (tmp_path / "lost.py").symlink_to("nowhere.py")
    (tmp_path / "old.py").mkdir()
    assert found_in(tmp_path, "trainable") == ["choices: mine"]


def test_a_misspelt_dotted_path_gets_the_nearest_module(tmp_path: Path) -> None:
    write(tmp_path, {f"mine/{file}.py": TRAINABLE for file in ("cnn", "mlp", "_parts", "deep/vit")})
    (found,) = found_in(tmp_path, "trainable", "mine.cn")
    assert "--trainable mine.cn: no such trainable. Did you mean 'mine.cnn'? Choices: " in found
    (found,) = found_in(tmp_path, "trainable", "mine.deep.vti")
    assert "Did you mean 'mine.deep.vit'? Choices: " in found
    (found,) = found_in(tmp_path, "trainable", "mien.cnn")
    assert "Did you mean 'mine.cnn'? Choices: " in found


def test_a_users_own_folder_that_is_called_training_stands_beside_ours(tmp_path: Path) -> None:
    use = "from training.rows import ROWS\nfrom sweeps.training.config import FitConfig\n"
    write(tmp_path, {"training/rows.py": "ROWS = 3\n", "mine/cnn.py": use + TRAINABLE})
    assert found_in(tmp_path, "trainable", "mine.cnn")[0] == str(tmp_path / "mine" / "cnn.py")


def test_a_package_of_the_users_that_raises_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"search_spaces/__init__.py": "1 / 0\n", "search_spaces/mine.py": "SPACE = {}\n"})
    (found,) = found_in(tmp_path, "search_space", "mine")
    expected = "error: --search-space mine: can't be imported: ZeroDivisionError: division by zero"
    assert found.startswith(expected)
    assert str(tmp_path / "search_spaces" / "__init__.py") in found


def test_a_file_that_begins_a_sweep_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"net.py": f"{TRAINABLE}\nimport sweeps\nsweeps.run(metric='acc', mode='max')\n"})
    (found,) = found_in(tmp_path, "trainable", "net")
    assert found.startswith(
        "error: --trainable net: can't be imported: sweeps.run is called while the file is imported for a "
        'sweep. Put it below if __name__ == "__main__":'
    )


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("import argparse; argparse.ArgumentParser().parse_args()", "(SystemExit: 2)"),
        ("raise SystemExit", "(SystemExit)"),
        ("exit(0)", "(SystemExit: 0)"),
    ],
)
def test_a_file_that_ends_the_program_is_named_with_what_to_do(line: str, ends: str, tmp_path: Path) -> None:
    write(tmp_path, {"net.py": f"{TRAINABLE}\n{line}\n"})
    (found,) = found_in(tmp_path, "trainable", "net")
    assert found == (
        f"error: --trainable net: can't be imported: it ends the program {ends}. Put what only a program "
        f'does, such as reading flags, below if __name__ == "__main__": ({tmp_path / "net.py"}, line 10)'
    )


CHANGES = """
import logging, os
logging.basicConfig(level=logging.DEBUG)
os.chdir(os.path.dirname(os.path.abspath(__file__)))
"""
KEPT = """
import logging, os, pathlib
from sweeps.common import plugins
from sweeps.common.formatting import shown_path
from sweeps.kinds import registry
before = os.getcwd()
trainable = registry.find("models/net.py")
assert (logging.getLogger().level, logging.getLogger().handlers) == (logging.WARNING, [])
assert before == os.getcwd()
plugins.enter_folder_of(trainable.description.content)
assert os.getcwd() == os.path.dirname(trainable.sources()[0][1])
assert str(plugins.project.folder()) == before
assert shown_path(pathlib.Path(before, "results", "net")) == "results/net"
"""


def test_a_command_keeps_its_folder_and_its_log_whatever_a_file_changes(tmp_path: Path) -> None:
    write(tmp_path, {"models/net.py": CHANGES + TRAINABLE})
    environment = {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", KEPT], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(("name", "advice"), [("3dnet.py", "model_3dnet.py"), ("a-b c.py", "a_b_c.py")])
def test_a_file_name_that_python_can_not_import_is_answered_with_one_that_it_can(
    name: str, advice: str, tmp_path: Path
) -> None:
    write(tmp_path, {name: TRAINABLE})
    (found,) = found_in(tmp_path, "trainable", name)
    assert found.endswith(f"use letters, digits and _ only, and no digit first, as in {advice}")

"""The project of a command: where its files are, and what a record says of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sweeps.common import project
from sweeps.common.errors import UserError


def test_a_trainable_is_found_by_name_or_dotted_path(tmp_path: Path) -> None:
    for name in ("trainables/cnn.py", "mine/deep/vit.py", "mine/parts/__init__.py", "mlp.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = {
        name: project.file_in(tmp_path, name) for name in ("cnn", "mine.deep.vit", "mine.parts", "mlp", "vit")
    }
    assert found == {
        "cnn": tmp_path / "trainables" / "cnn.py",
        "mine.deep.vit": tmp_path / "mine" / "deep" / "vit.py",
        "mine.parts": tmp_path / "mine" / "parts" / "__init__.py",
        "mlp": tmp_path / "mlp.py",
        "vit": None,
    }


def test_the_project_of_a_sweep_is_in_the_head_of_its_record(tmp_path: Path) -> None:
    lines = [
        {"op_code": 0},
        {"op_code": 2, "user_attr": {"metric": "acc"}},
        {"user_attr": {"project": "/srv/mine"}},
    ]
    journal = tmp_path / "record.journal"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert project.noted_in(tmp_path) == "/srv/mine"
    with journal.open("a") as file:
        file.write('{"op_code": 2, "user')  # a line in writing
    assert project.noted_in(tmp_path) == "/srv/mine"


def test_the_project_of_a_single_run_is_in_its_settings(tmp_path: Path) -> None:
    (tmp_path / "fit.yaml").write_text("project: /srv/mine\nseed: 3\n")
    assert project.noted_in(tmp_path) == "/srv/mine"


@pytest.mark.parametrize("content", ["", "{\n", "[]\n", '{"op_code": 0}\n'])
def test_a_record_that_does_not_say_it_names_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "record.journal").write_text(content)
    assert project.noted_in(tmp_path) is None
    assert project.noted_in(tmp_path / "gone") is None


def test_a_project_that_is_gone_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gone", 300 * "x"):  # as of a folder that this user may not enter, the system tells no more
        (tmp_path / "fit.yaml").write_text(f"project: {tmp_path}/{name}\n")
        expected = rf"--resume x: the project's folder {tmp_path}/{name} is missing.* has cnn now"
        with pytest.raises(UserError, match=expected):
            project.use_noted(tmp_path, ["cnn"], "--resume x")


def test_a_record_in_a_job_of_ray_names_no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR", raising=False)
    assert project.to_note() == str(project.folder())
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert project.to_note() is None


def test_python_s_own_library_below_the_project_is_none_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project in a home folder, with an environment elsewhere of a Python that was installed below it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", "/opt/venv")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / ".pyenv" / "3.11"))
    library = str(tmp_path / ".pyenv" / "3.11" / "lib" / "python3.11")
    monkeypatch.setattr(sys, "path", [str(tmp_path), Path("/models"), library, "/opt/venv/site-packages"])
    assert project.path_behind() == [library, "/opt/venv/site-packages", str(tmp_path)]
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path.parent))
    assert project.path_behind()[-1] == library, (
        "a project below the folder of Python, as /usr/src below /usr"
    )


def test_the_file_of_a_command_is_the_first_one_of_the_project_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "net.yaml").touch()
    command = f"command:{sys.executable} -m {'x' * 300} train.py {{lr}} net.yaml"
    assert project.file_in(tmp_path, command) == tmp_path / "train.py"
    assert project.file_in(tmp_path, "command:torchrun lost.py") is None


@pytest.mark.parametrize("name", ["s" * 300, f"{'s' * 300}/best"])
def test_a_folder_at_which_nobody_can_look_is_a_users_mistake(name: str) -> None:
    with pytest.raises(UserError, match=f"^{name}: File name too long$"):
        project.in_results(name, project.JOURNAL)

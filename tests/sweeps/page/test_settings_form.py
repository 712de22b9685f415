"""The form of the settings of a new sweep, and the command that it types."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig, to_yaml
from sweeps.config.sweep_folder import SWEEP_FILE
from sweeps.page import settings_form
from sweeps.page.settings_form import fields, posted_texts, words_of
from tests import ROOT

GIVEN = {
    "trainable": "digits_mlp",
    "name": "second-try",
    "num_trials": 48,
    "max_epochs": 27,
    "ranges": {"lr": "1e-4..1e-1:log", "width": [16, 32], "optimizer": ["adam", "sgd w"]},
    "params": {"rows": 0},
    "tries": [{"lr": 0.1, "width": 16}, {"lr": 0.01, "width": 32}],
    "metric": ["val_acc:max", "params_m:min"],
    "constraint": "params_m<=5",
    "baseline": False,
    "keep_going": True,
    "precision": "bf16-mixed",
    "keep_checkpoints": "20GB",
    "stop_grace": 5.0,
}


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_sweep_again_types_the_same_settings(tmp_path: Path) -> None:
    """Its file as a form, the form as a command, the command as settings."""
    asked = SweepConfig.from_settings(**GIVEN)
    (tmp_path / SWEEP_FILE).write_text(to_yaml(asked))
    words = words_of(settings_form.of_sweep(tmp_path), ROOT, {})
    again = cli.parse(words)
    assert settings_form.texts_of(again.flat()) == settings_form.texts_of(asked.flat())


def test_what_has_its_default_is_not_typed() -> None:
    texts = {each.setting.name: each.text for each in fields({"trainable": "digits_mlp"})}
    assert words_of(texts, ROOT, {}) == ["--trainable", "digits_mlp"]
    off = posted_texts({"setting.trainable": "digits_mlp"})
    assert "--no-baseline" in words_of(off, ROOT, {})


def test_the_most_used_settings_come_first_and_all_others_follow() -> None:
    names = [each.setting.name for each in fields({})]
    assert names[:3] == ["trainable", "ranges", "num_trials"]
    assert set(names) == SweepConfig.settings().keys() - settings_form.NOT_OFFERED
    assert all(each.setting.doc for each in fields({}))


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        ({"trainable": "command:rm -rf ~"}, "not in this project"),
        ({"trainable": "/etc/evil.py"}, "not in this project"),
        ({"search_space": "../evil.py"}, "a file outside the project"),
        ({"searcher": "~/evil.py"}, "a file outside the project"),
        ({"searcher": "~nobody-of-this-name/evil.py"}, "a file outside the project"),
        ({"searcher": "-x/../../../evil.py"}, "a file outside the project"),
        ({"scheduler": "--x/../../../evil.py"}, "a file outside the project"),
        ({"ranges": "lr=0..1 --command=evil"}, "a value can't begin with --"),
        ({"tries": "lr=1\n--notify-command evil"}, "a value can't begin with --"),
        ({"loggers": "wandb '--command=evil'"}, "a value can't begin with --"),
        ({"params": "lr='1"}, "no closing quotation"),
    ],
)
def test_no_program_beyond_the_project_can_be_named(texts: dict[str, str], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        words_of(texts, ROOT, {})


@pytest.mark.parametrize("name", ["command", "notify_command", "lightning_cli", "hydra", "resume"])
def test_settings_that_name_a_program_are_not_taken(name: str) -> None:
    assert words_of({name: "evil"}, ROOT, {}) == []


def test_a_value_that_looks_like_a_flag_stays_a_value() -> None:
    words = words_of({"name": "--command=evil"}, ROOT, {})
    assert words == ["--name=--command=evil"]
    assert words_of({"target": "-0.5"}, ROOT, {}) == ["--target=-0.5"]


def test_a_sweep_that_ran_a_command_can_be_run_again() -> None:
    kept = {"trainable": "'command:python train.py --lr {lr}'"}
    words = words_of({**kept, "num_trials": "5"}, ROOT, kept)
    assert words == ["--trainable", "command:python train.py --lr {lr}", "--num-trials", "5"]


def test_a_new_sweep_gets_a_name_of_its_trainable_or_of_the_one_before() -> None:
    assert settings_form.new_name(["digits_mlp"], "", 0.0).startswith("digits_mlp-19")
    again = settings_form.new_name(["digits_mlp"], "first-20260131-101112-2", 0.0)
    assert again.startswith("first-19")
    assert again.count("-") == 2


def test_the_command_can_be_pasted_into_a_shell() -> None:
    words = ["--trainable", "digits_mlp", "--ranges", "lr=1e-4..1e-1:log", "--name", "a --b's --c"] * 2
    text = settings_form.shown_command(words, Path())
    assert "\\\n  --ranges" in text
    pasted = subprocess.run(["bash", "-c", f"printf '%s\\n' {text}"], capture_output=True, text=True)
    assert pasted.stdout.splitlines()[-len(words) :] == words


def test_the_command_of_another_project_begins_with_its_folder(tmp_path: Path) -> None:
    text = settings_form.shown_command(["--trainable", "digits_mlp"], tmp_path / "a b")
    assert text.startswith(f"cd '{tmp_path}/a b' && ")
    assert shlex.split(text)[3].startswith(("/", "sweeps"))

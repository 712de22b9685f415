"""What coding agents read: llms.txt has every page, the skill's commands do what it says, and the lines of
`--json` are those of the schema."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from sweeps.__main__ import COMMANDS
from sweeps.pcs.__main__ import COMMANDS as COMMANDS_OF_PCS
from tests import ROOT
from tests.docs import examples
from tests.docs.pages import Page
from tests.support.json_lines import SCHEMA, checked

LLMS = (ROOT / "docs" / "llms.txt").read_text()
SKILL = Page(ROOT / "skills" / "sweeps" / "SKILL.md")
MOST_S = 600
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""Of commands that are typed."""
OPTIONAL = {"Architecture", "Measurements"}
"""Pages that llms.txt has at its end, where a reader with little room stops."""


def typed(command: str, folder: Path, status: int = 0) -> list[dict[str, Any]]:
    """The checked lines of a command of `sweeps` with --json."""
    where: dict[str, Any] = {"cwd": folder, "env": ENVIRONMENT, "timeout": MOST_S}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, **where)
    assert done.returncode == status, done.stderr
    words = shlex.split(command)
    lines = checked(" ".join(words[1:3]) if words[1] == "pcs" else words[1], done.stdout)
    assert lines[-1]["exit_status"] == status
    return lines


# The schema, and errors.


def test_the_schema_is_one_and_says_what_each_field_is() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert [each["$ref"].rpartition("/")[2] for each in SCHEMA["anyOf"]] == list(SCHEMA["$defs"])
    commands = {*(COMMANDS.keys() - {"pcs"}), *(f"pcs_{name}" for name in COMMANDS_OF_PCS)}
    ends = {name.removeprefix("end_of_") for name in SCHEMA["$defs"] if name.startswith("end_of_")}
    assert ends == commands
    for line in SCHEMA["$defs"].values():
        assert all(about["description"].endswith(".") for about in line["properties"].values())


def test_the_page_has_each_field() -> None:
    made = examples.hooks().on_page_markdown((ROOT / "docs" / "json.md").read_text())
    assert "<!--" not in made
    for line in SCHEMA["$defs"].values():
        assert line["description"] in made
        named = (name for name in line["properties"] if name not in ("event", "time"))
        assert [name for name in named if f"`{name}`" not in made] == []


@pytest.mark.parametrize(
    "command", [*sorted(COMMANDS.keys() - {"pcs"}), *(f"pcs {name}" for name in COMMANDS_OF_PCS)]
)
def test_a_mistake_is_told_by_each_command(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, *rest = command.split()
    main = importlib.import_module("sweeps.pcs.__main__" if first == "pcs" else f"sweeps.{first}").main
    assert main([*rest, "--nonsense", "--json"]) == 2
    out, err = capfd.readouterr()
    (end,) = checked(command, out)
    assert end["exit_status"] == 2
    assert end["error"] in " ".join(err.split()) or end["error"] in err


# llms.txt.


def test_llms_txt_has_the_pages_of_the_site_with_a_sentence_each() -> None:
    title, summary = LLMS.splitlines()[0], LLMS.splitlines()[2]
    assert title.startswith("# ")
    assert summary.startswith("> ")
    found: dict[str, list[tuple[str, str]]] = {}
    for section in re.split(r"^## ", LLMS, flags=re.M)[1:]:
        name, _, rest = section.partition("\n")
        lines = [line for line in rest.splitlines() if line]
        links = [re.fullmatch(r"- \[(.+)\]\((.+\.md)\): [A-Z`].+\.", line) for line in lines]
        assert all(links), name
        found[name] = [(link[1], link[2]) for link in links if link]
    optional = found.pop("Optional")
    assert {name for name, _ in optional} == OPTIONAL
    expected: dict[str, list[tuple[str, str]]] = {}
    for entry in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]:
        ((name, pages),) = entry.items()
        listed = [{name: pages}] if isinstance(pages, str) else pages
        pairs = [pair for each in listed for pair in each.items()]
        expected[name] = [pair for pair in pairs if pair[0] not in OPTIONAL]
    assert found == expected


# The skill.


@dataclass
class Walk:
    """What the commands of the skill have printed."""

    folder: Path
    lines: Mapping[str, list[dict[str, Any]]]
    """By command."""
    of_sweep: list[dict[str, Any]]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The commands of the skill, typed in order in a new project."""
    folder = tmp_path_factory.mktemp("skill")
    typed(f"sweeps init {folder}/project --json", folder)
    project, lines = folder / "project", dict[str, list[dict[str, Any]]]()
    file = project / "first.jsonl"
    where: dict[str, Any] = {"cwd": project, "env": ENVIRONMENT, "stdout": subprocess.PIPE, "check": True}
    with contextlib.ExitStack() as stack:
        for command in SKILL.commands:
            if command.startswith("nohup"):
                started = subprocess.run(["bash", "-c", f"{command} echo $!"], **where)
                stack.callback(end, int(started.stdout))
                wait_for(file, "report")
            elif command.startswith("tail"):
                done = subprocess.run(["bash", "-c", command], **where)
                lines[command] = [json.loads(done.stdout)]
            else:
                if command.startswith("sweeps results first"):
                    wait_for(file, "end")
                lines[command] = typed(command, project)
        yield Walk(project, lines, checked("run", file.read_text()))


def end(pid: int) -> None:
    """End a sweep in order, where it runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def wait_for(file: Path, event: str) -> dict[str, Any]:
    """The first line of an event in a file that grows."""
    ends = time.monotonic() + MOST_S
    while time.monotonic() < ends:
        if file.exists():
            for line in file.read_text().splitlines():
                with contextlib.suppress(json.JSONDecodeError):  # it is being written
                    if (found := json.loads(line))["event"] == event:
                        return dict(found)
        time.sleep(0.1)
    pytest.fail(f"no line {event}: {file.read_text() if file.exists() else 'no file'}")


def test_the_skill_has_the_front_matter_of_its_form() -> None:
    _, front, body = SKILL.text.split("---\n", 2)
    about = yaml.safe_load(front)
    assert about.keys() == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", about["name"])
    assert about["name"] == SKILL.path.parent.name
    assert len(about["description"]) <= 1024
    assert body.count("\n") < 500


@pytest.mark.long
@pytest.mark.long
def test_the_sweep_of_the_skill_tells_each_event(walk: Walk) -> None:
    events = [line["event"] for line in walk.of_sweep]
    assert {"plan", "trial_begun", "report", "best", "trial_ended", "notice"} <= {*events}
    assert events[0] == "plan"
    end = walk.of_sweep[-1]
    assert (end["outcome"], end["exit_status"]) == ("finished", 0)
    best = [line for line in walk.of_sweep if line["event"] == "best"][-1]
    assert end["best"]["values"] == best["values"]
    assert Path(end["report"]).is_file()


@pytest.mark.long
def test_the_skill_s_steering_and_results_are_of_its_sweep(walk: Walk) -> None:
    by_command = walk.lines
    assert [each["name"] for each in by_command["sweeps queue --json"][-1]["sweeps"]] == ["first"]
    assert "12" in by_command["sweeps control first set num-trials=12 --json"][-1]["answer"]
    (row,) = by_command["sweeps results first --json"][-1]["sweeps"]
    assert row["best_score"] == next(iter(walk.of_sweep[-1]["best"]["values"].values()))
    assert (walk.folder / "first.csv").is_file()
    plan = by_command["sweeps run --refine first --dry-run --json"][0]
    assert (plan["event"], plan["name"], plan["is_dry_run"]) == ("plan", "first-refined", True)
    fitted = by_command["sweeps fit digits.py --params first --max-epochs 1 --name again --json"]
    assert [line["event"] for line in fitted] == ["report", "end"]


# Commands that the skill does not have.


def test_the_page_says_where_it_is(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "sweeps", "dashboard", "--port", "0", "--no-browser", "--json"]
    (tmp_path / "results").mkdir()
    with subprocess.Popen(
        words,
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    serving, end = checked("dashboard", first + rest)
    assert end["url"] == serving["url"]
    assert end["exit_status"] == 130


def test_ray_is_started_shown_and_ended(tmp_path: Path) -> None:
    up, end = typed("sweeps up --no-ray-dashboard --json", tmp_path)
    assert (up["is_started"], up["address"]) == (True, end["address"])
    assert typed("sweeps down --wait --json", tmp_path)[-1]["has_ended"] is True
    assert typed("sweeps down --json", tmp_path)[-1] | {"time": 0.0} == {
        **{"event": "end", "time": 0.0, "exit_status": 0},
        **{"has_ended": False, "was_up": False, "used_by": []},
    }


@pytest.mark.long
def test_an_interrupted_sweep_says_how_to_go_on(tmp_path: Path) -> None:
    typed(f"sweeps init {tmp_path}/project --json", tmp_path)
    words = [sys.executable, "-m", "sweeps", "run", "-n", "40", "--name", "long", "--no-preflight", "--json"]
    project, file = tmp_path / "project", tmp_path / "lines"
    with (
        file.open("wb") as output,
        subprocess.Popen(
            words, cwd=project, env=ENVIRONMENT, stdout=output, stderr=subprocess.DEVNULL
        ) as process,
    ):
        wait_for(file, "report")
        process.send_signal(signal.SIGINT)
        assert process.wait(MOST_S) == 130
    end = checked("run", file.read_text())[-1]
    assert (end["outcome"], end["exit_status"]) == ("interrupted", 130)
    assert shlex.split(end["resume"])[-2:] == ["--resume", "results/long"]


@pytest.mark.long
def test_what_takes_long_prints_its_lines_too(tmp_path: Path) -> None:
    examples.write(tmp_path)
    data = f"--data-dir {tmp_path / 'clips'} --prepared-dir {tmp_path / 'prepared'}"
    prepared = typed(f"sweeps prepare my_project.clips {data} --json", tmp_path)[-1]
    assert {*prepared["rows"]} == {"train", "val", "test"}
    assert typed(f"sweeps prepare my_project.clips {data} --check --json", tmp_path)[-1]["rows"]
    rungs = typed("sweeps ladder digits.py --seconds 0.5 --json", tmp_path)
    assert {line["event"] for line in rungs} == {"rung", "end"}
    assert typed("sweeps demo --json", tmp_path)[-1]["outcome"] == "finished"

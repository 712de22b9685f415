"""The program accepts each command in the README and the docs, and each flag there exists."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps import control, dashboard, init, ladder, prepare, report, results
from sweeps.__main__ import COMMANDS as COMMANDS_OF_SWEEPS
from sweeps.common.cli import json_output
from sweeps.common.errors import UserError
from sweeps.config import cli, control_commands, plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.pcs import __main__ as flags_for_pcs
from sweeps.pcs.__main__ import COMMANDS as COMMANDS_FOR_PCS
from sweeps.plan import folder as plan_folder
from sweeps.plan import run_start
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.training.data import dataset
from sweeps.training.single_run import run_settings
from tests.conftest import ROOT, skip_without
from tests.docs import examples
from tests.docs.pages import BY_NAME, COMMANDS, PAGES, Page, arguments_of, of
from tests.support.searched import peak, searched

OF_THE_SYSTEM = {
    *("source", "cd", "export", "apt-get", "sudo", "test", "for", "ssh", "ssh-copy-id", "done", "rsync"),
    *("squeue", "tail", "pip", ".venv/bin/jupyter", ".venv/bin/python"),
}
"""Programs of others in the docs. (The lines of cluster.md are run by tests/deploy/test_ray_cluster.py.)"""
CHECKED = {
    *("make", "sweeps", "torchrun", "sbatch", "optuna-dashboard"),
    *("podman", "docker", "ray", ".venv/bin/ray"),
}
FLAGS_OF_OTHERS = {
    *(
        "--autoscaling-config",
        "--build-arg",
        "--device",
        "--gpus",
        "--init",
        "--ipc",
        "--network",
        "--no-deps",
        "--rm",
    ),
    *(
        "--dashboard-host",
        "--disable-usage-stats",
        "--head",
        "--follow",
        "--generate",
        "--block",
        "--node-manager-port",
        "--object-manager-port",
    ),
    *("--object-store-memory", "--memory", "--me", "--nodes", "--signal", "--time", "--nproc-per-node"),
    *("--form-string", "--logdir", "--backend-store-uri", "--by-tune", "--stop-timeout", "--user"),
    *(
        "--part",
        "--limit-s",
        "--on-cpu",
        "--models",
        "--trials",
        "--arms",
        "--reports",
        "--no-monitor",
        "--list",
        "--minutes",
        "--only",
        "--workload",
        "--quick",
        "--include-log-monitor",
    ),
    *("--print_config", "--config-dir", "--config-name", "--master_port", "--standalone"),
    "--num-trils",  # a mistake, for its answer
    *("--head", "--count", "--pause", "--stop", "--cancel", "--prior_run"),
}
"""Of programs that are not `sweeps`: Ray, Slurm, Podman, torchrun, DeepSpeed, TensorBoard, MLflow, Hydra,
LightningCLI, Weights & Biases, the benchmarks."""
FLAGS_OF_MODELS = {
    *("--pixels", "--hidden", "--fold", "--alpha", "--penalty", "--epochs", "--checkpoints", "--optimizer"),
    "--betas",
}
"""Hyperparameters of data.md and recipes.md, and the arguments of the program of commands.md."""

FITS = [*arguments_of("sweeps fit"), *arguments_of("torchrun --nproc-per-node 2 -m sweeps.fit")]


def test_each_command_is_of_a_program_that_is_known() -> None:
    unknown = []
    for page, command in COMMANDS:
        words = re.sub(r"^(?:[A-Z_]+=\S+ +)*", "", command).split()
        if words and words[0] not in OF_THE_SYSTEM | CHECKED:
            unknown.append((page, command))
    assert unknown == []


@pytest.fixture(autouse=True)
def standard_output(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Given back behind a command with `--json`, which is only parsed here."""
    with json_output.last_line():
        yield


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_blocks_are_words_that_a_shell_takes(page: Page) -> None:
    for block in page.blocks("bash"):
        checked = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("command", [words for words in arguments_of("sweeps run") if words])
def test_a_sweep_of_the_docs_makes_a_plan(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = shlex.split(command.split(" > ")[0])
    for flag, package in (("-c", "jsonargparse"), ("--hydra", "hydra")):
        if flag in tokens:
            pytest.importorskip(package, reason=f"{package} is not installed")
    is_configured = bool({"-c", "--hydra", "--command"} & set(tokens))
    for name in examples.LIBRARIES:
        if f"{name}.py" in tokens and (missing := examples.missing(name)):
            pytest.skip(f"{missing} is not installed")
    if "my_project" in command or set(examples.FILES) & set(tokens) or is_configured:
        examples.write(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.chdir(tmp_path)
    if "--config" in tokens:
        (tmp_path / "sweep.yaml").write_text("trainable: digits_mlp\nnum_trials: 3\n")
        tokens[tokens.index("--config") + 1] = str(tmp_path / "sweep.yaml")
    if {"--help", "--help-all", "--print-config"} & set(tokens):
        with pytest.raises(SystemExit) as end:
            cli.parse(tokens)
        assert not end.value.code
        assert capsys.readouterr().out
        return
    for extra in {"mlflow", "wandb"} & set(tokens):
        skip_without(extra)
    if "--submit" in tokens:  # what the head is asked for
        tokens = [token for token in tokens if token not in ("--submit", "--resume", "results/NAME")]
    if "--resume" in tokens:
        begun = SweepConfig(trainable="digits_mlp", name="begun", results_dir=str(tmp_path))
        with plan_folder.opened(make_plan(begun)):
            pass  # the driver died before the first trial
        tokens[tokens.index("--resume") + 1] = str(tmp_path / "begun")
        plan = make_plan(cli.parse(tokens))
        with plan_folder.opened(plan) as record:
            assert "begun: 0 trials ended" in run_start.check_resume(plan, record).text
        return
    for place, token in enumerate(tokens):
        if "--refine" in tokens and (token.startswith("results/") or token == "NAME"):
            searched(tmp_path, Path(token).name, peak(0.03), num_trials=8)
            tokens[place] = str(tmp_path / Path(token).name)
        if "--refine" in tokens and token in examples.FROM_ELSEWHERE:
            tokens[place] = str(examples.from_elsewhere(tmp_path, token))
    asked = cli.parse([*tokens, "--results-dir", str(tmp_path)])
    assert "trials" in describe(make_plan(plugins.named(asked) if is_configured else asked))


@pytest.mark.parametrize("arguments", arguments_of("make sweep"))
def test_a_sweep_by_make_is_one(arguments: str, tmp_path: Path) -> None:
    given = re.search(r'ARGS="(.*)"', arguments)
    flags = shlex.split(given[1]) if given else []
    plan = make_plan(cli.parse(["--trainable", "fashion_cnn", *flags, "--results-dir", str(tmp_path)]))
    assert "trials" in describe(plan)


@pytest.mark.parametrize("command", of("sbatch"))
def test_a_job_of_slurm_is_one(command: str) -> None:
    options, script, flags = re.fullmatch(r"sbatch (.*?)(deploy/\S+)(.*)", command).groups()  # type: ignore[union-attr]
    assert all(option.startswith("--") for option in options.split())
    assert (ROOT / script).is_file()
    if "--resume" not in flags:
        cli.parse(shlex.split(flags))


@pytest.mark.parametrize("line", FITS)
def test_a_single_run_of_the_docs_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params.yaml").write_text("params: {lr: 0.02}")
    arguments = shlex.split(line.replace("results/NAME/best", str(tmp_path)))
    if set(examples.FILES) & set(arguments):
        examples.write(tmp_path)
        monkeypatch.chdir(tmp_path)
    if "--help" in arguments:
        with pytest.raises(SystemExit) as end:
            run_settings.parse(arguments)
        assert not end.value.code
    elif "--resume" in arguments:
        with pytest.raises(UserError, match="no run of"):  # there is none: nothing else is wrong with it
            run_settings.parse(arguments)
    elif "first" in arguments:  # a sweep that the page has made
        with pytest.raises(UserError, match="no sweep or run in results/"):
            run_settings.parse(arguments)
    else:
        run, _ = run_settings.parse([*arguments, "--results-dir", str(tmp_path)])
        assert run.resume is None
        assert run.params.get("lr", 0.02) in (0.02, 0.1, 0.3)


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with data to prepare and a raw file for each split; the folder of the raw files."""
    examples.write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(tmp_path / "clips"))
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "prepared"))
    return tmp_path / "clips"


@pytest.mark.parametrize(
    "line", [line for line in arguments_of("sweeps prepare") if "NAME" not in line.split()]
)
def test_a_preparation_of_the_docs_is_one(line: str, clips: Path, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("params: {lr: 0.02, pixels: 32}")
    asked = prepare.parse(shlex.split(line.replace("results/NAME/best", str(tmp_path))))
    assert asked.hyperparameters.get("pixels", 64) in (32, 64)
    data_set = dataset.find_data_set(asked.trainable, asked.hyperparameters)
    assert [item.split for item in data_set.items] == ["train", "val", "test"]


@pytest.mark.parametrize("line", arguments_of("sweeps init"))
def test_a_new_project_of_the_docs_is_one(line: str) -> None:
    assert init.parse(shlex.split(line)) == Path(line)


@pytest.mark.parametrize("line", arguments_of("sweeps ladder"))
def test_a_ladder_of_the_docs_is_one(line: str) -> None:
    assert ladder.parse(shlex.split(line)).trainable.name in line


@pytest.mark.parametrize("line", arguments_of("sweeps results"))
def test_a_comparison_of_the_docs_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "lines" if line.startswith("lines") else "NAME"
    searched(tmp_path / "results", name, peak(0.03), num_trials=1)
    monkeypatch.chdir(tmp_path)
    (folder,), table = results.parse(shlex.split(line))
    assert folder in (Path("results/*"), Path("results", name))  # the shell makes folders of the first
    assert (table is not None) == ("--csv" in line)


@pytest.mark.parametrize("line", arguments_of("sweeps report"))
def test_a_report_of_the_docs_is_one(line: str) -> None:
    folder, output = report.parse(shlex.split(line))
    assert folder in (Path("NAME"), Path("results/NAME"), Path("first"))
    assert (output is not None) == ("--output" in line)


@pytest.mark.parametrize("line", arguments_of("sweeps dashboard"))
def test_a_dashboard_of_the_docs_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    searched(tmp_path / "results", "first", peak(0.03), num_trials=1)
    asked = dashboard.parse(shlex.split(line.replace("/mnt/share", str(tmp_path))))
    assert asked.folders == [tmp_path / "results"]
    assert (asked.opened is not None) == ("first" in line)


@pytest.mark.parametrize("line", arguments_of("sweeps control"))
def test_a_command_to_a_sweep_of_the_docs_is_one(line: str) -> None:
    folder, _, address = control.parse(shlex.split(line))
    assert folder in ("", "NAME", "results/NAME")
    assert (address is not None) == ("--address" in line)


def test_the_docs_show_all_commands_to_a_sweep() -> None:
    asked = [control.parse(shlex.split(line)) for line in arguments_of("sweeps control")]
    assert {words[0] for _, words, _ in asked} == set(control_commands.NAMES)


@pytest.mark.parametrize("words", arguments_of("sweeps pcs"))
def test_a_command_for_pcs_is_one(words: str, tmp_path: Path) -> None:
    name, *arguments = shlex.split(words)
    if name == "status":
        searched(tmp_path, "NAME", peak(0.03), num_trials=1)
        shown = flags_for_pcs.status([word.replace("results", str(tmp_path)) for word in arguments])
        assert shown == {"address": None, "folder": tmp_path / "NAME"}
    elif name == "drain":
        asked = flags_for_pcs.drain(arguments)
        assert asked == {"address": "auto", "pc": None, "timeout_s": flags_for_pcs.DRAIN_S}
    elif name == "back":
        assert not arguments
    else:
        asked = flags_for_pcs.check(arguments) if name == "check" else flags_for_pcs.down(arguments)
        assert len(asked["file"].pcs) == 4


def test_the_docs_show_all_commands_for_pcs() -> None:
    assert {words.split()[0] for words in arguments_of("sweeps pcs")} == set(COMMANDS_FOR_PCS)


@pytest.mark.parametrize("command", [*of(".venv/bin/ray"), *of("ray")])
def test_a_command_of_ray_is_one(command: str) -> None:
    from ray.scripts.scripts import cli as of_ray

    assert command.split()[1] in {*of_ray.commands, "job"}


@pytest.mark.parametrize("command", [*of("podman build"), *of("docker build")])
def test_an_image_is_built_from_a_file_that_is_there(command: str) -> None:
    assert (ROOT / re.search(r"-f (\S+)", command)[1]).is_file()  # type: ignore[index]


@pytest.mark.parametrize("command", of("make"))
def test_make_knows_the_target(command: str) -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.M)
    assert targets
    assert command.split()[1] in targets[1].split()


def test_a_file_of_the_repository_that_is_named_is_there() -> None:
    """In the text: `sweeps/...`, `tests/...`, `deploy/...` and so on."""
    folders = "sweeps|tests|trainables|search_spaces|deploy|benchmarks|docs|notebooks"
    missing = [
        (page.name, name)
        for page in PAGES
        for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", page.text)
        if not (ROOT / name).exists() and not re.search(r"my_model|/cnn\.py", name)
    ]
    assert missing == []


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """All flags of the commands."""
    helps = re.findall(r"^<!-- help: ([\w ]+) -->$", BY_NAME["command-reference"].text, flags=re.M)
    helps += ["fit fashion_cnn", "fit fashion_vit", "fit faces"]
    found = " ".join(examples.hooks().help_of(command) for command in helps)
    return {"--version", *re.findall(r"--[a-z][\w-]*", found)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_flag_that_is_named_is_one(page: Page, flags: set[str]) -> None:
    text = page.text
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", re.sub(r"<!--.*?-->", "", text)))
    assert sorted(named - flags - FLAGS_OF_OTHERS - FLAGS_OF_MODELS) == []


def test_the_command_reference_has_every_command() -> None:
    shown = set(re.findall(r"^#+ sweeps (.*)$", BY_NAME["command-reference"].text, flags=re.M))
    helps = set(re.findall(r"^<!-- help: ([\w ]+) -->$", BY_NAME["command-reference"].text, flags=re.M))
    assert shown == helps
    assert shown == {*COMMANDS_OF_SWEEPS, *(f"pcs {name}" for name in COMMANDS_FOR_PCS)}

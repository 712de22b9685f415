"""A LightningCLI project as a trainable: its own parser checks, and its own program builds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sweeps.common import plugins, project
from sweeps.common.errors import UserError, reason_of
from sweeps.config import cli
from sweeps.config.sweep_config import to_yaml
from sweeps.kinds import registry, source_files
from sweeps.plan.describe import describe
from sweeps.plan.fingerprint import changes, identity
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.single_run import run_settings
from sweeps.training.trial_logger import TrialLogger
from tests.support import configured
from tests.support.trainables import run_through
from tests.sweeps.kinds.swept import enter, planned, trained

pytest.importorskip("jsonargparse", reason="jsonargparse is not installed")

RUN = ("--lightning-cli", "net_project.cli", "--cli-config", "config.yaml")
ANY = (
    "--lightning-cli",
    "net_project.any_cli",
    "--cli-config",
    "any.yaml",
    "--metric",
    "val_acc",
    "--mode",
    "max",
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(configured.write(tmp_path), monkeypatch)
    return tmp_path


def fault(*arguments: str) -> str:
    with pytest.raises(UserError) as raised:
        planned(*arguments)
    return str(raised.value)


def test_its_settings_are_hyperparameters_and_the_others_stay() -> None:
    plan = planned(
        *RUN, "--ranges", "model.lr=1e-3..1:log", "data.batch_size=32,64", "data.sizes.0=500..1000"
    )
    (model,) = plan.models
    assert model.space.describe() == {
        "model.lr": "0.001 to 1, log scale",
        "data.batch_size": "one of 32, 64",
        "data.sizes.0": "500 to 1000, whole numbers",
    }
    assert model.space.fixed["model.hidden"] == 48
    assert plan.config.objective.metric == "val_acc", "as its ModelCheckpoint monitors it"
    assert "model.classes" not in model.space.fixed, "it is linked to the data's"


@pytest.mark.parametrize("program", ["net_project.cli", "net_project/cli.py", "net_project/cli.py fit"])
def test_its_program_and_its_file_are_enough(program: str, here: Path) -> None:
    ranges = ("--ranges", "model.lr=1e-3..1:log")
    (name,) = planned(*program.split(), "-c", "config.yaml", *ranges).config.trainables
    assert name == planned(*RUN, *ranges).config.trainable == "lightning-cli:net_project.cli:config.yaml"
    file = ["-c", "config.yaml"]
    for words in ([*program.split(), *file], [*file, *program.split()]):
        run, _ = run_settings.parse([*words, "--params", "model.lr=0.5"])
        assert (run.trainable, run.params) == (name, {"model.lr": 0.5})


def test_a_program_is_recognized_only_where_it_is_typed_without_a_flag(here: Path) -> None:
    for words in (("--trainable", "net_project.cli"), ("--config", "sweep.yaml")):
        (here / "sweep.yaml").write_text("trainable: net_project.cli\n")
        config = cli.parse(words)
        assert (config.trainable, config.lightning_cli) == ("net_project.cli", None)
    assert cli.parse(["net_project.cli"]).lightning_cli == "net_project.cli"


PROGRAMS = {
    "plain.py": "from lightning.pytorch.cli import LightningCLI\nLightningCLI()",
    "by_package.py": "import lightning.pytorch as pl\npl.cli.LightningCLI()",
    "calls.py": "from plain import main\nmain()",
    "in_package/__main__.py": "from .own import go\ngo()",
    "in_package/own.py": "from net_project.cli import CLI\ndef go(): CLI()",
}
OTHERS = {
    "model.py": "from lightning.pytorch.cli import LightningCLI\nbuild_model = 0",
    "imports.py": "import plain",
    "loop.py": "from plain import main\ndef train(params, trial): main()",
    "cycle.py": "from cycle import main\nmain()",
}


def test_what_makes_a_lightning_cli_is_seen_in_its_source(here: Path) -> None:
    """Each file would end this process where it is run, or imported."""
    (here / "in_package").mkdir()
    for name, text in {**PROGRAMS, **OTHERS, "in_package/__init__.py": ""}.items():
        (here / name).write_text(f"import os\n{text}\nos._exit(9)\n")
    assert {name: registry.cli_module(name) for name in PROGRAMS} == {
        "plain.py": "plain",
        "by_package.py": "by_package",
        "calls.py": "calls",
        "in_package/__main__.py": "in_package",
        "in_package/own.py": "in_package.own",
    }
    assert registry.cli_module("in_package") == "in_package"
    assert [name for name in (*OTHERS, "none.py", "no.such", "plain x") if registry.cli_module(name)] == []
    assert project.folder() == here
    (here / "wrong.py").write_text("\nLightningCLI(")
    (here / "calls_wrong.py").write_text("from wrong import main\nmain()")
    for name in ("wrong.py", "calls_wrong"):
        with pytest.raises(UserError, match=r"^wrong.py is no Python: .* \(wrong.py, line 2\)$"):
            registry.cli_module(name)
    (here / "scripts").mkdir()
    (here / "scripts" / "main.py").write_text("import beside\nfrom plain import main\nmain()")
    (here / "scripts" / "beside.py").touch()
    assert registry.cli_module("scripts/main.py") == "main"
    assert project.folder() == here / "scripts", "from where it imports the file beside it"


def test_each_file_of_a_program_is_looked_at_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are 512 ways through the imports of these ten."""
    for number in range(10):
        names = [f"part_{other}" for other in range(number + 1, 10)]
        calls = [f"from {name} import go\ngo()\n" for name in names]
        (here / f"part_{number}.py").write_text("".join(calls))
    looked_at, defines = list[str](), plugins.defines

    def noted(file: Path, marks: Collection[str]) -> bool:
        looked_at.append(file.stem)
        return defines(file, marks)

    monkeypatch.setattr(plugins, "defines", noted)
    assert registry.cli_module("part_0.py") == ""
    assert sorted(looked_at) == [f"part_{number}" for number in range(10)]


def test_files_of_settings_without_a_program_are_refused() -> None:
    assert "-c config.yaml: give the program of the LightningCLI, too" in fault("-c", "config.yaml")
    expected = "-c config.yaml: net_project/model.py makes no LightningCLI"
    assert expected in fault("net_project/model.py", "-c", "config.yaml")
    assert "Did you mean 'net_project/cli.py'?" in fault("net_project/clli.py", "-c", "config.yaml")
    assert "Did you mean 'net_project.cli'?" in fault("net_project.clii", "-c", "config.yaml")
    assert "give them with -c config.yaml" in fault("net_project/cli.py", "--config", "config.yaml")
    assert "is a LightningCLI, which is swept alone" in fault("net_project.cli", "net_project.model")
    assert "--model.lr: no such flag. A hyperparameter is given as --params model.lr=VALUE" in fault(
        "net_project.cli", "--model.lr", "1"
    )


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("val_check_interval: 4", (None, 4)),
        ("val_check_interval: 0.5", (None, 0.5)),
        ("check_val_every_n_epoch: 3", (3, None)),
    ],
)
def test_the_validations_of_its_trainer_say_what_an_epoch_is(
    setting: str, expected: tuple[Any, Any], here: Path
) -> None:
    (here / "config.yaml").write_text(f"{configured.CONFIG}  {setting}\n")
    fit = planned(*RUN, "--ranges", "model.lr=0.1..1").config.fit
    found = fit.check_val_every_n_epoch, fit.val_check_interval
    assert (found, type(found[1])) == (expected, type(expected[1]))


def test_what_the_sweep_sets_itself_is_named_and_the_rest_of_the_trainer_kept() -> None:
    said = " ".join(describe(planned(*RUN, "--ranges", "model.lr=1e-3..1:log")).split())
    kept = "precision 32-true unless --precision is given, limit_val_batches 1, gradient_clip_val 0.5"
    assert f"trainer kept: {kept}, EarlyStopping overruled max_epochs 50: trials are compared" in said
    assert "ModelCheckpoint: checkpoints are written where a resume needs them" in said
    assert "LearningRateMonitor: epochs are in the record; give --loggers" in said
    assert "fixed the rest as config.yaml has it" in said


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (
            "model.init_args.lr=0.1..1",
            "--ranges model.init_args.lr: no such hyperparameter. Did you mean 'model.lr'?",
        ),
        ("model.hidden=0.5..2", "model.hidden\": Expected a <class 'int'>. Got value: 0.5"),
        ("model.lr=fast,slow", "--ranges model.lr=fast,slow: 'fast': must be a number"),
        ("model.act=1,2", "Expected a <class 'str'>"),
        (
            "data.sizes=1,2",
            "--ranges data.sizes: a list; give one of its items, as data.sizes.0, data.sizes.1",
        ),
        ("model=1,2", "--ranges model: a section; give one of its settings, as model.lr"),
        ("trainer.max_epochs=5,9", "--ranges trainer.max_epochs: the sweep sets it: .* give --max-epochs"),
        ("seed_everything=1,2", "--ranges seed_everything: the sweep sets it: give --seed"),
        ("trainer.deterministic=true,false", "trainer.deterministic: it stays as the settings have it"),
        ("trainer.callbacks.0.init_args.mode=min,max", "it can't be taken, in place of this callback"),
        (
            "trainer.callbacks.1.init_args.patience=a,b",
            "\"trainer.callbacks\": Expected a <class 'int'>. Got value: a",
        ),
    ],
)
def test_a_range_is_checked_by_the_parser_of_the_project(ranges: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        planned(*RUN, "--ranges", ranges)


def test_the_value_of_a_fixed_one_is_given_by_params() -> None:
    ranges = ("--ranges", "model.lr=0.1..1")
    plan = planned(*RUN, *ranges, "--params", "model.hidden=8", "trainer.accumulate_grad_batches=2")
    assert plan.models[0].space.fixed["model.hidden"] == 8
    said = " ".join(describe(plan).split())
    assert "fixed model.hidden=8, trainer.accumulate_grad_batches=2, the rest as config.yaml has it" in said
    assert "--params model.hiden: no such hyperparameter. Did you mean 'model.hidden'?" in fault(
        *RUN, *ranges, "--params", "model.hiden=8"
    )
    assert "--params model.hidden=x: Parser key \"model.hidden\": Expected a <class 'int'>." in fault(
        *RUN, *ranges, "--params", "model.hidden=x"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ("--lightning-cli", "net_project.cly"),
            "net_project.cly: no such module. Did you mean 'net_project.cli'?",
        ),
        (
            ("--lightning-cli", "net_project/cli.py"),
            "net_project/cli.py: no such module. Did you mean 'net_project.cli'?",
        ),
        (
            ("--lightning-cli", "net_project/cly.py"),
            "net_project/cly.py: no such module. Did you mean 'net_project.cli'?",
        ),
        (
            ("--lightning-cli", "net_project.cli", "--cli-config", "c.yaml"),
            "^-c c.yaml: no such file",
        ),
        (
            ("--lightning-cli", "net_project.nothing"),
            "python -m net_project.nothing ends without a LightningCLI",
        ),
        (
            ("--lightning-cli", "net_project.broken"),
            "ModuleNotFoundError: No module named 'no_such_package'",
        ),
        (
            ("--lightning-cli", "net_project.cli", "--cli-config", "any.yaml"),
            "any.yaml: Subcommand 'fit' does not accept option",
        ),
        (("--lightning-cli", "net_project.cli", "--trainable", "x"), "can't be combined with --trainable"),
        (("--cli-config", "config.yaml"), "-c config.yaml: give the program of the LightningCLI, too"),
        (("--lightning-cli", "net_project.cli", "--ranges", "model.lr=0.1..1"), "--metric: give the metric"),
        ((*RUN,), "it has no search space. Give --ranges"),
    ],
)
def test_what_can_not_be_swept_is_told_before_anything_starts(
    arguments: tuple[str, ...], expected: str
) -> None:
    with pytest.raises(UserError, match=expected):
        planned(*arguments)


def test_without_jsonargparse_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonargparse", None)  # as if it were not there
    assert "jsonargparse is not installed: " in fault(*RUN, "--ranges", "model.lr=0.1..1")


def test_an_older_jsonargparse_has_another_name_for_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before 4.49."""
    from jsonargparse import ArgumentParser

    dump = ArgumentParser.dump

    def older(self: Any, cfg: Any, format: str = "parser_mode", skip_none: bool = True, **inner: Any) -> Any:
        assert inner.keys() != {"skip_unset"}, "jsonargparse itself gives more"
        return dump(self, cfg, format, **({"skip_unset": skip_none} | inner))

    monkeypatch.setattr(ArgumentParser, "dump", older)
    (model,) = planned(*RUN, "--ranges", "model.lr=1e-3..1:log").models
    assert model.space.fixed["model.hidden"] == 48


def test_a_program_that_can_run_only_once_is_found_again(here: Path) -> None:
    """As one that registers a resolver of OmegaConf; a changed file of settings is read."""
    program = here / "net_project" / "cli.py"
    once = "import pathlib\nwith pathlib.Path('runs').open('a') as runs:\n    print('a run', file=runs)\n"
    program.write_text(once + program.read_text())
    name = "lightning-cli:net_project.cli:config.yaml"
    assert registry.find(name).hyperparameters == registry.find(name).hyperparameters
    assert (here / "runs").read_text() == "a run\n"
    text = (here / "config.yaml").read_text()
    (here / "config.yaml").write_text(text + "\n# changed\n")
    registry.find(name)
    assert (here / "runs").read_text() == 2 * "a run\n"


def test_another_process_builds_and_trains_what_the_project_would() -> None:
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log")
    fit = trained(plan, **{"model.lr": 0.7, "model.hidden": 24})
    model: Any = fit._model
    assert (model.lr, model.hparams.hidden, model.hparams.classes) == (0.7, 24, 10)
    trainer: Any = fit._trainer
    assert (trainer.gradient_clip_val, trainer.limit_val_batches) == (0.5, 1)
    assert isinstance(trainer.logger, TrialLogger)  # not the project's
    names = {type(each).__name__ for each in trainer.callbacks}
    assert "EarlyStopping" in names
    assert not names & {"ModelCheckpoint", "LearningRateMonitor", "SaveConfigCallback"}
    assert fit.progress.score > 0.5


def test_the_options_of_a_model_are_told_as_often_as_they_are_asked_for() -> None:
    trainable = planned(*RUN, "--ranges", "model.lr=1e-3..1:log").models[0].trainable
    params = trainable.params_class()
    assert trainable.trainer_options(params) == {}, "none is built yet"
    trainable.build_model(params)
    first = trainable.trainer_options(params)
    assert first
    assert trainable.trainer_options(params) == first


def test_the_seed_is_that_of_the_trial_and_not_of_the_file() -> None:
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log")
    trainable = plan.models[0].trainable
    weights = []
    for seed in (1, 2, 1):
        fit = Fit(
            trainable,
            trainable.params_class(),
            FitConfig(max_epochs=1, metric="val_acc", mode="max", seed=seed),
        )
        weights.append(float(next(fit._model.parameters()).sum()))
    assert weights[0] == weights[2] != weights[1]


def test_a_class_may_be_swept_where_the_given_arguments_fit_each() -> None:
    ranges = ("optimizer.class_path=torch.optim.Adam,torch.optim.SGD", "optimizer.init_args.lr=1e-3..1:log")
    plan = planned(*ANY, "--ranges", *ranges)
    for name in ("torch.optim.SGD", "torch.optim.Adam"):
        trainer: Any = trained(plan, **{"optimizer.class_path": name, "optimizer.init_args.lr": 0.3})._trainer
        assert type(trainer.optimizers[0]).__name__ == name.rpartition(".")[2]
        assert trainer.optimizers[0].param_groups[0]["lr"] == 0.3
    wrong = fault(*ANY, "--ranges", "optimizer.class_path=torch.optim.Adam,torch.optim.Nothing")
    assert "\"optimizer\": module 'torch.optim' has no attribute 'Nothing'" in wrong


def test_an_unknown_setting_of_a_class_is_told_in_the_words_of_the_parser(here: Path) -> None:
    written = yaml.safe_load((here / "any.yaml").read_text())
    written["optimizer"] = {"class_path": "torch.optim.SGD", "init_args": {"momentun": 0.9}}
    (here / "any.yaml").write_text(yaml.safe_dump(written))
    assert fault(*ANY, "--ranges", "optimizer.init_args.lr=0.1..1") == (
        "-c any.yaml: Parser key \"optimizer\": Option 'momentun' is not accepted"
    )
    (here / "any.yaml").write_text("model: [")
    assert "-c any.yaml: ParserError: while parsing" in fault(*ANY, "--ranges", "x=0.1..1")


def test_two_files_have_the_settings(here: Path) -> None:
    (here / "more.yaml").write_text("model:\n  hidden: 24\n")
    plan = planned(*RUN, "more.yaml", "--ranges", "model.lr=0.1..1")
    said = " ".join(describe(plan).split())
    assert "data as config.yaml and more.yaml have it" in said
    assert "fixed the rest as config.yaml and more.yaml have it" in said


def test_a_program_without_subcommands_and_data_modules_trains_too() -> None:
    arguments = ("--lightning-cli", "net_project.own_loaders", "--cli-config", "own.yaml")
    plan = planned(
        *arguments, "--metric", "val_acc", "--mode", "max", "--ranges", "model.init_args.lr=1e-3..1:log"
    )
    fit = trained(plan, **{"model.init_args.lr": 0.5})
    assert fit.progress.score > 0.5
    assert fit.why_no_test


def test_settings_that_are_computed_from_others_follow_them() -> None:
    pytest.importorskip("omegaconf", reason="omegaconf is not installed")
    arguments = ("--lightning-cli", "net_project.references", "--cli-config", "references.yaml")
    arguments = (*arguments, "--metric", "val_acc", "--mode", "max")
    model: Any = trained(
        planned(*arguments, "--ranges", "data.batch_size=16,32"), **{"data.batch_size": 32}
    )._model
    assert model.hparams.hidden == 32
    wrong = fault(*arguments, "--ranges", "model.hidden=16,32")
    assert "--ranges model.hidden: it is computed from other settings, as ${data.batch_size}" in wrong


def test_what_is_sent_to_a_head_is_the_same_project(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*RUN, "--ranges", "model.lr=1e-3..1:log")
    trainable = planned(*arguments).models[0].trainable
    head = tmp_path_factory.mktemp("head")
    for path in source_files.to_send(trainable.sources()):
        if path.name != "sweeps":
            shutil.copytree(path, head / path.name)
    for name, text in trainable.settings_files().items():
        (head / name).write_text(text)
    monkeypatch.chdir(head)
    project.use()
    there = planned(*arguments)
    content = trainable.description.content.partition('"given"')[0]
    assert there.models[0].space.exactly() == planned(*arguments).models[0].space.exactly()
    assert there.models[0].trainable.description.content.partition('"given"')[0] == content


@pytest.mark.slow
def test_the_exported_file_is_what_the_program_of_the_project_takes(here: Path) -> None:
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log")
    fit = FitConfig(max_epochs=2, seed=11, precision="32").settings()
    values = {**plan.models[0].space.fixed, "model.lr": 0.25}
    ((name, text),) = plan.models[0].trainable.export(values, fit, "results/s/best").items()
    assert text.startswith("# Train it again: python -m net_project.cli fit -c results/s/best/config.yaml\n")
    (here / "best").mkdir()
    (here / "best" / name).write_text(text)
    words = ["-m", "net_project.cli", "fit", "-c", f"best/{name}", "--print_config"]
    printed = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=120, check=True
    )
    found = yaml.safe_load(printed.stdout)
    assert (found["seed_everything"], found["trainer"]["max_epochs"]) == (11, 2)
    assert found["model"] == {"lr": 0.25, "hidden": 48, "act": "relu", "drop": None}
    assert [each["class_path"].rpartition(".")[2] for each in found["trainer"]["callbacks"]] == [
        "ModelCheckpoint",
        "EarlyStopping",
        "LearningRateMonitor",
    ]


def test_a_change_of_the_settings_or_of_the_code_is_found(here: Path) -> None:
    arguments = (*RUN, "--ranges", "model.lr=1e-3..1:log")
    before = identity(planned(*arguments))
    assert {"net_project/cli.py", "net_project/model.py", "net_project/data.py"} <= before["code"].keys()
    (here / "config.yaml").write_text(configured.CONFIG.replace("48", "50"))
    (here / "net_project" / "data.py").write_text(configured.DATA + "# changed\n")
    assert changes(before, identity(planned(*arguments))) == [
        "net_project/data.py: its code",
        "config.yaml: its content",
    ]


def test_classes_that_only_the_settings_name_are_code_too() -> None:
    found = identity(planned(*ANY, "--ranges", "optimizer.init_args.lr=1e-3..1:log"))["code"]
    assert {"net_project/any_cli.py", "net_project/model.py", "net_project/data.py"} <= found.keys()


def test_the_settings_of_a_sweep_name_it(here: Path) -> None:
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log", "--name", "again")
    (here / "sweep.yaml").write_text(to_yaml(plan.config.changed(name=None)))
    again = planned("--config", "sweep.yaml")
    assert again.config.trainables == ["lightning-cli:net_project.cli:config.yaml"]
    assert str(again.config.name).startswith("net_project.cli-")
    assert again.space == plan.space or again.models[0].space.describe() == plan.models[0].space.describe()


def test_the_plan_has_the_ranges_in_one_column_however_long_the_names_are() -> None:
    text = describe(planned(*RUN, "--ranges", "model.lr=0.1..1", "data.batch_size=32,64"))
    first, second = (line for line in text.splitlines() if " 0.1 to 1" in line or " one of 32, 64" in line)
    assert "  model.lr " in first
    assert "data.batch_size" in second
    assert first.index(" 0.1 to 1") == second.index(" one of 32, 64")


def test_a_single_run_takes_settings_that_are_in_no_section() -> None:
    name = "lightning-cli:net_project.cli:config.yaml"
    run, trainable = run_settings.parse([name, "--test-after-fit", "false", "--params", "model.lr=0.5"])
    assert run.params == {"test_after_fit": False, "model.lr": 0.5}
    assert trainable.params_class().test_after_fit is True
    name = "lightning-cli:net_project.any_cli:any.yaml"
    with pytest.raises(UserError, match="--metric: give the metric by which epochs are compared"):
        run_settings.parse([name])


@pytest.mark.parametrize(
    ("given", "typed", "trained_in", "exported"),
    [
        ("32-true", (), "32", "32-true"),
        ("64", (), "64", "64-true"),
        ("bf16", (), "bf16-mixed", "bf16-mixed"),
        ("16-mixed", (), "auto", "16-mixed"),
        ("bf16-true", (), "auto", "bf16-true"),
        ("64-true", ("--precision", "32"), "32", "32-true"),
    ],
)
def test_the_precision_of_the_project_is_that_of_its_trials_unless_one_is_given(
    here: Path, given: str, typed: tuple[str, ...], trained_in: str, exported: str
) -> None:
    (here / "config.yaml").write_text(configured.CONFIG.replace("32-true", given))
    plan = planned(*RUN, "--ranges", "model.lr=1e-3..1:log", *typed)
    assert plan.config.fit.precision == trained_in
    run, trainable = run_settings.parse(["lightning-cli:net_project.cli:config.yaml", *typed])
    fit = run.fit_config(trainable)
    assert fit.precision == trained_in
    (text,) = trainable.export({"model.lr": 0.25}, fit.settings(), "results/s/best").values()
    assert yaml.safe_load(text)["trainer"]["precision"] == exported


def test_a_model_is_trained_in_doubles() -> None:
    trainable = planned(*RUN, "--ranges", "model.lr=1e-3..1:log").models[0].trainable
    fit = Fit(
        trainable,
        trainable.params_class(),
        FitConfig(max_epochs=1, metric="val_acc", mode="max", precision="64"),
    )
    run_through(fit)
    assert {weight.dtype for weight in fit._model.parameters()} == {torch.float64}


def test_a_trainer_of_the_project_is_named(here: Path) -> None:
    (here / "net_project" / "cli.py").write_text(
        "import lightning.pytorch as pl\n"
        "class Careful(pl.Trainer):\n    pass\n"
        + configured.CLI.replace("CLI(Net, Digits)", "CLI(Net, Digits, trainer_class=Careful)")
    )
    said = " ".join(describe(planned(*RUN, "--ranges", "model.lr=1e-3..1:log")).split())
    assert "Careful: a trial has Lightning's Trainer; give in the settings what Careful sets" in said


def test_a_project_on_the_other_package_keeps_the_names_of_its_classes(here: Path) -> None:
    configured.write_older(here)
    arguments = (*RUN, "--ranges", "model.lr=1e-3..1:log")
    plan = planned(*arguments)
    assert "ModelCheckpoint: checkpoints are written" in " ".join(describe(plan).split())
    assert trained(plan, **{"model.lr": 0.7}).progress.score > 0.5
    fit = FitConfig(max_epochs=2).settings()
    (text,) = plan.models[0].trainable.export({"model.lr": 0.25}, fit, "results/s/best").values()
    names = [each["class_path"] for each in yaml.safe_load(text)["trainer"]["callbacks"]]
    assert names[0] == "pytorch_lightning.callbacks.ModelCheckpoint"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x", "ValueError: Expected a <class 'int'>. Got value: x"),
        (-3, "RuntimeError: Trying to create tensor with negative dimension -3: [-3, 64]"),
    ],
)
def test_a_trial_that_can_not_be_built_has_the_reason_and_not_the_words_of_its_program(
    value: object, reason: str
) -> None:
    trainable = planned(*RUN, "--ranges", "model.lr=0.1..1").models[0].trainable
    there = registry.load(trainable.description)
    with pytest.raises((Exception, SystemExit)) as raised:
        there.build_model(there.params_class(**{"model.hidden": value}))
    assert reason_of(raised.value) == reason


@pytest.mark.parametrize("program", ["apart.cli", "uses_apart"])
def test_a_package_in_src_that_python_does_not_find_is_named_with_what_to_do(
    program: str, here: Path
) -> None:
    (here / "src" / "apart").mkdir(parents=True)
    (here / "src" / "apart" / "__init__.py").touch()
    (here / "uses_apart.py").write_text("import apart.cli\n")
    with pytest.raises(UserError, match=r"It is in src/: install your project, or set PYTHONPATH=src$"):
        planned("--lightning-cli", program)


def test_a_module_that_a_package_lacks_is_looked_for_in_that_package(here: Path) -> None:
    for folder in ("tools", "others"):
        (here / folder).mkdir()
    (here / "tools" / "__init__.py").touch()
    (here / "others" / "tools.py").touch()
    with pytest.raises(UserError, match=r"no such module[.] Give a dotted path$"):
        planned("--lightning-cli", "tools.cli")

"""Sweeps' files of W&B become settings of this program, and what has no counterpart is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.common import project
from sweeps.common.errors import UserError
from sweeps.common.param_types import build_params
from sweeps.config import cli, wandb_sweep
from sweeps.config.plugins import named
from sweeps.kinds import registry
from sweeps.training.config import FitConfig
from sweeps.training.runs.function_run import FunctionRun
from tests.sweeps.kinds.swept import planned
from tests.sweeps.training.runs.test_function_run import reports

HEAD = "program: train.py\nmethod: random\nmetric: {name: val_acc, goal: maximize}\n"


def read(folder: Path, text: str) -> tuple[dict[str, Any], list[str]]:
    file = folder / "sweep.yaml"
    file.write_text(text)
    found, lines = wandb_sweep.read(str(file))
    return found, [line.removeprefix(f"{file}: ") for line in lines]


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(UserError) as refused:
        read(folder, text)
    start = f"--wandb-sweep {folder / 'sweep.yaml'}: "
    return [line.removeprefix(start) for line in str(refused.value).splitlines()]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("{values: [16, 32]}", [16, 32]),
        ("{values: [[8, 8], [4]]}", [[8, 8], [4]]),
        ("{min: 1, max: 9}", "1..9"),
        ("{min: 1, max: 9.0}", "1.0..9.0"),
        ("{min: 0.1, max: 0.5, distribution: uniform}", "0.1..0.5"),
        ("{min: 1e-5, max: 1e-1, distribution: log_uniform_values}", "1e-05..0.1:log"),
        ("{min: -9.210340371976182, max: -2.302585092994046, distribution: log_uniform}", "0.0001..0.1:log"),
        (
            "{min: 2.302585092994046, max: 9.210340371976182, distribution: inv_log_uniform}",
            "0.0001..0.1:log",
        ),
        ("{min: 0.001, max: 1, distribution: inv_log_uniform_values}", "0.001..1.0:log"),
        ("{min: 3, max: 250, q: 16, distribution: q_uniform}", "0..256:16"),
        ("{min: 0.01, max: 0.5, q: 0.05, distribution: q_uniform}", "0.0..0.5:0.05"),
        ("{min: 1, max: 1000, q: 10, distribution: q_log_uniform_values}", "10..1000:log:10"),
        ("{mu: 0.5, sigma: 0.1, distribution: normal}", "0.3..0.7"),
        ("{mu: 0, sigma: 1, distribution: log_normal}", "0.1353352832..7.389056099:log"),
        ("{mu: 64, sigma: 16, q: 8, distribution: q_normal}", "32..96:8"),
        ("{distribution: beta}", "0.0..1.0"),
        ("{a: 2, b: 2, q: 0.25, distribution: q_beta}", "0.0..1.0:0.25"),
    ],
)
def test_each_distribution_is_a_range(asked: str, expected: Any, tmp_path: Path) -> None:
    found, _ = read(tmp_path, f"{HEAD}parameters: {{x: {asked}}}")
    assert found["ranges"] == {"x": expected}


def test_a_distribution_that_becomes_another_one_is_named(tmp_path: Path) -> None:
    shapes = "a: {distribution: normal, mu: 1, sigma: 0.5}, b: {values: [1, 2], probabilities: [0.1, 0.9]}"
    _, lines = read(tmp_path, f"{HEAD}run_cap: 3\nparameters: {{{shapes}}}")
    assert lines[0] == "a: normal(1, 0.5) is searched from 0.0 to 2.0"
    assert lines[1] == "b: probabilities are left out"


def test_exponents_that_look_like_values_are_told(tmp_path: Path) -> None:
    x = "{min: 0.0001, max: 0.1, distribution: log_uniform}"
    _, lines = read(tmp_path, f"{HEAD}run_cap: 3\nparameters: {{x: {x}}}")
    assert lines[0] == (
        "x: log_uniform takes exponents of e, so it is searched from 1 to 1.105; for 0.0001 to 0.1 give "
        "log_uniform_values"
    )


def test_the_search_and_its_pruning_are_the_nearest_of_this_program(tmp_path: Path) -> None:
    text = """
program: train.py
method: bayes
name: a name / of mine
run_cap: 40
metric: {name: val/loss, target: 0.1}
early_terminate: {type: hyperband, min_iter: 4, eta: 2, strict: true}
parameters:
  lr: {min: 0.1, max: 0.2}
  epochs: {values: [10, 30]}
project: p
entity: e
"""
    found, lines = read(tmp_path, text)
    assert found == {
        "name": "a-name-of-mine",
        "num_trials": 40,
        "metric": ["val/loss:min"],
        "target": 0.1,
        "ranges": {"lr": "0.1..0.2", "epochs": [10, 30]},
        "params": {},
        "scheduler": "asha",
        "grace_epochs": 4,
        "reduction_factor": 2,
        "command": "python train.py {args}",
        "max_epochs": 30,
    }
    assert lines == [
        "early_terminate.strict: left out",
        "project, entity: left out, these are of W&B's server",
    ]


def test_brackets_that_are_counted_from_the_end_begin_at_the_last_one(tmp_path: Path) -> None:
    rule = "early_terminate: {type: hyperband, max_iter: 27, s: 2}\n"
    found, _ = read(tmp_path, f"{HEAD}{rule}parameters: {{x: {{min: 1, max: 2}}}}")
    assert (found["grace_epochs"], found["reduction_factor"], found["max_epochs"]) == (3, 3, 27)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["${env}", "python3", "${program}", "${args_no_hyphens}"], "python3 train.py {args_no_hyphens}"),
        (
            ["${interpreter}", "-m", "pkg.${program}", "--data=${envvar:DATA}"],
            "python -m pkg.train.py --data=here {wandb_config}",
        ),
        (
            ["python", "${program}", "hydra.run.dir=${now:%Y}/{x}", "${args_json}"],
            "python train.py 'hydra.run.dir=${{now:%Y}}/{{x}}' {args_json}",
        ),
        (["${env}", "A=1", "python", "${program}", "${args}"], "env A=1 python train.py {args}"),
        (["python", "${program}", "${envvar:MORE}", "${args}"], """python train.py '{{"a": 1}}' {args}"""),
        (["bash", "-c", "cd sub && python $0", "${args}"], "bash -c 'cd sub && python $0' {args}"),
    ],
)
def test_macros_of_a_command_are_its_placeholders(
    words: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA", "here")
    monkeypatch.setenv("MORE", '{"a": 1}')
    found, _ = read(tmp_path, f"{HEAD}command: {json.dumps(words)}\nparameters: {{x: {{min: 1, max: 2}}}}")
    assert found["command"] == expected


def test_every_fault_of_a_file_is_named(tmp_path: Path) -> None:
    text = """
method: bayess
metric: {nam: a}
parameters:
  a: {distribution: log_unif, min: 1, max: 2}
  b: {min: 3, max: 1}
  c: 3
  d: {min: -1, max: 1, distribution: log_uniform_values}
  e: {min: few, max: 1, distribution: uniform}
  f: {mean: 1, distribution: normal}
  g: {min: 1, max: 2, q: 0, distribution: q_uniform}
  h: {min: 1, max: 1000, distribution: log_uniform}
  i: {values: [1], distribution: [categorical]}
  j: {mu: 512, sigma: 100, distribution: log_normal}
early_terminate: {type: median}
run_caps: 3
"""
    assert faults(tmp_path, text) == [
        "method bayess: must be one of bayes, random, grid",
        "metric {'nam': 'a'}: must have a name, and a goal: minimize or maximize",
        "parameters.a.distribution 'log_unif': no such one. Did you mean 'log_uniform'?",
        "parameters.b: min 3 must be below max 1",
        "parameters.c 3: must hold value, values, or min and max",
        "parameters.d.min -1: must be above 0 on a log scale",
        "parameters.e.min few: must be a number",
        "parameters.f.mean: normal has no such key.",
        "parameters.g.q 0: must be above 0",
        "parameters.h: log_uniform takes exponents of e, and e to the 1000 is too large. For the values "
        "themselves give log_uniform_values",
        "parameters.i.distribution ['categorical']: no such one. Did you mean 'categorical'?",
        "parameters.j: log_normal takes exponents of e, and e to the 712 is too large. For the values "
        "themselves give log_uniform_values",
        "early_terminate {'type': 'median'}: must have type hyperband",
        "program: it has none. A sweep of a function is run from Python: sweeps.run(train, ...)",
        "run_caps: no such key. Did you mean 'run_cap'?",
    ]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a program, in which commands are typed."""
    (tmp_path / "train.py").write_text(
        "import json, sys\n"
        "of = dict(word.lstrip('-').split('=', 1) for word in sys.argv[1:])\n"
        "for epoch in range(int(of['epochs'])):\n"
        "    print('of', json.dumps(of))\n"
        "    print(json.dumps({'val_acc': float(of['lr']) * (epoch + 1)}))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(project, "_chosen", None)
    return tmp_path


def test_flags_win_and_epochs_must_be_known(own: Path) -> None:
    (own / "w.yaml").write_text(f"{HEAD}parameters: {{lr: {{min: 0.1, max: 0.2}}}}")
    with pytest.raises(UserError, match=r"how often a run reports val_acc\. Give --max-epochs N"):
        cli.parse(["--wandb-sweep", "w.yaml"])
    (own / "c.yaml").write_text("trainable: net\n")
    for words in (["train"], ["--command", "python train.py"], ["--config", "c.yaml"]):
        with pytest.raises(UserError, match=r"--wandb-sweep has a program, and --(trainable|command) names"):
            cli.parse([*words, "--wandb-sweep", "w.yaml"])
    config = cli.parse(["--wandb-sweep", "w.yaml", "--max-epochs", "5", "--searcher", "tpe", "-n", "3"])
    assert (config.max_epochs, config.searcher, config.num_trials) == (5, "tpe", 3)
    assert named(config).trainable == "command:python train.py {args:lr}"


@pytest.mark.slow
def test_a_file_is_run_without_an_account(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (own / "w.yaml").write_text(
        f"{HEAD}name: w\nrun_cap: 2\nparameters:\n  lr: {{min: 0.1, max: 0.2}}\n  epochs: {{value: 2}}\n"
        "  optimizer: {parameters: {name: {values: [adam, sgd]}, betas: {values: [[0.9, 0.99]]}}}\n"
    )
    plan = planned("--wandb-sweep", "w.yaml")
    assert "a trial ends when it has reported 2 times" in capfd.readouterr().err
    (model,) = plan.models
    trainable: Any = registry.load(model.trainable.description)
    goal = plan.config.objective
    config = FitConfig(max_epochs=plan.config.max_epochs, metric=goal.metric, mode=goal.mode)
    for seed in range(2):
        point = plan.space.draw((seed,))
        params = build_params(trainable.params_class, {**point.fixed, **point.params})
        assert len(reports(FunctionRun(trainable, params, config))) == 2
    given = [json.loads(line) for line in re.findall(r"^of (.*)$", capfd.readouterr().out, re.MULTILINE)]
    assert len(given) == 4
    assert {each["optimizer"][:9] for each in given} == {"{'name': "}
    assert all("'betas': [0.9, 0.99]" in each["optimizer"] for each in given)


@pytest.mark.slow
def test_a_program_that_takes_no_arguments_reads_its_config(own: Path, environment: dict[str, str]) -> None:
    pytest.importorskip("wandb")
    (own / "train.py").write_text(
        "import wandb\n"
        "run = wandb.init(config={'lr': 9.0, 'seen': 1})\n"
        "for _ in range(wandb.config.epochs):\n"
        "    wandb.log({'train_loss': 0.5})\n"
        "    wandb.log({'val_acc': run.config.lr, 'beta': run.config['optimizer']['beta']})\n"
    )
    (own / "w.yaml").write_text(
        f"{HEAD}name: w\nrun_cap: 2\ncommand: ['${{env}}', '${{interpreter}}', '${{program}}']\nparameters:\n"
        "  lr: {min: 0.1, max: 0.2}\n  epochs: {value: 2}\n  optimizer: {parameters: {beta: {value: 0.8}}}\n"
    )
    command = [sys.executable, "-m", "sweeps.run", "--wandb-sweep", "w.yaml", "--no-ray-dashboard"]
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        command, cwd=own, env={**environment, "PATH": path}, text=True, stdout=-1, stderr=subprocess.STDOUT
    )
    assert done.returncode == 0, done.stdout
    found = analysis_sweep.load(own / "results" / "w")
    for trial in found.record.searched:
        scores = {row.score for row in trial.epochs.values()}
        assert (len(trial.epochs), scores) == (2, {trial.params["lr"]})
        assert {row.metrics["beta"] for row in trial.epochs.values()} == {0.8}
    assert "WANDB_SWEEP_PARAM_PATH" in (own / "results" / "w" / "best" / "command.sh").read_text()

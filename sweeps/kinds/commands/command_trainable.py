"""A command as a trainable: `command:python train.py --lr {lr} --epochs {max_epochs}`.

A trial runs it in a working folder of its own, in which each entry of the project's folder has a link, and
reads its metrics from its output, or from a file that it writes. Where the command has `{checkpoint_dir}`,
that folder is the checkpoint of a report: the program is to write it before it reports, and is stopped while
the sweep decides and copies it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from sweeps.common import project
from sweeps.common.errors import (
    CannotTrain,
    MetricNotLogged,
    PCUnfit,
    ProgramFailed,
    UserError,
    first_said,
    refuse,
    says_out_of_memory,
)
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import nearest
from sweeps.kinds import source_files
from sweeps.kinds.commands.command_words import (
    ARGS_FILE,
    CHECKPOINT_DIR,
    OF_ALL,
    VARIABLES,
    CommandWords,
    shown,
)
from sweeps.kinds.commands.printed_metrics import metrics_in
from sweeps.kinds.commands.program import WANDB_FILE, Program, TrialFolder, wandb_config
from sweeps.kinds.commands.program_reports import METRICS, EventFiles, ProgramReports
from sweeps.kinds.commands.startup import sitecustomize
from sweeps.kinds.function import FunctionTrainable, Trial
from sweeps.kinds.projects import settings_tree
from sweeps.kinds.source_files import Source
from sweeps.kinds.trainable import Description

WANDB_CONFIG = "WANDB_SWEEP_PARAM_PATH"
"""The variable by which `wandb agent` gives the hyperparameters to a program; `wandb.env` has its name."""
OF_RAY = ("RAY_", "TUNE_")
"""Begin the variables by which a program would believe that it is a process of Ray."""
STARTUP = str(Path(sitecustomize.__file__).parent)
"""The first folder of the path of a program in Python."""
SHELL_WORDS = ("&&", "||", "|", ";", ">", ">>", "<", "&", "2>&1")
SCRIPTS = (".py", ".sh")
MOST_BYTES_OF_A_FILE = 10**6
"""Of a file in the command that is taken for code or settings, and not for data."""
MISUSES = ("exit status 2", "exit status 126", "exit status 127")
"""Of a program that does not take its arguments, and of a shell that can't run a program."""
LAST_LINES = 20
"""Of a program that has failed, in which its error is looked for."""
_ERROR = re.compile(r"(?:\[rank\d+\]: ?)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*)")
"""As Python prints it, maybe in one of several processes that `torchrun` has started."""
_UNKNOWN = "unknown|unrecognized|no such|could not|unexpected|invalid"
_NO_ERROR = r"(?!.*\b(?:warn|info|debug))"
_SAID = re.compile(
    rf"{_NO_ERROR}(?:.*: )?\W*(?:error(?:\[\w+\])?(?::(?!\W*\d)| in )|(?:{_UNKNOWN}) ).*", re.I
)
"""As parsers of arguments and other languages print it, maybe in a box, and with advice behind it."""
_OF_SHELL = re.compile(r"[^\s;&|()<>]+")
"""A word of a command within `bash -c '...'`."""
BEST_FILE = "command.sh"
"""In best/: the command with the values of the best trial."""


@dataclass(frozen=True)
class CommandSettings:
    """All that another process needs to run a command."""

    command: str
    folder: str
    """Of the project."""
    saves: bool
    """Whether it writes checkpoints."""
    knows_epochs: bool
    """Whether it is told how many epochs to train."""


class CommandTrainable(FunctionTrainable):
    """A command, which runs in a working folder for each trial."""

    kind = "command"
    trains_elsewhere = True
    own_names = (*VARIABLES, *OF_ALL)

    def __init__(self, name: str, settings: CommandSettings) -> None:
        self._settings, self._words = settings, CommandWords.of(settings.command)
        self.without_default = self._words.hyperparameters
        params_class = settings_tree.params_class(
            dict.fromkeys(self.without_default), lambda values: None, hint=Any | list[Any]
        )
        super().__init__(Description(self.kind, name, json.dumps(asdict(settings))), params_class, None)

    @classmethod
    def find(cls, name: str) -> Self:
        """The command of a name, with its program looked for.

        Raises:
            UserError: it has faults.
        """
        typed = name.partition(":")[2]
        flag = f"--command {shown(typed)!r}"
        try:
            words = CommandWords.of(typed)
        except ValueError as error:
            raise UserError(f"{flag}: {str(error).lower()}") from None
        faults = words.faults() or _faults_of_program(words.words, project.folder())
        refuse([f"{flag}: {fault}" for fault in faults])
        named = _texts(words.words)
        saves, knows_epochs = (
            placeholder in words.placeholders or any(VARIABLES[placeholder] in text for text in named)
            for placeholder in (CHECKPOINT_DIR, "max_epochs")
        )
        return cls(name, CommandSettings(typed, str(project.folder()), saves, knows_epochs))

    @classmethod
    def load(cls, description: Description) -> Self:
        """The same in another process, which checks nothing."""
        return cls(description.name, CommandSettings(**json.loads(description.content)))

    @property
    def called(self) -> str:
        return f"`{shown(self._settings.command)}`"

    @property
    def saves(self) -> bool:
        return self._settings.saves

    def note_on_more_epochs(self) -> str:
        if self._settings.knows_epochs:
            return super().note_on_more_epochs()
        return f"{self.called} has no {{max_epochs}}: where it ends by itself, it goes no further"

    def notes(self) -> Sequence[tuple[str, str]]:
        then = "a trial that is paused or interrupted starts again"
        return () if self.saves else [("checkpoint", f"the command has no {{{CHECKPOINT_DIR}}}: {then}")]

    def sources(self) -> Sequence[Source]:
        return _sources(self._words.words)

    def settings_files(self) -> Mapping[str, str]:
        here = project.folder()
        files = [file for file in _files(self._words.words) if file.suffix != ".py"]
        return {str(file.relative_to(here)): file.read_text(errors="replace") for file in files}

    def export(self, values: Mapping[str, Any], fit: Mapping[str, Any], folder: str) -> dict[str, str]:
        of_trial = {"max_epochs": str(fit["max_epochs"]), "seed": str(fit["seed"]), "trial": "0"}
        of_trial |= {CHECKPOINT_DIR: "checkpoint", "work_dir": "."}
        with tempfile.TemporaryDirectory() as written:
            params = build_params(self.params_class, {name: values[name] for name in self.without_default})
            words = self._words.filled(vars(params), of_trial, Path(written))
            file = Path(written, ARGS_FILE)
            found = {ARGS_FILE: file.read_text()} if file.exists() else {}
        if "wandb_config" in self._words.placeholders:
            found[WANDB_FILE] = wandb_config(vars(params))
            words = ["env", f"{WANDB_CONFIG}={folder}/{WANDB_FILE}", *words]
        line = shlex.join([word.replace(str(file), f"{folder}/{ARGS_FILE}") for word in words])
        before = [f"mkdir -p {of_trial[CHECKPOINT_DIR]}"] if self.saves else []
        lines = ["# Train it again, in the folder of the project:", *before, *self._exports(of_trial), line]
        return {**found, BEST_FILE: "\n".join([*lines, ""])}

    def _exports(self, of_trial: Mapping[str, str]) -> list[str]:
        """A line of a shell with those variables of a trial that the command or its files name."""
        variables = {VARIABLES[name]: text for name, text in of_trial.items()} | {METRICS: "metrics.jsonl"}
        named = _texts(self._words.words)
        found = [f"{each}={text}" for each, text in variables.items() if any(each in code for code in named)]
        return [f"export {' '.join(found)}"] if found else []

    def train(self, params: Any, trial: Trial) -> None:
        """Run the program, and report what it reports.

        Raises:
            CannotTrain: it has ended without a report, takes other arguments, or reports an epoch twice.
            ProgramFailed: it has failed, or has not gone on.
            PCUnfit: the project, or the program, is not on this PC.
        """
        folder = TrialFolder(Path(self._settings.folder))
        epochs, source, ahead = folder.fill(trial.checkpoint, trial.metrics[0])
        texts = {
            "trial": str(trial.number),
            "seed": str(trial.seed),
            "max_epochs": str(trial.max_epochs),
            CHECKPOINT_DIR: str(folder.checkpoint),
            "work_dir": str(folder.work),
        }
        values = {name: getattr(params, name) for name in self.without_default}
        words = self._words.filled(values, texts, folder.work)
        variables = {VARIABLES[name]: text for name, text in texts.items()}
        variables |= {METRICS: str(folder.metrics), "OMP_NUM_THREADS": str(trial.threads)}
        variables |= {WANDB_CONFIG: str(folder.wandb_config(values))}
        reports = ProgramReports(source, trial.metrics, (*values, *VARIABLES), ahead)
        events = EventFiles(folder.work.parent)
        last_lines: deque[str] = deque(maxlen=LAST_LINES)
        has_reported = False
        with Program(words, folder.work, _environment(variables), trial.stop_grace_s) as program:
            for found in reports.read(program, folder.metrics, events, last_lines):
                if not epochs.take(found):
                    continue
                has_reported = True
                if not (self.saves and any(folder.checkpoint.iterdir())):
                    trial.report(found.metrics)
                    continue
                program.hold()
                save = folder.saving(program, epochs, reports.source, reports.read_ahead)
                trial.report(found.metrics, save)
                program.go_on()
        if failure := program.failure:
            said = _error_in([*last_lines], by_itself=failure.startswith("exit status"))
            why = f"{failure}{said}".replace(str(folder.work.parent), "")
            if program.is_missing and "{" not in self._words.words[0]:
                raise PCUnfit(f"{words[0]}: {why}")
            is_misuse = not has_reported and failure in MISUSES
            raise CannotTrain(f"{self.called}: {why}") if is_misuse else ProgramFailed(why)
        if has_reported or trial.epochs_done >= trial.max_epochs:
            return
        if trial.checkpoint is None:
            raise self._without_report(trial.metrics[0], reports.names, program.processes_left)
        behind = "" if epochs.last is None else f", that of epoch {epochs.last}"
        raise ProgramFailed(
            f"it has gone on from its checkpoint{behind}, and ended without a later report in its "
            f"{source or 'output'}, where {trial.epochs_done} of {trial.max_epochs} epochs were reported"
        )

    def _without_report(self, metric: str, names: Mapping[str, None], left: int) -> CannotTrain:
        line = f"{metric}=0.9"
        if metric not in metrics_in(line):
            line = json.dumps({metric: 0.9})
        wanted = f"it is to print a line such as {line} for each epoch"
        if names:
            return MetricNotLogged(f"{MetricNotLogged.from_logged(metric, names, 1)} ({wanted})")
        behind = f". It ended while others that it had started went on ({left}): let it wait for them"
        return CannotTrain(f"{self.called} has ended without a report: {wanted}{behind if left else ''}")


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(OF_RAY) and not value.startswith("ray.util.")  # PYTHONBREAKPOINT
    }
    path = [STARTUP, *filter(None, own.get("PYTHONPATH", "").split(os.pathsep))]
    default = {"WANDB_MODE": "offline", "WANDB_DIR": variables[VARIABLES["work_dir"]]}
    with socket.socket() as free:  # for torchrun, which has the same port in all trials of a PC by itself
        free.bind(("", 0))
        default["PET_MASTER_PORT"] = str(free.getsockname()[1])
    return {**default, **own, "PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1", **variables}


def _error_in(lines: Sequence[str], *, by_itself: bool) -> str:
    """The line of a program's output that says why it has failed: that memory ran out, also where a launcher
    of several processes has told its own error behind it. One that was ended by others may have none."""
    newest = range(len(lines))[::-1]
    of_line = [(lines[number], first_said(lines[number : number + 2])) for number in newest]
    errors = [_ERROR.sub(r"\1", said, count=1) for line, said in of_line if _ERROR.match(line)]
    first = [error for error in errors if says_out_of_memory(error)]
    named = [said for line, said in of_line if by_itself and _SAID.match(line)]
    found = next(iter([*first, *errors, *named, *(said for _, said in of_line[:1])]), "").strip(" │")
    return f": {found}" if found else ""


def _files(words: Sequence[str]) -> list[Path]:
    """The files of the project that a command names, without data."""
    here = project.folder()
    found = [here / word for word in words if len(word) < project.MOST_CHARACTERS]
    return [
        file
        for file in dict.fromkeys(found)
        if file.is_relative_to(here) and file.is_file() and file.stat().st_size <= MOST_BYTES_OF_A_FILE
    ]


def _sources(words: Sequence[str]) -> list[Source]:
    """Name and file of each script and module in Python that a command names."""
    found = [(file.stem, file) for file in _files(words) if file.suffix == ".py"]
    for word, after in itertools.pairwise(words):
        is_module = word == "-m" and re.fullmatch(r"\w[\w.-]*", after)  # not the folder of `df -m /`
        names = (after, f"{after}.__main__") if is_module else ()
        modules = ((name, project.file_in(project.folder(), name)) for name in names)
        found += [(name, file) for name, file in modules if file is not None]
    return found


def _texts(words: Sequence[str]) -> list[str]:
    """The words of a command, and the text of the files that it names, also within `bash -c '...'`, and of
    what they import of their project."""
    named = [*words, *(each for word in words for each in _OF_SHELL.findall(word))]
    imported = source_files.files(dict.fromkeys(_sources(named))).items()
    own = {file for name, file in imported if not name.startswith("sweeps/")}  # which name all variables
    return [*words, *(path.read_text(errors="replace") for path in own.union(_files(named)))]


def _faults_of_program(words: Sequence[str], here: Path) -> list[str]:
    """What can't be run of a command."""
    if not words:
        return ["give a program and its arguments"]
    if shell := next((word for word in words if word in SHELL_WORDS), None):
        return [f"{shell} is of a shell: give bash -c '...'"]
    program = words[0]
    if re.fullmatch(r"\w+=.*", program):
        return [f"{program} is no program: variables are set by env, as in env {program} ..."]
    faults = []
    if "{" in program:
        pass  # a hyperparameter chooses it
    elif "/" in program and not (here / program).is_file():
        faults.append(f"{program}: no such file in {here}")
    elif "/" in program and not os.access(here / program, os.X_OK):
        faults.append(f"{program} can't be executed: chmod +x {program}, or name its interpreter first")
    elif "/" not in program and shutil.which(program) is None:
        beside = f" Did you mean './{program}'?" if (here / program).is_file() else ""
        known = beside or nearest(program, ("python", "python3", "bash", "Rscript", "julia", "node"))
        faults.append(f"{program}: no such program on PATH.{known}")
    for before, word in itertools.pairwise(words):
        is_script = word.endswith(SCRIPTS) and not re.search(r"^-|[{ ]", word)
        if is_script and not before.startswith("--") and not (here / word).is_file():
            others = (here / word).parent.glob(f"*{Path(word).suffix}")
            near = nearest(word, [os.path.relpath(file, here) for file in others])
            faults.append(f"{word}: no such file in {here}.{near}")
    return faults

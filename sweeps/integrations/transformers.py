"""The Hugging Face Trainer: each evaluation is a report, and the Trainer writes its own checkpoints.

trainer = Trainer(model, arguments, ..., callbacks=[ReportEvaluations(trial)])
trainer.train(resume_from_checkpoint=checkpoint_of(trial))

https://huggingface.co/docs/transformers/main_classes/callback
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from sweeps.training.runs.function_run import FunctionTrial

NO_SCORES = ("epoch", "_runtime", "_per_second", "_preparation_time")
"""Ends of names of metrics that are no score of the model."""


def checkpoint_of(trial: FunctionTrial) -> str | None:
    """The Trainer's checkpoint to resume from; None at the start."""
    return None if trial.checkpoint is None else str(next(trial.checkpoint.glob("checkpoint-*")))


class ReportEvaluations(TrainerCallback):
    """Reports each evaluation while a model trains, and lets the Trainer save where a checkpoint is due.

    Args:
        trial: to report to.
    """

    def __init__(self, trial: FunctionTrial) -> None:
        self._trial = trial
        self._model: Any = None
        self._trains = False
        self._folder: Path | None = None
        """Where the Trainer is to save now."""
        self._own_folder: str | None = None
        self._own_best: str | None = None
        """The best one of the Trainer's own checkpoints."""
        self._saves_own = False
        """Whether the Trainer would have saved now by itself."""
        self._scores: dict[str, float] = {}
        """Of the evaluations of this step that are not reported: there is one for each set of rows."""
        self._reported_step = 0

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, *_: Any, model: Any, **__: Any
    ) -> None:
        if args.save_strategy == "best":  # the Trainer asks no callback then
            raise ValueError("save_strategy='best' saves no trial: give save_strategy='no'")
        self._trains, self._model = True, model
        self._reported_step = state.global_step  # `eval_on_start` evaluates that of the checkpoint again
        checkpoint = checkpoint_of(self._trial)
        if checkpoint is not None and isinstance(model, PreTrainedModel):
            # The Trainer saves some models by other names of weights than it loads, and no more than warns of
            # "missing keys" (github.com/huggingface/transformers/issues/43701).
            model.load_state_dict(type(model).from_pretrained(checkpoint).state_dict())

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if self._scores:  # a metric is lacking, which the report says
            self._report(0, None)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        if self._scores:
            self._report(0, None)
        self._trains = False

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float],
        **_: Any,
    ) -> None:
        step = state.global_step
        if not self._trains or step in (0, self._reported_step):  # 0: before the first step
            return
        self._scores |= {name: score for name, score in metrics.items() if not name.endswith(NO_SCORES)}
        if not self._scores.keys() >= {*self._trial.metrics}:
            return
        self._report(step, self._save)
        if self._folder is not None:
            self._own_folder, args.output_dir = args.output_dir, str(self._folder)
            self._own_best, self._saves_own = state.best_model_checkpoint, control.should_save
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, *_: Any, **__: Any) -> None:
        if self._folder is not None:
            args.output_dir, folder, self._folder = self._own_folder, self._folder, None
            self._keep_own(folder, args, state)
            self._trial.run.has_saved()

    def _keep_own(self, folder: Path, args: TrainingArguments, state: TrainerState) -> None:
        """Let the Trainer's best checkpoint be one of its own, which stay: `load_best_model_at_end` reads it,
        and so does a resumed trial."""
        for saved in folder.glob("checkpoint-*"):
            is_best = state.best_model_checkpoint == str(saved)
            if self._saves_own:
                own = Path(str(self._own_folder), saved.name)
                shutil.copytree(saved, own, dirs_exist_ok=True)
                self._own_best = str(own) if is_best else self._own_best
                _remove_old(own, self._own_best, args.save_total_limit)
            state.best_model_checkpoint = self._own_best
            state.save_to_json(str(saved / "trainer_state.json"))

    def _report(self, step: int, save: Callable[[Path], None] | None) -> None:
        scores, self._scores, self._reported_step = self._scores, {}, step
        self._trial.report(scores, save=save)

    def _save(self, folder: Path) -> None:
        self._folder = folder
        if not self._trial.run.go_on_to_save():  # the loop has ended; the weights are left
            self._model.save_pretrained(folder)


def _remove_old(newest: Path, best: str | None, most: int | None) -> None:
    """Remove the oldest checkpoints beside the newest one, as the Trainer does by `save_total_limit`."""
    if not most or most < 0:
        return
    kept = {newest, Path(best or newest)}  # as paths: of "./own" the Trainer keeps the point
    others = [each for each in newest.parent.glob("checkpoint-*") if each not in kept]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for old in others[max(0, most - len(kept)) :]:
        shutil.rmtree(old, ignore_errors=True)

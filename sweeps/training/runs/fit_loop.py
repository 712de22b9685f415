"""Train one trial with Lightning's Trainer: one `fit()`, reported epoch by epoch.

The Trainer is lean: no progress bar, summary, sanity check or checkpoint of its own, and a logger that writes
nothing. They cost up to a third of a small model's step.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import greenlet
import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from torch import nn

from sweeps.common.errors import CannotTrain
from sweeps.common.formatting import count
from sweeps.kinds import trainer_options
from sweeps.kinds.trainable import LightningTrainable
from sweeps.training import batches, torch_state, trainer
from sweeps.training.batches import ContinuedLoader, MicroBatch, MicroBatches, Place
from sweeps.training.checkpoints import weights as training_weights
from sweeps.training.checkpoints.weights import BestWeights, ModelState
from sweeps.training.config import FitConfig
from sweeps.training.data import loader_workers
from sweeps.training.distributed import strategy
from sweeps.training.distributed.cluster_environment import WorkerGroupEnvironment
from sweeps.training.lightning_internals import WHOLE_CHECKPOINT, is_called_by_lightning
from sweeps.training.report import CheckpointUnusable, Notices, Position, Progress, Report
from sweeps.training.runs.epoch_callback import NO_BATCH, EpochEnd, LeftInside
from sweeps.training.trainer import Trainer
from sweeps.training.trial_logger import TrialLogger

RESUME_FILE = "resume.ckpt"
"""State of optimizer, schedules and loop; a folder where workers write shards."""
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_Answer = TypeVar("_Answer")

torch_state.use_expandable_segments()  # at import: before the first use of CUDA
loader_workers.ignore_stops()
for _name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(_name).setLevel(logging.ERROR)
# Advice to use worker processes: these data sets are already tensors in this process.
warnings.filterwarnings("ignore", ".*does not have many workers.*")
# Averaged weights are scored outside a fit without the average.
warnings.filterwarnings("ignore", "You're using the WeightAveraging callback, but loading a checkpoint.*")
warnings.filterwarnings("ignore", ".*(log_every_n_steps|isinstance.treespec, LeafSpec).*")
# Metrics are averaged over all workers by `mean_over_workers`.
warnings.filterwarnings("ignore", ".*sync_dist=True.*")
# Said by `CannotTrain` and `MetricNotLogged`.
warnings.filterwarnings("ignore", "Total length of .* across ranks is zero.*")
# Of a data loader that asks for pinned memory wherever it runs.
warnings.filterwarnings("ignore", "'pin_memory' argument is set as true but no accelerator.*")
# A run without Slurm is intended, also where Slurm is installed.
warnings.filterwarnings("ignore", "The `srun` command is available.*")
warnings.filterwarnings("ignore", "When saving the DeepSpeed Stage 3 checkpoint.*")
# Deprecated names of PyTorch in Lightning and DeepSpeed.
warnings.filterwarnings("ignore", module=r"torch\.distributed\.")


class Fit:
    """A `RunHere` that trains with Lightning. A resumed one trains exactly as an uninterrupted one.

    Args:
        checkpoint: a folder written by `save`, to resume from; None to start.
        prepared: the folder of prepared data, for a trainable with `prepare`.
        environment: of a worker group whose processes already run.
        is_to_leave: whether to leave the run at the next position where it can be continued; asked after each
            step.
        log_dir: where the model may write files, as `self.logger.log_dir`; None: a folder that is removed.
        schedule_from: epochs behind which the schedules of the learning rate are made anew, for those that
            are left; 0: they are made for all epochs.

    Raises:
        CannotTrain: the configuration can't run here.
    """

    can_go_on = can_be_saved = True
    """Also after a failed `save`."""

    def __init__(
        self,
        trainable: LightningTrainable,
        params: Any,
        config: FitConfig,
        checkpoint: Path | None = None,
        *,
        prepared: Path | None = None,
        environment: WorkerGroupEnvironment | None = None,
        is_to_leave: Callable[[], bool] = lambda: False,
        log_dir: Path | None = None,
        progress_bar: bool = False,
        schedule_from: int = 0,
    ) -> None:
        strategy.check_devices(config.devices, torch.cuda.device_count() if torch.cuda.is_available() else 0)
        self.params, self.config = params, config
        self.callbacks: list[pl.Callback] = []
        """Further ones of Lightning; complete before `advance` is called first."""
        self._notices = Notices()
        self._logger = TrialLogger(log_dir, self._notices.add)
        self._before = Progress.read(checkpoint)
        self._schedule_from = 0 if checkpoint is None else schedule_from
        self._best = BestWeights(config, self._before.score)
        if checkpoint is not None:
            self._best.kept = ModelState.read(checkpoint)
        self._epoch_end = EpochEnd(
            config,
            self._before,
            static_metrics=trainable.static_metrics(params),
            best=self._best,
            logger=self._logger,
            notices=self._notices,
            is_to_leave=is_to_leave,
            report=self._report,
            schedule_from=self._schedule_from,
        )
        self.meter = self._epoch_end.meter
        self._greenlet: greenlet.greenlet | None = None
        self._is_released = False
        self._checkpoint, self._environment = checkpoint, environment
        self._progress_bar = progress_bar
        self._model = trainer.build_model(trainable, params, config, self._notices.add)
        self._data = trainer.build_data(trainable, params, config, prepared)
        self._options = trainer_options.checked(trainable.trainer_options(params))
        self._split = self._split_batch()
        self._parts = 1 if self._split is None else self._split.accumulation
        """Micro-batches of a batch."""
        self._place = self._read_on()
        self._trainer: Trainer | None = None
        self.choice = strategy.choose_for_model(self._model, config)
        """Strategy and precision on this PC, and the reasons."""
        if checkpoint is not None:
            self._before.refuse_other_workers(self.choice.strategy, config.workers)
        if config.compile:
            strategy.check_compile(self.choice.strategy)
            strategy.compile_model(self._model)

    @property
    def progress(self) -> Progress:
        return self._epoch_end.progress

    @property
    def strategy_in_words(self) -> str:
        return f"{self.choice.in_words}, {count(self.config.threads or 1, 'thread')}"

    @property
    def best(self) -> ModelState:
        """Of the best epoch."""
        return self._best.kept

    @property
    def why_no_test(self) -> str:
        return trainer.why_no_test(self._model, self._data)

    @property
    def checkpoint_bytes(self) -> int:
        if self._trainer is None or not self.best.weights:
            return 0
        return training_weights.checkpoint_bytes(self._trainer, self.best)

    def advance(self) -> Report | Position | None:
        """Go on with Lightning's one `fit()`, which runs in a greenlet, on the same thread (PyTorch with two
        threads is 2 to 2.5 times slower on another one). Several short ones would lose the optimizer's state.

        Raises:
            MetricNotLogged: an epoch did not log the metric.
            CannotTrain: the configuration can't run here.
            CheckpointUnusable: it can't continue from its checkpoint.
            Exception: any error of the model or the data.
        """
        if self._greenlet is None:
            self._greenlet = greenlet.greenlet(lambda _: self._train())
        found: Report | Position | None = self._greenlet.switch(True)
        return found

    def close(self) -> None:
        """Let Lightning end the training in order (hooks, teardown, worker processes), then `release` it."""
        try:
            if self._greenlet is not None and not self._greenlet.dead:
                self._greenlet.switch(False)
        finally:
            self.release()

    def _report(self, found: Report | Position) -> bool:
        """Hand what was found to the caller of `advance`; whether it trains on."""
        caller = greenlet.getcurrent().parent
        assert caller is not None
        return bool(caller.switch(found))

    def _train(self) -> None:
        if self._environment is not None:
            self._environment.join()
        if self._before.epochs < self._schedule_from:
            raise CheckpointUnusable(f"the last checkpoint is of an epoch before {self._schedule_from}")
        more: list[pl.Callback] = [_Steps(refresh_rate=20)] if self._progress_bar else []
        parts, config = self._parts, self.config
        if self._split is not None and parts > 1:
            more.append(MicroBatches(self._split, self._place))
        more += trainer_options.callbacks_of(self._options)
        options = trainer_options.in_parts(self._options, parts, config.epoch_steps, config.steps_per_epoch)
        options |= {"enable_progress_bar": self._progress_bar, "logger": self._logger}
        self._trainer = Trainer(
            say=self._notices.add,
            seed=config.seed,
            first_epoch=self._before.epochs * self._epoch_end.passes,
            schedule_from=self._schedule_from * self._epoch_end.passes,
            whole_epoch=trainer_options.in_parts(
                self._options, parts, config.epoch_steps, interval=config.interval
            ),
            max_epochs=config.max_epochs * self._epoch_end.passes,
            check_val_every_n_epoch=self._epoch_end.passes,
            precision=self.choice.precision,
            strategy=strategy.build_strategy(self.choice, self._model),
            num_nodes=config.num_nodes,
            plugins=None if self._environment is None else [self._environment],
            enable_checkpointing=True,  # EpochEnd is a checkpoint callback, so Lightning adds none
            profiler=self.meter.step_times,
            **{**trainer.lean(config.devices), **options},
            callbacks=[self._best, self._epoch_end, *more, *self.callbacks],
        )
        if self._schedule_from:
            configure, own = self._trainer.configure_for_epochs_left, self._model.configure_optimizers
            # Of this model alone: Lightning asks the model itself for its optimizers. A callback may copy the
            # model, as WeightAveraging does, but not the Trainer, which a partial would hold.
            self._model.configure_optimizers = lambda: configure(own)  # type: ignore[method-assign]
        resume = None if self._checkpoint is None else self._checkpoint / RESUME_FILE
        # Written by `save`: it holds the state of optimizer and loop, so not weights only.
        with contextlib.suppress(LeftInside):
            self._trainer.fit(self._model, self._data, ckpt_path=resume, **WHOLE_CHECKPOINT)
        if self._trainer.num_training_batches == 0:
            raise CannotTrain(NO_BATCH.format("training"))

    def save(self, folder: Path) -> None:
        """Write a checkpoint and the best epoch's weights. All workers call it together, each for its part of
        the same folder."""
        assert self._trainer is not None, "nothing has been trained"
        if self._trainer.is_global_zero:
            self.best.write(folder)
            has_ended, workers = self._trainer.should_stop, self.config.workers
            now = replace(self.progress, has_ended=has_ended, strategy=self.choice.strategy, workers=workers)
            if (place := self._place) is not None:
                now = replace(now, passes=place.passes, pass_batches=place.batches // self._parts)
            now.write(folder)
        self._trainer.save_checkpoint(folder / RESUME_FILE)

    @property
    def best_bytes(self) -> int:
        return self.best.size_bytes

    def keep_best(self, folder: Path, about: str, newest: Path | None = None) -> bool:
        if self.best.weights:
            training_weights.keep(folder, self.best, about)
        return bool(self.best.weights)

    def release(self) -> None:
        """Drop the training as it is, and give back memory that the strategy would keep with the process."""
        self._greenlet = None
        if not self._is_released and self._trainer is not None:
            strategy.release(self._trainer.strategy)
        self._is_released = True
        self._logger.close()

    def smaller_batch(self) -> MicroBatch:
        if not self._epoch_end.has_begun:
            raise CannotTrain("memory ran out before the first step: the model itself does not fit")
        if not self._model.automatic_optimization:
            raise CannotTrain("the batch can't be split: the model optimizes by itself, step by step")
        workers = self.config.workers
        if self._split is not None:
            whole, rows = self._split.share * workers, self._split.rows
        else:
            whole = rows = batches.read_batch_rows(self._data)
        if rows == 1:
            raise CannotTrain("not even a micro-batch of one row fits")
        return batches.split(whole, workers, rows // 2)

    @property
    def depends_on_batch(self) -> bool:
        return any(isinstance(each, BATCH_NORMS) for each in self._model.modules())

    def agree(self, answer: _Answer) -> _Answer:
        assert self._trainer is not None, "nothing has been trained"
        return self._trainer.strategy.broadcast(answer)

    def _read_on(self) -> Place | None:
        """Let each epoch read on in the training data where the one before has stopped; the place of the next
        one. None where each epoch is a pass of its own.

        Raises:
            CannotTrain: the data is made anew meanwhile.
        """
        interval, parts = self.config.interval, self._parts
        if interval is None or self.config.steps_per_epoch is not None:
            return None
        if self._options.get("reload_dataloaders_every_n_epochs"):
            raise CannotTrain("val_check_interval and reload_dataloaders_every_n_epochs: give one of them")
        of_epoch = interval if isinstance(interval, float) else interval * parts
        accumulation = self._options.get("accumulate_grad_batches", 1)
        place = Place(self._before.passes, self._before.pass_batches * parts)
        owner: Any = self._model if self._data is None else self._data
        more = (of_epoch, (accumulation, parts), self.config.seed, place)
        # Of a module, so that it can be pickled: workers of a loader may get a copy of its owner.
        owner.train_dataloader = partial(_continued, owner.train_dataloader, *more)
        return place

    def _split_batch(self) -> MicroBatch | None:
        """Set the data module's batch size to the micro-batch; returns the split, None of a whole batch.

        Raises:
            CannotTrain: the data module has no batch size, or it can't be split among the workers.
        """
        workers, rows = self.config.workers, self.config.micro_batch
        if workers == 1 and rows is None:
            return None
        whole = batches.read_batch_rows(self._data)
        found = batches.split(whole, workers, rows or whole)
        self._data.batch_size = found.rows
        return found


def _continued(own: Callable[[], Any], *more: Any) -> Any:
    if not is_called_by_lightning():  # the project's own code counts its batches, say
        return own()
    return ContinuedLoader(own(), *more)


class _Steps(TQDMProgressBar):
    """A progress bar that counts epochs from 1, and is gone at the end."""

    def on_train_epoch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        super().on_train_epoch_start(trainer)
        self.train_progress_bar.set_description(f"epoch {trainer.current_epoch + 1}")

    def on_train_end(self, *seen: Any) -> None:
        self.train_progress_bar.leave = False
        super().on_train_end(*seen)

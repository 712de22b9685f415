"""Models as Lightning projects write them: what was scored is what is kept, and every hook does its work."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.utils.data import (
    DataLoader,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

from sweeps.common.errors import CannotTrain, MetricNotLogged
from sweeps.training.checkpoints import trained_model
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs import epoch_callback
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import as_trainable, run_through

averaging = pytest.importorskip(
    "lightning.pytorch.callbacks.weight_averaging", reason="Lightning 2.5 has no averaging of weights"
)

CONFIG = FitConfig(max_epochs=3, metric="val_acc", mode="max", precision="32")


def rows(seed: int, count: int = 256) -> TensorDataset:
    x = torch.randn(count, 8, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


class Net(pl.LightningModule):
    """Its test rows are its validation rows, so that the score of the test is that of the best epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.net: Any = self.layers()

    def layers(self) -> nn.Module:
        return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.net(x)
        return found

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def accuracy(self, batch: Any) -> torch.Tensor:
        return (self(batch[0]).argmax(1) == batch[1]).float().mean()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_acc", self.accuracy(batch))

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("test_acc", self.accuracy(batch))

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.5)

    def train_dataloader(self) -> Any:
        return DataLoader(rows(0), 32, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(rows(1), 64)

    test_dataloader = val_dataloader


def trainable(model: type[Net], *callbacks: pl.Callback) -> Any:
    return SimpleNamespace(
        Params=SimpleNamespace,
        build_model=lambda params: model(),
        build_data=lambda params: None,
        trainer_options=lambda params: {"callbacks": list(callbacks)},
    )


def trained(
    what: Any, config: FitConfig = CONFIG, checkpoint: Path | None = None
) -> tuple[list[Report], Fit]:
    epochs: list[Report] = []
    fit = Fit(as_trainable(what), SimpleNamespace(), config, checkpoint)
    run_through(fit, lambda epoch: epochs.append(epoch) or True)  # type: ignore[arg-type, func-returns-value]
    return epochs, fit


def scores(what: Any, folder: Path) -> tuple[float, float, float]:
    """The best score of a run, that of its test, and that of its model in hand; the rows are the same."""
    epochs, fit = trained(what)
    fit.save(folder)
    tested = trained_model.score_test_rows(as_trainable(what), SimpleNamespace(), CONFIG, folder)["test_acc"]
    model: Any = trained_model.load_model(as_trainable(what), SimpleNamespace(), CONFIG, folder, lambda: None)
    inputs, labels = rows(1).tensors
    with torch.no_grad():
        predicted = (model(inputs).argmax(1) == labels).float().mean().item()
    return max(epoch.score for epoch in epochs), tested, predicted


class SwappedByCallback(pl.Callback):
    """An average of a project's own, which puts other tensors in place of the weights for the validation."""

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.weights = [weight.data for weight in pl_module.parameters()]
        for weight in pl_module.parameters():
            weight.data = weight.data * 0.5 + 0.1

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for weight, own in zip(pl_module.parameters(), self.weights, strict=True):
            weight.data = own


class SwappedByModel(Net):
    """The same in the model's own hooks."""

    def on_validation_epoch_start(self) -> None:
        self.own = [weight.detach().clone() for weight in self.parameters()]
        with torch.no_grad():
            for weight in self.parameters():
                weight.mul_(0.5).add_(0.1)

    def on_validation_epoch_end(self) -> None:
        with torch.no_grad():
            for weight, own in zip(self.parameters(), self.own, strict=True):
                weight.copy_(own)


class ChangedAfterwards(Net):
    """Its weights change between the validation and the end of the epoch."""

    def on_train_epoch_end(self) -> None:
        with torch.no_grad():
            for weight in self.parameters():
                weight.mul_(-0.9)


class LayersInSetup(Net):
    """Makes its layers anew in each `setup`: weights that were loaded before would be replaced unseen."""

    def layers(self) -> nn.Module:
        return nn.Identity()

    def setup(self, stage: str) -> None:
        self.net = Net.layers(self)


class LayersInConfigureModel(Net):
    """Makes its layers where Lightning's pages say it, and looks at its data before."""

    def layers(self) -> Any:
        return None

    def configure_model(self) -> None:
        if self.net is None:
            self.inputs = next(iter(self.val_dataloader()))[0].shape[1]
            self.net = nn.Sequential(nn.Linear(self.inputs, 32), nn.ReLU(), nn.Linear(32, 2))


class WithoutFrozen(Net):
    """Leaves frozen weights out of its `state_dict`."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.strict_loading = nn.Linear(8, 8).requires_grad_(False), False

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        return {name: value for name, value in state.items() if "backbone" not in name}


@dataclasses.dataclass(frozen=True)
class Shift:
    by: float


class AddsToCheckpoint(Net):
    """Scores by an attribute that only its checkpoints hold, and reads what Lightning's own hold."""

    shift = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters({"width": 32})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + torch.tensor([self.shift, 0.0])

    def on_train_start(self) -> None:
        self.shift = 0.7

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        assert checkpoint["hyper_parameters"]["width"] == 32
        assert "loops" in checkpoint
        assert "optimizer_states" in checkpoint
        checkpoint["shift"], checkpoint["mean"] = Shift(self.shift), self.net[0].weight.mean()
        checkpoint["state_dict"] = {"_" + name: value for name, value in checkpoint["state_dict"].items()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        assert checkpoint["hyper_parameters"]["width"] == 32
        assert checkpoint["global_step"] % 8 == 0
        assert checkpoint["global_step"] > 0
        self.shift = checkpoint["shift"].by
        checkpoint["state_dict"] = {name[1:]: value for name, value in checkpoint["state_dict"].items()}


class KeepsObjects(Net):
    """Holds more than tensors in its `state_dict`."""

    def get_extra_state(self) -> Any:
        return {"version": 3, "vocabulary": ["a", "b"]}

    def set_extra_state(self, state: Any) -> None:
        assert state["version"] == 3


class AsksInSetup(Net):
    """Asks for the steps of the run in a hook that the test calls, too."""

    def setup(self, stage: str) -> None:
        assert self.trainer.estimated_stepping_batches == (24 if stage == "fit" else -1)
        assert self.trainer.max_epochs == 3


class Lazy(Net):
    """Has layers whose shapes its `setup` decides."""

    def layers(self) -> nn.Module:
        return nn.Sequential(nn.LazyLinear(32), nn.ReLU(), nn.LazyLinear(2))

    def setup(self, stage: str) -> None:
        self.net(torch.zeros(1, 8))


@pytest.mark.parametrize(
    ("model", "callbacks"),
    [
        (Net, [averaging.EMAWeightAveraging(decay=0.9)]),
        (Net, [SwappedByCallback()]),
        (SwappedByModel, []),
        (ChangedAfterwards, []),
        (LayersInSetup, []),
        (LayersInConfigureModel, []),
        (WithoutFrozen, []),
        (AddsToCheckpoint, []),
        (KeepsObjects, []),
        (AsksInSetup, []),
        (Lazy, []),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "".join(type(c).__name__ for c in each),
)
def test_what_was_scored_is_what_is_kept_and_tested(
    model: type[Net], callbacks: list[pl.Callback], tmp_path: Path
) -> None:
    best, tested, predicted = scores(trainable(model, *callbacks), tmp_path)
    assert best == pytest.approx(tested, abs=1e-6)
    assert best == pytest.approx(predicted, abs=1e-6)


class ReplacesAll(Net):
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["state_dict"].items()
        checkpoint["state_dict"] = {name: value * 0.5 for name, value in state}


class ReplacesEach(Net):
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for name in checkpoint["state_dict"]:
            checkpoint["state_dict"][name] = checkpoint["state_dict"][name] * 0.5


class ChangesInPlace(Net):
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for value in checkpoint["state_dict"].values():
            value.mul_(0.5)


class SavesOthers(Net):
    """Keeps averages by a `state_dict` of its own."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {name: value * 0.5 for name, value in super().state_dict(*args, **kwargs).items()}


class SwapsInStep(Net):
    """Swaps averages in within the step, as `torch_ema` has it."""

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        with torch.no_grad():
            for weight in self.parameters():
                weight.mul_(0.5)
            super().validation_step(batch, batch_idx)
            for weight in self.parameters():
                weight.mul_(2)


@pytest.mark.parametrize("model", [ReplacesAll, ReplacesEach, ChangesInPlace, SavesOthers, SwapsInStep])
def test_weights_that_were_never_validated_are_not_kept_for_those_that_were(model: type[Net]) -> None:
    with pytest.raises(CannotTrain, match=r"EMAWeightAveraging"):
        trained(trainable(model))


def test_a_model_is_loaded_without_a_trace_in_the_process(tmp_path: Path) -> None:
    _, fit = trained(trainable(LayersInSetup))
    fit.save(tmp_path)
    torch.set_num_threads(2)
    torch.manual_seed(5)
    expected = torch.rand(())
    torch.manual_seed(5)
    trained_model.load_model(
        as_trainable(trainable(LayersInSetup)), SimpleNamespace(), CONFIG, tmp_path, lambda: None
    )
    assert torch.get_num_threads() == 2
    assert torch.rand(()) == expected


def test_averaging_that_no_validation_sees_is_refused() -> None:
    with pytest.raises(CannotTrain, match=r"StochasticWeightAveraging.*EMAWeightAveraging"):
        trained(trainable(Net, StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=1)))


class AddsEpochs(pl.Callback):
    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        trainer.fit_loop.max_epochs += 2  # type: ignore[operator]


def test_no_epoch_is_reported_beyond_those_that_are_asked_for() -> None:
    epochs, _ = trained(trainable(Net, AddsEpochs()))
    assert [epoch.epoch for epoch in epochs] == [1, 2, 3]


class ConfiguresCallbacks(Net):
    def __init__(self, *callbacks: pl.Callback) -> None:
        super().__init__()
        self._callbacks = callbacks

    def configure_callbacks(self) -> Any:
        return list(self._callbacks)


def test_callbacks_of_the_model_that_would_write_are_left_out_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    what = trainable(Net)
    ema = averaging.EMAWeightAveraging(decay=0.5)
    what.build_model = lambda params: ConfiguresCallbacks(ModelCheckpoint(save_last=True), ema)
    epochs, _ = trained(what)
    assert "ModelCheckpoint is left out: checkpoints" in epochs[0].notice
    assert not epochs[1].notice
    assert not list(tmp_path.iterdir())
    what.build_model = lambda params: ConfiguresCallbacks(StochasticWeightAveraging(swa_lrs=0.05))
    with pytest.raises(CannotTrain, match="configure_callbacks: StochasticWeightAveraging"):
        trained(what)


class DividesBySteps(Net):
    """A linear decay to 0, as projects have it that count steps."""

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.5)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 1 - step / self.trainer.max_steps
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def on_train_epoch_end(self) -> None:
        schedule: Any = self.lr_schedulers()
        self.log("lr", schedule.get_last_lr()[0])


@pytest.mark.parametrize("settings", [{}, {"epoch_steps": 2}, {"micro_batch": 8}])
def test_the_steps_of_the_run_are_known_to_the_model(settings: dict[str, int], tmp_path: Path) -> None:
    what = trainable(DividesBySteps)
    if "micro_batch" in settings:
        what.build_data = lambda params: Split(32)
    config = FitConfig(max_epochs=3, metric="val_acc", mode="max", **settings)
    epochs, _ = trained(what, config)
    expected = [0.5 * 2 / 3, 0.5 * 1 / 3, 0.0]
    assert [epoch.metrics["lr"] for epoch in epochs] == pytest.approx(expected, abs=1e-6)


class OfTheOtherPackage:
    """A model of a package that was imported before this program."""


OfTheOtherPackage.__module__ = "pytorch_lightning.core.module"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (OfTheOtherPackage, "is a LightningModule of pytorch_lightning, which this process has imported"),
        (nn.Identity, "the model is 'Identity', and must be a LightningModule"),
    ],
)
def test_what_is_no_model_of_lightning_is_named(kind: Any, expected: str) -> None:
    with pytest.raises(CannotTrain, match=expected):
        trained(trainable(kind))


class TwoOptimizers(Net):
    """Optimizes by itself, and reckons with the steps of both of its optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:  # type: ignore[override]
        for optimizer in self.optimizers():  # type: ignore[union-attr]
            optimizer.zero_grad()
            self.manual_backward(nn.functional.cross_entropy(self(batch[0]), batch[1]))
            optimizer.step()
        self.log("share", self.global_step / self.trainer.max_steps)

    def configure_optimizers(self) -> Any:
        return [
            torch.optim.SGD(self.net[0].parameters(), 0.1),
            torch.optim.SGD(self.net[2].parameters(), 0.1),
        ]


def test_each_optimizer_of_a_model_that_optimizes_by_itself_counts() -> None:
    epochs, _ = trained(trainable(TwoOptimizers))
    assert [epoch.metrics["share"] for epoch in epochs] == pytest.approx([1 / 3, 2 / 3, 1])
    assert "each of its 2 optimizers" in epochs[0].notice


class Split(pl.LightningDataModule):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self) -> Any:
        return DataLoader(rows(0), self.batch_size, shuffle=True)

    def val_dataloader(self) -> Any:
        return DataLoader(rows(1), 64)


class Stream(IterableDataset[Any]):
    """Rows without a length."""

    def __init__(self, has_end: bool = True) -> None:
        self.has_end = has_end

    def __iter__(self) -> Iterator[Any]:
        found = list(rows(0))
        return iter(found) if self.has_end else itertools.cycle(found)


class Streaming(Net):
    has_end = True

    def train_dataloader(self) -> Any:
        return DataLoader(Stream(self.has_end), 32)

    def on_train_batch_end(self, *_: Any) -> None:
        self.log("steps", float(self.global_step))


class StreamingBySteps(Streaming, DividesBySteps):
    on_train_epoch_end = DividesBySteps.on_train_epoch_end


class Endless(Streaming):
    has_end = False


class EndlessValidation(Net):
    def val_dataloader(self) -> Any:
        return DataLoader(Stream(has_end=False), 32)


def test_data_without_a_length_is_trained_on_to_its_end() -> None:
    epochs, _ = trained(trainable(Streaming))
    assert [epoch.metrics["steps"] for epoch in epochs] == [8, 16, 24]


def test_a_schedule_that_counts_the_steps_of_data_without_a_length_is_told() -> None:
    epochs, _ = trained(trainable(StreamingBySteps))
    assert "is told -1" in epochs[0].notice
    assert "--epoch-steps" in epochs[0].notice
    assert not epochs[1].notice
    known = FitConfig(max_epochs=2, metric="val_acc", mode="max", epoch_steps=4)
    epochs, _ = trained(trainable(StreamingBySteps), known)
    assert [epoch.metrics["lr"] for epoch in epochs] == pytest.approx([0.25, 0.0])


def test_data_without_an_end_is_refused_with_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_callback, "MOST_BATCHES", 30)
    with pytest.raises(CannotTrain, match=r"training data has had 30 batches.*--epoch-steps"):
        trained(trainable(Endless))
    with pytest.raises(CannotTrain, match=r"validation data has had 30 batches.*limit_val_batches"):
        trained(trainable(EndlessValidation))
    given = FitConfig(max_epochs=1, metric="val_acc", mode="max", epoch_steps=40)
    epochs, _ = trained(trainable(Endless), given)
    assert epochs[0].metrics["steps"] == 40


class SplitsAnywhere(Net):
    """Draws its rows for validation without a generator, in a hook that is given."""

    hook = ""

    def draw(self, hook: str) -> None:
        if hook == self.hook:
            self.parts = random_split(TensorDataset(torch.arange(200.0)), [150, 50])

    def setup(self, stage: str) -> None:
        self.draw("setup")

    def configure_model(self) -> None:
        self.draw("configure_model")

    def train_dataloader(self) -> Any:
        self.draw("train_dataloader")
        return DataLoader(self.parts[0], 50, shuffle=True)

    def val_dataloader(self) -> Any:
        self.draw("val_dataloader")
        return DataLoader(self.parts[1], 50)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        noise = nn.functional.dropout(torch.ones(4, 8), 0.5)
        loss: torch.Tensor = self.net(noise).square().mean()
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_acc", batch[0].sum())


@pytest.mark.parametrize("hook", ["setup", "configure_model", "train_dataloader"])
def test_a_resumed_run_is_validated_on_the_rows_that_it_began_with(hook: str, tmp_path: Path) -> None:
    model = type("Splits", (SplitsAnywhere,), {"hook": hook})
    epochs, whole = trained(trainable(model))
    _, first = trained(trainable(model), FitConfig(max_epochs=1, metric="val_acc", mode="max"))
    first.save(tmp_path)
    torch.manual_seed(99)
    resumed, rest = trained(trainable(model), CONFIG, tmp_path)
    assert len({epoch.score for epoch in [*epochs, *resumed]}) == 1
    own: Any = whole._model
    other: Any = rest._model
    for name, weight in own.state_dict().items():  # and draws the same numbers in training
        assert torch.equal(other.state_dict()[name], weight)


class Wider(SplitsAnywhere):
    """Draws more numbers for its weights than the other one."""

    def layers(self) -> nn.Module:
        return nn.Sequential(nn.Linear(8, 99), nn.Linear(99, 2))


def test_models_of_other_sizes_have_the_same_split_of_build_data() -> None:
    def split(params: object) -> Any:
        parts = random_split(TensorDataset(torch.arange(200.0)), [150, 50])
        return pl.LightningDataModule.from_datasets(*parts)

    found = set()
    for model in (SplitsAnywhere, Wider):
        what = trainable(model)
        what.build_data = split
        epochs, _ = trained(what)
        found |= {epoch.score for epoch in epochs}
    assert len(found) == 1


class CopiedForWorkers(pl.LightningDataModule):
    """Is pickled, as for a loader's worker that is not forked where `collate_fn` is a method of it."""

    def train_dataloader(self) -> Any:
        copied = pickle.loads(pickle.dumps(self.collate))
        return DataLoader(rows(0), 32, collate_fn=copied)

    def val_dataloader(self) -> Any:
        return DataLoader(rows(1), 64, collate_fn=self.collate)

    def collate(self, each: Any) -> Any:
        return default_collate(each)


def test_a_data_module_can_be_copied_into_the_workers_of_its_loaders() -> None:
    what = trainable(Net)
    what.build_data = lambda params: CopiedForWorkers()
    epochs, _ = trained(what)
    assert len(epochs) == 3


class AsksForSteps(Net):
    """Asks how many steps there will be in a hook that is given, and notes the order of its rows."""

    hook, workers = "", 0

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[int]] = []

    def setup(self, stage: str) -> None:
        self.ask("setup")

    def configure_model(self) -> None:
        self.ask("configure_model")

    def on_fit_start(self) -> None:
        self.ask("on_fit_start")

    def ask(self, hook: str) -> None:
        if hook == self.hook:
            assert self.trainer.max_steps == 24

    def train_dataloader(self) -> Any:
        data = TensorDataset(torch.arange(256), *rows(0).tensors)
        return DataLoader(data, 32, shuffle=True, num_workers=self.workers)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.seen.append(batch[0].tolist())
        noise = nn.functional.dropout(batch[1], 0.5)
        return nn.functional.cross_entropy(self(noise), batch[2])


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("hook", ["", "setup", "configure_model", "on_fit_start"])
def test_a_resumed_run_has_the_order_of_its_rows_wherever_it_asks_for_the_steps(
    hook: str, workers: int, tmp_path: Path
) -> None:
    model = type("Asks", (AsksForSteps,), {"hook": hook, "workers": workers})
    _, whole = trained(trainable(model))
    first = Fit(as_trainable(trainable(model)), SimpleNamespace(), CONFIG)
    run_through(first, lambda epoch: False)
    first.save(tmp_path)
    torch.manual_seed(99)
    _, rest = trained(trainable(model), CONFIG, tmp_path)
    own: Any = whole._model
    other: Any = rest._model
    assert own.seen[8:] == other.seen
    assert own.seen[:8] != own.seen[8:16]
    for name, weight in own.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)


class Reloads(Net):
    """Draws other training rows in each epoch, as one does with `reload_dataloaders_every_n_epochs`."""

    drawn: list[int]

    def train_dataloader(self) -> Any:
        chosen = int(torch.randint(0, 10**6, ()))
        self.drawn = [*getattr(self, "drawn", []), chosen]
        return super().train_dataloader()


def test_a_loader_that_is_made_anew_in_each_epoch_draws_anew() -> None:
    what = trainable(Reloads)
    what.trainer_options = lambda params: {"reload_dataloaders_every_n_epochs": 1}
    _, fit = trained(what)
    model: Any = fit._model
    assert len(set(model.drawn)) == 3


class SeveralLoaders(Net):
    """Is trained on two loaders at once, and validated on two in turn."""

    def train_dataloader(self) -> Any:
        loaders = {"a": DataLoader(rows(0), 32, shuffle=True), "b": DataLoader(rows(2, 64), 32)}
        return CombinedLoader(loaders, "max_size_cycle")

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return super().training_step(batch["a"], 0) + super().training_step(batch["b"], 0)

    def val_dataloader(self) -> Any:
        return [DataLoader(rows(1), 64), DataLoader(rows(3), 64)]

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.log(f"val_acc_{dataloader_idx}", self.accuracy(batch), add_dataloader_idx=False)


class OwnSampler(Net):
    def train_dataloader(self) -> Any:
        return DataLoader(rows(0), 32, sampler=WeightedRandomSampler([1.0] * 256, 128))


class OwnSteps(Net):
    """Overrides the hooks of a step."""

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        optimizer.step(closure=optimizer_closure)
        self.log("own_steps", float(batch_idx + 1))

    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        self.clip_gradients(optimizer, gradient_clip_val=0.1, gradient_clip_algorithm="norm")


@pytest.mark.parametrize(
    ("model", "metric"),
    [(SeveralLoaders, "val_acc_1"), (OwnSampler, "val_acc"), (OwnSteps, "own_steps")],
)
def test_loaders_and_steps_of_a_project_are_taken_as_they_are(model: type[Net], metric: str) -> None:
    epochs, _ = trained(trainable(model), FitConfig(max_epochs=2, metric=metric, mode="max"))
    assert [epoch.epoch for epoch in epochs] == [1, 2]


class EmptyValidation(Net):
    def val_dataloader(self) -> Any:
        return DataLoader(rows(1, 10), 64, drop_last=True)


class NoValidation(Net):
    val_dataloader = pl.LightningModule.val_dataloader


class EmptyTraining(Net):
    def train_dataloader(self) -> Any:
        return DataLoader(rows(0, 10), 64, drop_last=True)


class EmptyStream(Net):
    def train_dataloader(self) -> Any:
        return DataLoader(NoRows(), 32)


class NoRows(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(())


class EndsEarly(Net):
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:  # type: ignore[override]
        return -1 if batch_idx == 1 else None


class ShorterThanItSays(Net):
    def train_dataloader(self) -> Any:
        return DataLoader(Short(), 32)


class Short(Stream):
    def __len__(self) -> int:
        return 1000


def test_training_data_without_a_batch_is_refused() -> None:
    with pytest.raises(CannotTrain, match="the training data has no batch"):
        trained(trainable(EmptyTraining))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (EmptyValidation, "the validation data has no batch"),
        (NoValidation, "there is no data for validation"),
        (EmptyStream, "the training data has no batch"),
        (EndsEarly, "the epoch ended after 1 of 8 batches .* Give --val-check-interval 1"),
        (ShorterThanItSays, "the epoch ended after 8 of 32 batches .* Give --val-check-interval 8"),
    ],
)
def test_a_metric_that_no_validation_could_log_is_answered_with_the_reason(
    model: type[Net], why: str
) -> None:
    with pytest.raises(MetricNotLogged, match=f"'val_acc' was not logged; {why}"):
        trained(trainable(model))

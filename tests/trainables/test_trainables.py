"""The contract of every search space and every trainable; a new file is tested without a line here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.settings import field_docs
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import registry
from sweeps.kinds.trainable import LightningTrainable
from sweeps.plan.build import make_plan
from sweeps.space.composite import OneSpace
from sweeps.training.checkpoints import trained_model
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from tests.support.prepared import prepare_small
from tests.support.trainables import run_through
from trainables import fashion_cnn, fashion_vit
from trainables._shared import fashion_mnist

TRAINABLES = registry.choices()
SPACES = plugins.choices("search_space")
SMALL = {"rows": 200, "frames_per_s": 3.0, "detector": "blazeface"}
"""Hyperparameters that make a data set small, for those that have them."""


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def trainable_of(space: str) -> str:
    """The trainable with the name of a space, or the longest that begins it."""
    return max((name for name in TRAINABLES if space == name or space.startswith(f"{name}_")), key=len)


def searcher_of(space: str) -> str:
    """The default searcher, or, for a grid, the one that takes grids."""
    domains = (plugins.search_space(space).ranges or {}).values()
    return "grid" if any(isinstance(domain, dict) for domain in domains) else SweepConfig().searcher


def checked(space: str) -> OneSpace:
    """A space, checked as the plan checks it."""
    name, searcher = trainable_of(space), searcher_of(space)
    small_params(registry.find(name))  # a plan needs the data
    config = SweepConfig.from_settings(
        trainable=name, search_space=space, searcher=searcher, gpus_per_trial=0
    )
    return make_plan(config.changed(results_dir="/tmp", min_free_gb=0.0)).models[0].space


def points(space: OneSpace) -> list[dict[str, Any]]:
    """The whole of a small space, and a sample of any other."""
    few = space.grid() if space.size() <= 50 else (space.draw((1, number)) for number in range(50))
    return [dict(point.params) for point in few]


def small_params(trainable: LightningTrainable) -> Any:
    """The defaults, with little data; skips where the data is not here."""
    hyperparameters = {field.name for field in dataclasses.fields(trainable.params_class)}
    params = trainable.params_class(
        **{
            hyperparameter: value
            for hyperparameter, value in SMALL.items()
            if hyperparameter in hyperparameters
        }
    )
    try:
        trainable.describe_data(params)
    except UserError as error:
        pytest.skip(str(error))
    return params


def fit_config(trainable: LightningTrainable, max_epochs: int = 1) -> FitConfig:
    own = trainable.objective
    assert own is not None
    return FitConfig(max_epochs=max_epochs, metric=own.metric, mode=own.mode, precision="32")


@pytest.mark.parametrize("name", SPACES)
def test_a_space_fits_the_trainable_of_its_name(name: str) -> None:
    space = checked(name)
    assert set(space.describe()) | set(space.fixed) == {
        field.name for field in dataclasses.fields(space.params_class)
    }


@pytest.mark.parametrize("name", SPACES)
def test_every_point_of_a_space_is_params_that_a_model_is_built_from(name: str) -> None:
    space, trainable = checked(name), registry.find(trainable_of(name))
    built = [trainable.params_class(**point) for point in points(space)]
    assert len(set(map(repr, built))) == len(built)
    for params in built[:3]:
        assert isinstance(trainable.build_model(params), pl.LightningModule)


@pytest.mark.parametrize("name", SPACES)
def test_the_default_params_lie_inside_or_beside_the_space_and_not_out_of_its_types(name: str) -> None:
    space = checked(name)
    defaults = space.params_class()
    for hyperparameter, value in points(space)[0].items():
        assert type(getattr(defaults, hyperparameter)) is type(value)


@pytest.mark.parametrize("name", [name for name in SPACES if name in TRAINABLES])
def test_a_default_space_is_taken_by_the_default_searcher(name: str) -> None:
    assert searcher_of(name) == SweepConfig().searcher


@pytest.mark.parametrize("name", TRAINABLES)
def test_every_hyperparameter_has_a_default_and_a_docstring(name: str) -> None:
    params_class = registry.find(name).params_class
    assert dataclasses.is_dataclass(params_class())
    assert [hyperparameter for hyperparameter, doc in field_docs(params_class).items() if not doc] == []
    assert list(field_docs(params_class)) == [field.name for field in dataclasses.fields(params_class)]


@pytest.mark.parametrize("name", TRAINABLES)
def test_params_are_frozen_and_given_by_keyword(name: str) -> None:
    params_class = registry.find(name).params_class
    hyperparameter = dataclasses.fields(params_class)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError, match=hyperparameter):
        setattr(params_class(), hyperparameter, 1)
    with pytest.raises(TypeError, match="positional"):
        params_class(1)


@pytest.mark.parametrize("name", TRAINABLES)
def test_a_trainable_is_judged_by_a_metric_that_is_good_when_small_or_large(name: str) -> None:
    own = registry.find(name).objective
    assert own is not None
    assert own.metric
    assert own.mode in ("min", "max")


@pytest.mark.parametrize("name", TRAINABLES)
def test_a_trainable_describes_its_data_in_one_line(name: str) -> None:
    trainable = registry.find(name)
    line = trainable.describe_data(small_params(trainable))
    assert line.strip() == line != ""
    assert "\n" not in line


@pytest.mark.parametrize("name", TRAINABLES)
def test_a_trainable_trains_an_epoch_logs_its_metric_and_is_tested(name: str, tmp_path: Path) -> None:
    trainable = registry.find(name)
    params = small_params(trainable)
    prepared = (
        prepare_small(trainable.preparation, params, tmp_path / "rows")
        if trainable.preparation is not None
        else None
    )
    training = Fit(trainable, params, fit_config(trainable), prepared=prepared)
    epochs: list[Report] = []

    def on_epoch(epoch: Report) -> bool:
        epochs.append(epoch)
        training.save(tmp_path)
        return True

    run_through(training, on_epoch)
    assert [epoch.epoch for epoch in epochs] == [1]
    assert training.config.metric in epochs[0].metrics
    scores = trained_model.score_test_rows(
        trainable, params, fit_config(trainable), tmp_path, prepared=prepared
    )
    assert list(scores) == ["test_acc"]
    assert 0 <= scores["test_acc"] <= 1


@pytest.mark.parametrize("name", TRAINABLES)
def test_a_trainable_learns(name: str) -> None:
    trainable = registry.find(name)
    if trainable.preparation is not None:
        pytest.skip("takes more rows than a quick test prepares: see its own tests")
    scores: list[float] = []

    def on_epoch(epoch: Report) -> bool:
        scores.append(epoch.score)
        return True

    run_through(Fit(trainable, small_params(trainable), fit_config(trainable, max_epochs=8)), on_epoch)
    is_max = trainable.objective is not None and trainable.objective.mode == "max"
    first, best = scores[0], max(scores) if is_max else min(scores)
    assert (best > first + 0.1) if is_max else (best < first)


def test_a_file_of_fashion_mnist_that_was_cut_off_is_named_before_anything_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = fashion_mnist.find()
    for name in fashion_mnist.SIZES:
        (tmp_path / name).symlink_to(there / name)
    monkeypatch.setenv(fashion_mnist.VARIABLE, str(tmp_path))
    assert fashion_mnist.find() == tmp_path
    for name in fashion_mnist.SIZES:
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        for cut in (content[: len(content) // 2], b""):
            (tmp_path / name).write_bytes(cut)
            with pytest.raises(FileNotFoundError, match=f"{tmp_path / name} is cut off; remove it. One of:"):
                fashion_mnist.find()
        (tmp_path / name).write_bytes(content)


@pytest.mark.parametrize(
    ("rows", "train_rows", "val_rows"),
    [(200, 200, 66), (1, 1, 1), (6_000, 6_000, 2_000), (50_000, 50_000, 10_000), (0, 50_000, 10_000)],
)
def test_fashion_mnist_validates_on_a_third_as_many_rows(rows: int, train_rows: int, val_rows: int) -> None:
    assert (fashion_mnist.train_rows(rows), fashion_mnist.val_rows(rows)) == (train_rows, val_rows)


@pytest.mark.parametrize(
    ("hyperparameter", "value"),
    [
        *(("rows", -1), ("rows", 50_001), ("dropout", 1.0), ("dropout", -0.1), ("lr", 0.0), ("width", 0)),
        *(("convolutions", 0), ("convolutions", 4), ("width_2", -1), ("width_3", 8)),
    ],
)
def test_fashion_cnn_refuses_a_value_out_of_range(hyperparameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{hyperparameter} {value}: "):
        fashion_cnn.Params(**{hyperparameter: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hyperparameters", "widths"),
    [
        ({}, [8, 16]),
        ({"width": 4}, [4, 8]),
        ({"convolutions": 1}, [8]),
        ({"convolutions": 3}, [8, 16, 32]),
        ({"convolutions": 3, "width_2": 6}, [8, 6, 12]),
        ({"convolutions": 3, "width_2": 6, "width_3": 6}, [8, 6, 6]),
    ],
)
def test_fashion_cnn_has_as_many_convolutions_as_asked_each_as_wide_as_asked(
    hyperparameters: dict[str, int], widths: list[int]
) -> None:
    params = fashion_cnn.Params(**hyperparameters)  # type: ignore[arg-type]
    model = fashion_cnn.build_model(params)
    assert [layer.out_channels for layer in model.net if isinstance(layer, torch.nn.Conv2d)] == widths
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_fashion_cnn_by_default_is_the_network_of_the_main_job() -> None:
    """Layer by layer and number by number: its seeds draw the same weights."""
    torch.manual_seed(0)
    model = fashion_cnn.build_model(fashion_cnn.Params())
    torch.manual_seed(0)
    layers = [
        *(torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Flatten(), torch.nn.Dropout(0.1)),
        *(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)),
    ]
    expected = torch.nn.Sequential(*layers)
    assert str(model.net) == str(expected)
    for name, weights in expected.state_dict().items():
        assert torch.equal(model.net.state_dict()[name], weights)


def test_its_convolutions_compute_channels_last_and_leave_their_weights_as_they_are() -> None:
    """Others FSDP and ZeRO can't shard."""
    model = fashion_cnn.build_model(fashion_cnn.Params())
    images = torch.rand(3, 1, 28, 28)
    for layer in model.net[:5]:
        if isinstance(layer, torch.nn.Conv2d):
            plain = torch.nn.functional.conv2d(images, layer.weight, layer.bias, padding=1)
            assert torch.allclose(layer(images), plain, atol=1e-6)
        images = layer(images)
        assert images.is_contiguous(memory_format=torch.channels_last)
    images.sum().backward()
    for weight in model.parameters():
        assert weight.is_contiguous()
        assert weight.grad is None or weight.grad.is_contiguous()


@pytest.mark.parametrize(
    ("hyperparameter", "value", "wanted"),
    [
        ("rows", 50_001, r"from 0 \(= all\) to 50,000"),
        ("patch", 5, "must divide the image's 28 pixels"),
        ("heads", 3, "must divide width 32"),
        ("weight_decay", -0.1, "must be at least 0"),
        ("warmup_steps", -1, "must be at least 0"),
        *[
            (hyperparameter, 0, "must be above 0")
            for hyperparameter in ("lr", "width", "depth", "heads", "patch", "batch_size")
        ],
        ("dropout", 1.0, "from 0 to below 1"),
    ],
)
def test_fashion_vit_refuses_a_value_out_of_range(hyperparameter: str, value: float, wanted: str) -> None:
    with pytest.raises(ValueError, match=f"{hyperparameter} {value}: {wanted}"):
        fashion_vit.Params(**{hyperparameter: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("patch", "tokens"), [(4, 49), (7, 16), (14, 4)])
def test_fashion_vit_sees_every_pixel_and_where_it_is(patch: int, tokens: int) -> None:
    model = fashion_vit.build_model(fashion_vit.Params(patch=patch, dropout=0.0)).eval()
    image = torch.rand(1, 1, 28, 28, requires_grad=True)
    assert model.net[0](image).shape == (1, tokens, 32)
    logits = model(image)
    assert logits.shape == (1, 10)
    logits.square().sum().backward()  # type: ignore[no-untyped-call]
    assert image.grad is not None
    assert (image.grad != 0).all()
    moved = torch.roll(image.detach(), patch, dims=-1)  # the same patches in another order
    assert not torch.allclose(model(image), model(moved), atol=1e-5)


def test_fashion_vit_attends_alike_by_each_kernel_and_names_those_that_are_not_here() -> None:
    images, logits = torch.rand(3, 1, 28, 28), []
    for attention in ("auto", "math", "flash"):
        torch.manual_seed(0)
        model = fashion_vit.build_model(fashion_vit.Params(attention=attention))  # type: ignore[arg-type]
        logits.append(model(images))
    assert all(torch.allclose(other, logits[0], atol=1e-5) for other in logits)
    if not torch.cuda.is_available():
        with pytest.raises(CannotTrain, match=r"attention cudnn: of GPUs, .* a CPU has auto, math, flash"):
            fashion_vit.build_model(fashion_vit.Params(attention="cudnn"))


def test_fashion_vit_warms_up_step_by_step_and_then_keeps_its_rate() -> None:
    model = fashion_vit.build_model(fashion_vit.Params(lr=0.4, warmup_steps=4))
    configured = model.configure_optimizers()
    optimizer, schedule = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_fashion_vit_goes_on_from_a_checkpoint_in_its_warm_up_to_the_bit(tmp_path: Path) -> None:
    trainable = registry.find("fashion_vit")
    params = dataclasses.replace(small_params(trainable), warmup_steps=10, dropout=0.1)
    config = fit_config(trainable, max_epochs=4)
    whole: list[float] = []
    halves: list[float] = []
    run_through(Fit(trainable, params, config), lambda epoch: not whole.append(epoch.metrics["val_loss"]))
    first = Fit(trainable, params, config)

    def until_the_second(epoch: Report) -> bool:
        halves.append(epoch.metrics["val_loss"])
        if epoch.epoch == 2:
            first.save(tmp_path)
        return epoch.epoch < 2

    run_through(first, until_the_second)
    second = Fit(trainable, params, config, tmp_path)
    run_through(second, lambda epoch: not halves.append(epoch.metrics["val_loss"]))
    assert halves == whole


def test_the_rows_to_train_validate_and_test_on_are_not_the_same() -> None:
    try:
        fashion_mnist.find()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    seen = {part: fashion_mnist.rows(part, 300)[0] for part in ("train", "val", "test")}
    for part, images in seen.items():
        assert images.shape == (300, 1, 28, 28), part
        assert (images.dtype, int(images.min()), int(images.max())) == (torch.uint8, 0, 255)
    assert not torch.equal(seen["train"], seen["val"])
    labels = fashion_mnist.rows("train", 300)[1]
    assert set(labels.tolist()) == set(range(10))


def test_a_data_folder_without_the_files_is_named_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fashion_mnist.VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path} .*lacks train-images-idx3-ubyte\.gz"):
        fashion_mnist.find()

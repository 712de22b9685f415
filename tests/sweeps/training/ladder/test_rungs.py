"""The rungs: each adds one thing to the one before."""

from __future__ import annotations

import pytest

from sweeps.training.ladder import rungs
from sweeps.training.ladder.rungs import RUNGS, Capabilities, Setup

pytest.importorskip("deepspeed", reason="deepspeed is not installed")

CPU = Capabilities(
    gpus=0, cores=4, batch_rows=64, has_raw=True, has_prepared=True, has_loader_hyperparameter=True
)
PLAIN = Capabilities(
    gpus=0, cores=1, batch_rows=64, has_raw=False, has_prepared=False, has_loader_hyperparameter=False
)


def set_up(name: str, has: Capabilities) -> Setup | str:
    return RUNGS[name](rungs.start(has), has)


def test_each_rung_adds_one_thing_to_the_one_before() -> None:
    setup = rungs.start(CPU)
    said = []
    for name, change in list(RUNGS.items())[:-1]:
        changed = change(setup, CPU)
        assert isinstance(changed, Setup), name
        said.append(rungs.changes(setup, changed))
        setup = changed
    assert said == [
        "raw data",
        "loader workers 4",
        "prepared rows",
        "batch rows 256",
        "precision bf16-mixed",
        "strategy ddp, devices 4, threads 1",
        "strategy deepspeed_stage_2",
        "torch.compile",
    ]
    assert RUNGS[rungs.AGAIN](setup, CPU) == rungs.start(CPU)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "more loader workers",
            "the trainable defines neither build_raw_data nor the hyperparameter loader_workers",
        ),
        ("prepared Parquet", "the trainable defines no prepare"),
        ("DDP on all devices", "this PC has one core"),
        ("ZeRO 2 on all devices", "this PC has one core"),
    ],
)
def test_a_rung_that_can_not_be_here_says_why(name: str, reason: str) -> None:
    assert set_up(name, PLAIN) == reason


def test_on_a_gpu_the_lower_precision_is_fp16() -> None:
    has = Capabilities(
        gpus=2, cores=8, batch_rows=64, has_raw=False, has_prepared=False, has_loader_hyperparameter=False
    )
    found = set_up("lower precision", has)
    assert isinstance(found, Setup)
    assert found.fit.precision == "16-mixed"
    shared = set_up("ZeRO 2 on all devices", has)
    assert isinstance(shared, Setup)
    assert (shared.fit.devices, shared.fit.threads) == (2, 4)

"""Speeds that nobody measured."""

from __future__ import annotations

from sweeps.training.ladder.rungs import Speed


def fake(
    samples_s: float,
    data_wait_pct: float = 5.0,
    gpu_util_pct: float | None = None,
    cores_busy_pct: float = 90.0,
) -> Speed:
    return Speed(
        samples_s=samples_s,
        epoch_rows=1000,
        batch_rows=64,
        data_wait_pct=data_wait_pct,
        gpu_util_pct=gpu_util_pct,
        cores_busy_pct=cores_busy_pct,
    )

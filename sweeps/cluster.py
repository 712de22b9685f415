"""Start Ray on this PC or join a cluster; what it offers and what a trial takes of it.

Ray is imported in the functions: `ENVIRONMENT` must be set before.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweeps.config import DATA_DIR_VARIABLE, SweepConfig, UserError
from sweeps.words import count

ENVIRONMENT = {
    # Without it Tune ignores a progress reporter, hence ours (ray#38202).
    "RAY_AIR_NEW_OUTPUT": "0",
    # The record replaces Tune's JSON, CSV and TensorBoard loggers; the last one imports torch.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # Ctrl-C is ours (engine.py): Tune's handler prints advice that does not hold here.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # A failed trial is a row with its log, not a traceback on the screen.
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    # Tune's own snapshots are not used: the record is the truth. Write them as rarely as it lets us.
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_WARN_SLOW_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "3600",
    # Relative paths of a trainable mean the folder where the command was typed.
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}


@dataclass(frozen=True)
class Cluster:
    """A connected Ray cluster."""

    num_pcs: int
    num_cpus: int
    num_gpus: int
    dashboard_url: str | None

    @property
    def size(self) -> str:
        """PCs, CPUs and GPUs in words."""
        parts = ((self.num_pcs, "PC"), (self.num_cpus, "CPU"), (self.num_gpus, "GPU"))
        return ", ".join(count(number, thing) for number, thing in parts)

    def describe(self) -> str:
        """What was joined or started, and where to look at it."""
        lines = [f"ray        {self.size}"]
        if self.dashboard_url:
            hint = " (asks for the token in ~/.ray/auth_token)" if _has_token() else ""
            lines.append(f"dashboard  http://{self.dashboard_url}{hint}")
        return "\n".join(lines) + "\n"


def prepare_environment() -> None:
    """Set what Ray reads when it is imported; a value that the user set stays."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def connect(config: SweepConfig) -> Iterator[Cluster]:
    """A local Ray, or the cluster at `config.address`; disconnected (or ended) afterwards.

    Raises:
        UserError: no cluster answers at the address.
    """
    import ray

    if config.address:
        _refuse_silent(config.address)
    passed_on = {name: os.environ[name] for name in ENVIRONMENT}
    if data_dir := os.environ.get(DATA_DIR_VARIABLE):
        passed_on[DATA_DIR_VARIABLE] = data_dir
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        context = ray.init(
            # Always one: without it Ray joins whatever cluster was last started on this PC.
            address=config.address or "local",
            # A local Ray's workers inherit this environment: no runtime_env, no slow start.
            runtime_env={"env_vars": passed_on} if config.address else None,
            include_dashboard=config.dashboard if config.address is None else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        if config.address is None:
            raise
        first_line = str(error).strip().splitlines()[0]
        raise UserError(f"--address {config.address}: no Ray cluster answers there ({first_line})") from None
    try:
        offered = ray.cluster_resources()
        yield Cluster(
            num_pcs=len([node for node in ray.nodes() if node["Alive"]]),
            num_cpus=int(offered.get("CPU", 0)),
            num_gpus=int(offered.get("GPU", 0)),
            dashboard_url=context.dashboard_url or None,
        )
    finally:
        ray.shutdown()


def _refuse_silent(address: str) -> None:
    """Ray tries for minutes to reach a host that does not answer: ask the port first."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise UserError(f"--address {address}: no Ray cluster answers there ({error})") from None


def _has_token() -> bool:
    """Ray 2.60 asks for a token as soon as a local cluster was ever started on this PC."""
    return os.environ.get("RAY_AUTH_MODE") == "token" and Path("~/.ray/auth_token").expanduser().is_file()


def local_gpus() -> int:
    """GPUs of this PC, without taking memory on any."""
    import torch

    return torch.cuda.device_count()


def local_cpus() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def slots(config: SweepConfig, num_cpus: int, num_gpus: int) -> int:
    """Trials that run at a time on so many CPUs and GPUs.

    Raises:
        UserError: not even one fits.
    """
    gpus = gpus_per_trial(config, num_gpus)
    fitting = num_cpus // config.cpus_per_trial
    if gpus:
        fitting = min(fitting, int(num_gpus / gpus + 1e-9))
    if fitting < 1:
        raise UserError(
            f"a trial takes {count(config.cpus_per_trial, 'CPU')} and {count(gpus, 'GPU')} "
            f"(--cpus-per-trial, --gpus-per-trial); here are {num_cpus} and {num_gpus}"
        )
    return min(fitting, config.max_concurrent or fitting)


def gpus_per_trial(config: SweepConfig, num_gpus: int) -> float:
    """What was asked for, else one GPU where there are any."""
    return float(num_gpus > 0) if config.gpus_per_trial is None else config.gpus_per_trial

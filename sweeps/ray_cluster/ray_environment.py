"""Environment variables that Ray reads when it is imported. Ray itself is not imported here.

Those of Tune are documented at https://docs.ray.io/en/latest/tune/api/env.html. For the others, a comment
names the page, or the thread or the source where there is none.
"""

from __future__ import annotations

import os

from sweeps.ray_start import ray_auth, ray_connection

ENVIRONMENT = {
    # Without it Tune ignores a progress reporter, hence ours (ray#38202).
    "RAY_AIR_NEW_OUTPUT": "0",
    # The record replaces Tune's JSON, CSV and TensorBoard loggers; the last one imports torch.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    # execution/driver/tuner.py handles Ctrl-C: Tune's handler prints advice that does not hold here.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # Tune's own snapshots are not used: the record is the truth. Write them as rarely as Tune lets us.
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    # Relative paths of a trainable mean the folder where the command was typed (on the PCs of a cluster
    # an empty one, see `runtime_env`).
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # https://docs.ray.io/en/latest/cluster/usage-stats.html
    "RAY_USAGE_STATS_ENABLED": "0",
    # Tune gives its processes an environment of their own, so that none of those is taken that Ray would
    # start for each core before (src/ray/common/ray_config_def.h).
    "RAY_prestart_worker_first_driver": "0",
    # A trial that takes no GPU must see none. Since 2.60 Ray hides them only on request (ray#54868,
    # ray#62492).
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    # Ray's paragraphs about a process that was lost: the sweep says in a line which one, where and why.
    # https://docs.ray.io/en/latest/ray-observability/user-guides/configure-logging.html
    "RAY_DEDUP_LOGS_SKIP_REGEX": "(A worker died or was killed|Raylet is terminated)",
}
OF_JOB_CLIENT = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")
"""Ray's job client prefers these to the address that it is called with."""


def prepare_environment() -> None:
    """For a process that runs a sweep; a value that the user set stays."""
    ray_connection.set_environment(ENVIRONMENT)


def prepare_to_look() -> None:
    """For a process that joins a cluster to look at it."""
    ray_connection.set_environment({"RAY_USAGE_STATS_ENABLED": "0"})
    if ray_auth.place() is not None:  # Ray 2.60 sends it by itself to `auto` alone
        ray_connection.set_environment({ray_auth.MODE: "token"})


def prepare_to_submit(address: str) -> None:
    """For a process that submits a job to a cluster.

    Raises:
        UserError: no cluster answers, or it does not accept the token.
    """
    for name in OF_JOB_CLIENT:
        os.environ.pop(name, None)
    if "://" not in address:
        ray_connection.refuse_silent(address)
        ray_auth.settle(address)
    elif ray_auth.place() is not None:
        ray_connection.set_environment({ray_auth.MODE: "token"})

"""Environment variables that Ray reads when it is imported."""

from __future__ import annotations

from sweeps.common import ray_connection

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
    # Relative paths of a trainable mean the folder where the command was typed (on the PCs of a cluster
    # an empty one, see `runtime_env`).
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Which raw file can't be prepared is said by us; Ray Data is imported with Tune.
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_DEDUP_LOGS": "0",
}


def prepare_environment() -> None:
    """Set what Ray reads when it is imported; a value that the user set stays."""
    ray_connection.set_environment(ENVIRONMENT)

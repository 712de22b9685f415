"""The sweep's folder: `results/NAME/`, which is all there is of a sweep."""

from __future__ import annotations

from sweeps import environment
from sweeps.cluster import Cluster
from sweeps.config import UserError, to_yaml
from sweeps.plan import Plan
from sweeps.record import Record

CONFIG_FILE = "sweep.yaml"


def create(plan: Plan, offered: Cluster) -> Record:
    """A new folder with sweep.yaml, environment.txt and an empty record.

    Raises:
        UserError: the folder can't be written.
    """
    try:
        plan.folder.mkdir(parents=True)
        (plan.folder / CONFIG_FILE).write_text(to_yaml(plan.config))
        (plan.folder / "environment.txt").write_text(environment.describe(offered))
    except OSError as error:
        raise UserError(f"--results-dir {plan.config.results_dir}: {error}") from None
    config = plan.config
    about = {
        "sweep": config.name,
        "trainable": config.trainable,
        "metric": config.metric,
        "seed": config.seed,
        "max_epochs": config.max_epochs,
        "fixed": dict(plan.space.fixed),
    }
    return Record.create(plan.folder, str(config.name), str(config.mode), about)

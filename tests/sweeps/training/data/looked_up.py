"""The data set of a project of clips."""

from __future__ import annotations

from typing import Any

from sweeps.kinds import registry
from sweeps.training.data import dataset
from sweeps.training.data.dataset import DataSet
from tests.support.clips import Clips


def look(clips: Clips, **params: Any) -> DataSet:
    return dataset.find_data_set(registry.find(clips.model), params)

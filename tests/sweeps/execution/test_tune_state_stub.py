"""What Tune is given to write to: it finds the names again that it looks for, wherever it looks."""

from __future__ import annotations

import pickle

from pyarrow.fs import FileSelector, FileType
from ray.tune import Checkpoint

from sweeps.execution.driver import tune_state_stub


def test_what_is_written_is_not_there_and_a_copy_has_the_marker_that_tune_looks_for() -> None:
    system = tune_state_stub.file_system()
    system.create_dir("/sweep")
    for name in (tune_state_stub.MARKER, "error.pkl"):
        with system.open_output_stream(f"/sweep/{name}") as file:
            file.write(b"content")
    for each in (system, pickle.loads(pickle.dumps(system))):
        marker, other = each.get_file_info([f"/sweep/{tune_state_stub.MARKER}", "/sweep/error.pkl"])
        assert (marker.type, marker.size) == (FileType.File, 0)
        assert other.type == FileType.NotFound
    assert not system.get_file_info(FileSelector("/sweep"))


def test_a_checkpoint_is_an_empty_folder_for_another_process() -> None:
    """Tune fetches it before a trial goes on: one that was not found would fail the trial."""
    there = Checkpoint(path="/sweep/trial_0003/checkpoint_000001", filesystem=tune_state_stub.file_system())
    with pickle.loads(pickle.dumps(there)).as_directory() as folder:
        assert folder

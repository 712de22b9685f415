"""What Tune is given to write to: it finds the names again that it looks for, wherever it looks."""

from __future__ import annotations

import pickle

from pyarrow.fs import FileSelector, FileType
from ray.tune import Checkpoint

from sweeps.execution.driver import tune_state_stub


def test_a_copy_has_nothing_but_the_marker_that_tune_looks_for() -> None:
    system = tune_state_stub.file_system()
    system.create_dir("/sweep")
    for name in (tune_state_stub.MARKER, "error.pkl"):
        with system.open_output_stream(f"/sweep/{name}") as file:
            file.write(b"content")
    assert {info.size for info in system.get_file_info(FileSelector("/sweep"))} == {0}
    copy = pickle.loads(pickle.dumps(system))
    marker, other = copy.get_file_info([f"/sweep/{tune_state_stub.MARKER}", "/sweep/error.pkl"])
    assert (marker.type, marker.size, other.type) == (FileType.File, 0, FileType.NotFound)


def test_a_checkpoint_is_an_empty_folder_for_another_process() -> None:
    """Tune fetches it before a trial goes on: one that was not found would fail the trial."""
    there = Checkpoint(path="/sweep/trial_0003/checkpoint_000001", filesystem=tune_state_stub.file_system())
    with pickle.loads(pickle.dumps(there)).as_directory() as folder:
        assert folder

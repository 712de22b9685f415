"""A pickle runs code when it is read: where that is done is listed here, and nothing else does it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, modules, write_tree

UNPICKLERS = {
    *(
        f"{module}.{name}"
        for module in ("pickle", "cloudpickle", "dill")
        for name in ("load", "loads", "Unpickler")
    ),
    *("joblib.load", "pandas.read_pickle", "pd.read_pickle", "torch.jit.load"),
}
ALLOWED = {
    # Tune's own file of a failed trial, by the path that Tune gave; in the folder of the running sweep.
    "sweeps.ray_cluster.ray_internals: cloudpickle.loads(Path(file).read_bytes())",
    # The checkpoint of a sweep, written by `save`, in the folder that the user named or that we just made.
    "sweeps.training.runs.fit_loop: "
    "self._trainer.fit(self._model, self._data, ckpt_path=resume, **WHOLE_CHECKPOINT)",
    # The files of a trained model beside it, of the same folder: what the model's own hooks put there.
    "sweeps.training.checkpoints.weights: "
    "torch.load(folder / WEIGHTS_FILE, weights_only=False, map_location='cpu')",
    "sweeps.training.checkpoints.weights: "
    "torch.load(folder / HOOKS_FILE, weights_only=False, map_location='cpu')",
    # What this process has written into a folder of its own for its child, and the child for this process.
    "sweeps.training.distributed.launch: pickle.loads((folder / _CALL_FILE).read_bytes())",
    "sweeps.training.distributed.launch: pickle.loads((folder / _RESULT_FILE).read_bytes())",
    # What Python code hands to a sweep: from that code's process, from the folder of the sweep that the user
    # named, and from the process of the sweep to those of its trials.
    "sweeps.python_api.sweep_process: pickle.load(sys.stdin.buffer)",
    "sweeps.kinds.pickled: pickle.loads((folder / FILE).read_bytes())",
    "sweeps.kinds.pickled: pickle.loads(base64.b64decode(description.content))",
    "sweeps.kinds.pickled: pickle.loads(self.content)",
    # What was written into memory in the line before, and a checkpoint that was made of those two files.
    "sweeps.training.checkpoints.weights: torch.load(content, weights_only=False, map_location='cpu')",
    "sweeps.training.checkpoints.trained_model: "
    "tester.test(model, data, file, verbose=False, **WHOLE_CHECKPOINT)",
    "sweeps.training.checkpoints.trained_model: loader.fit(model, data, ckpt_path=file, **WHOLE_CHECKPOINT)",
    # It reads nothing: whether Lightning has that option. Each use of it is above.
    "sweeps.training.lightning_internals: _if_known(pl.Trainer.fit, weights_only=False)",
}


def unpickled(root: Path) -> set[str]:
    """`module: call` for each call that reads a pickle."""
    return {
        f"{module}: {ast.unparse(node)}"
        for module, tree in modules(root).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _unpickles(node)
    }


def _unpickles(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    said = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg}
    if any(word.arg is None and "WHOLE_CHECKPOINT" in ast.unparse(word.value) for word in call.keywords):
        return True
    if said.get("weights_only", "True") != "True" or said.get("allow_pickle", "False") != "False":
        return True
    if name == "torch.load":
        return "weights_only" not in said
    return name in UNPICKLERS or name.removeprefix("ray.") in UNPICKLERS


def test_no_other_call_reads_a_pickle() -> None:
    assert unpickled(ROOT) == ALLOWED


@pytest.mark.parametrize(
    "call",
    [
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=trusted)",
        "np.load(path, allow_pickle=True)",
        "pickle.load(file)",
        "ray.cloudpickle.loads(text)",
        "Model.load_from_checkpoint(path, weights_only=False)",
        "trainer.fit(model, **WHOLE_CHECKPOINT)",
    ],
)
def test_a_call_that_reads_one_is_found(call: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {"sweeps/late.py": f"def late():\n    return {call}"})
    assert unpickled(tmp_path) == {f"sweeps.late: {call}"}


def test_weights_alone_are_no_pickle(tmp_path: Path) -> None:
    write_tree(tmp_path, {"sweeps/late.py": "torch.load(path, weights_only=True)\nnp.load(path)"})
    assert unpickled(tmp_path) == set()

"""What to train: one file per model.

The contract of a file (copy `fashion_cnn.py` to begin):

    METRIC, MODE = "val_acc", "max"           # trials are compared by it; the model logs it

    @dataclass(frozen=True, kw_only=True)
    class Params:                             # every hyperparameter of model and data, with default and unit
        lr: float = 0.01

    def build_model(params: Params) -> LightningModule: ...
    def build_data(params: Params) -> LightningDataModule: ...

Optional:

    def describe_data(params: Params) -> str: ...    # a line for the plan; raises OSError if data is missing

A model with a `test_step` is tested once: the winner of a sweep. Load a data set in a cached function:
consecutive trials of a process then share it. A trainable imports torch, lightning and `sweeps.training`,
and nothing else of this program. A module whose name begins with `_` is no trainable.

Under FSDP the weights that `configure_optimizers` sees are flat, so `weight.dim() > 1` no longer tells biases
and norms from other weights. Decide in `__init__` and note it on the weight, as `_shared/vit.py` does.

`self.log` in each step costs about a millisecond per step. For short steps, sum on the device and log once
an epoch, as `_shared/classifier.py` does.

Data that needs work before training is prepared once, by `python -m sweeps.prepare NAME` or by the first
training. Such a file defines all of

    PREPARE_PARAMS = ("pixels",)              # hyperparameters that prepared rows depend on; () for none
    def raw_items(params: Params) -> Mapping[str, Sequence[Path]]: ...  # split to its raw files
    def prepare(item: Path, params: Params) -> Iterator[Rows]: ...      # a raw file to blocks of rows

and its `build_data(params, prepared: Path)` also gets the folder of the prepared data, which
`sweeps.training.ParquetDataModule` reads. A split is "train", "val" or "test". `raw_items` raises
FileNotFoundError with the ways to get the files. `prepare` yields blocks, column to array [rows, ...], with
the same columns for every file, and raises if the file is corrupt. Both can read the hyperparameters of
PREPARE_PARAMS alone; reading another one ends the preparation with an error.

Prepared data is used again while the raw files, these hyperparameters and the code of `prepare` are the same.
That code is the module of `prepare` and what it imports of the project, so give it a module of its own:
`from trainables._clips import prepare, raw_items`.

`sweeps.ladder` compares prepared data with the same batches made from the raw files, if the file defines

    def build_raw_data(params: Params, loader_workers: int) -> LightningDataModule: ...

Import torch and lightning inside the functions: a plan needs Params alone, and is then printed within a
second. Imports at the top of the file work too.
"""

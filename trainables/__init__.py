"""What to train: one file per model.

The contract of a file (`fashion_cnn.py` is a good one to copy):

    METRIC, MODE = "val_acc", "max"           # what trials are judged by; the model logs it

    @dataclass(frozen=True, kw_only=True)
    class Params:                             # every hyperparameter of model and data, with default and unit
        lr: float = 0.01

    def build_model(params: Params) -> LightningModule: ...
    def build_data(params: Params) -> LightningDataModule: ...

Optional:

    def describe_data(params: Params) -> str: ...    # one line for the plan; raises when it is missing

and a `test_step` in the model, run once, for the winner alone. Load a data set once per process (a
cached function): trials that follow one another in a process then share it, and those of another model
may come between them. Knows torch, lightning
and `training`; never ray, never `sweeps`. A module that begins with `_` is a helper, no trainable.

Weights that `configure_optimizers` sees are flat under FSDP: their shape is gone, mostly, and with it
`weight.dim() > 1`, by which biases and norms are often kept from decay. What depends on a shape is decided in
`__init__` and noted on the weight, where it stays (`_vit.py` does so).

`self.log` in each step costs about a millisecond of it. Where steps are short, sum on the device and log
once an epoch, as `_classifier.py` does.

Data that costs work before it can be trained on is prepared once, by `python -m sweeps.prepare NAME` or by
whatever trains first; a file that wants this defines all of

    PREPARE_PARAMS = ("pixels",)               # hyperparameters of Params that prepared rows depend on; () for none
    def raw_items(params: Params) -> Mapping[str, Sequence[Path]]: ...  # split to its raw files
    def prepare(item: Path, params: Params) -> Iterator[Rows]: ...      # a file to blocks of rows

and its `build_data(params, prepared: Path)` gets the folder of the prepared data too, to read it with
`sweeps.training.data.datamodule.ParquetDataModule`. A split is "train", "val" or "test"; `raw_items` raises
FileNotFoundError with the ways to get the files. `prepare` yields blocks, column to array [rows, ...], of
the same columns in every file, and raises when the file is corrupt. Both get a Params of which
PREPARE_PARAMS alone can be read: another hyperparameter is an error, and ends the preparation. Prepared data is taken
again as long as the raw files, these hyperparameters and the code of `prepare` stay as they are: its module and what
that imports. So it stands best in a helper of its own:
`from trainables._clips import prepare, raw_items`.

Beside it, what prepared data is measured against, may stand

    def build_raw_data(params: Params, loader_workers: int) -> LightningDataModule: ...

the same batches, each sample made from its raw file when it is asked for.

Heavy imports (torch, lightning) inside the functions: the plan needs Params alone, and is there in a
second. At the top of the file they work too.
"""

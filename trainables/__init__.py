"""What to train: one file per model.

The contract of a file (`fashion_cnn.py` is a good one to copy):

    METRIC, MODE = "val_acc", "max"           # what trials are judged by; the model logs it

    @dataclass(frozen=True, kw_only=True)
    class Params:                             # every knob of model and data, with default and unit
        lr: float = 0.01

    def build_model(params: Params) -> LightningModule: ...
    def build_data(params: Params) -> LightningDataModule: ...

Optional:

    def describe_data(params: Params) -> str: ...    # one line for the plan; raises when it is missing

and a `test_step` in the model, run once, for the winner alone. Load a data set once per process (a
cached function): trials that follow one another in a process then share it, and those of another model
may come between them. Knows torch, lightning
and `training`; never ray, never `sweeps`. A module that begins with `_` is a helper, no trainable.

Heavy imports (torch, lightning) inside the functions: the plan needs Params alone, and is there in a
second. At the top of the file they work too.
"""

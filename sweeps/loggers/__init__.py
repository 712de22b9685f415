"""Loggers, to which a sweep's trials are written beside its record: `--loggers tensorboard mlflow wandb`.

A logger is a module with `build(folder, about) -> Logger` (see `sweeps/loggers/_follower.py`) and NEEDS, the
package that it imports and its name for pip. If it has a function `check()`, that is called before a sweep
starts, and raises UserError for what the user has set up wrongly.
"""

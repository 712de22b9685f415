"""Where a sweep's epochs are written too, beside its record: `--loggers tensorboard mlflow`.

A logger is a module with `build(folder, about) -> Logger` (see `sweeps/loggers/_follower.py`) and NEEDS, the
package that it imports and what pip calls that.
"""

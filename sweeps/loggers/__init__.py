"""Loggers, to which a sweep's trials are written beside its record: `--loggers tensorboard mlflow`.

A logger is a module with `build(folder, about) -> Logger` (see `sweeps/loggers/_follower.py`) and NEEDS, the
package that it imports and its name for pip.
"""

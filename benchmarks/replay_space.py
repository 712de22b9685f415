"""The grid of the table of curves, every hyperparameter by the position of its value: all searchers know the
order of the values, and none the distances."""

from ray import tune

from benchmarks import curves

SPACE = {name: tune.randint(0, len(values)) for name, values in curves.load().values.items()}

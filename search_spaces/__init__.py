"""Search spaces: one file each.

A file defines `SPACE = {hyperparameter: domain}` with `ray.tune` domains or, where hyperparameters depend on
one another, a function `suggest(trial)`. It calls `suggest_float`, `suggest_int` and `suggest_categorical` of
an `optuna.Trial`, depends on their values alone, and returns nothing.

A space with the name of a trainable is its default; its hyperparameters are fields of the trainable's Params.
"""

"""What to try: one file per space.

The contract: either `SPACE = {hyperparameter: domain}` of plain `ray.tune` domains, or, where
hyperparameters depend on one another, a function `suggest(trial)` that asks an `optuna.Trial` for each
(suggest_float, suggest_int, suggest_categorical), depends on its answers alone, and returns nothing.

A space with the name of a trainable is its default. Every key is a field of the trainable's Params.
"""

"""Searchers, which propose hyperparameters: one file each. What several of them share is in `sweeps/search/`.

A searcher defines `build(config, space, record) -> RecordSearcher`; `TAKES`, the forms of domain that it
can take (`sweeps.space.domain.Form`: "grid_search", "sample_from"; "normal": `tune.randn`; "finite": choices,
whole numbers, quantized ranges; "continuous": other ranges; "conditional": a space that is a function;
"several": the spaces of several models); `SCHEDULERS`, the schedulers that it works with, the default one
first; optionally `check(space)`, which raises UserError before the start; `PACKAGES`, those that its
proposals depend on beside the packages of every sweep; and `TAKES_OBJECTIVES = True`, where it takes several
objectives. It proposes points of the space (`sweeps/space/point.py`). A proposal depends on the seed, the
number of the trial and the record alone: the same seed proposes the same trials.
"""

"""Searchers, which propose hyperparameters: one file each.

A searcher defines `build(config, space, record) -> RecordSearcher`; `TAKES`, the forms of domain that it
can take ("conditional": a space that is a function; "several": the spaces of several models);
`SCHEDULERS`, the schedulers that it works with; optionally `check(space)`, which raises UserError before the
start; and `PACKAGES`, those that its proposals depend on beside the packages of every sweep. It proposes
points of the space (`sweeps/space/point.py`). A proposal depends on the seed, the number of the trial and
the record alone: the same seed proposes the same trials.
"""

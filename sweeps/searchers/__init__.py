"""Searchers, which propose hyperparameters: one file each.

The contract: `build(config, space, record) -> RecordSearcher`; `TAKES`, the forms of domain that it
can take ("conditional": a space that is a function; "several": those of several models);
`SCHEDULERS`, those that it works with; where there is more to refuse before the start, `check(space)`;
and, where its proposals depend on more packages than every sweep does, `PACKAGES`. It proposes points
of the space (`sweeps/space/point.py`). A proposal depends on the seed, the number of the trial and the
record, and on nothing else: the same seed proposes the same trials.
"""

"""Searchers, which propose hyperparameters: one file each.

A searcher is a class `Searcher` that extends `SearchMethod` (`sweeps/search/search_method.py`), and proposes
points of the space (`sweeps/space/point.py`). It names, where they differ from those there, the schedulers
that it works with, and the forms of domain that it takes ("grid_search", "sample_from"; "normal":
`tune.randn`; "finite": choices, whole numbers, quantized ranges; "continuous": other ranges; "conditional": a
space that is a function; "several": the spaces of several models).
"""

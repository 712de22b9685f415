"""What searchers and schedulers share: their base classes, rungs, brackets, candidates.

A file that proposes or prunes by one method belongs in `sweeps/searchers/` or `sweeps/schedulers/`.
"""

"""What searchers and schedulers share: their base classes, rungs, brackets, candidates."""

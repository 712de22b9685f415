"""What searchers and schedulers share: rungs, brackets, their bases, candidates."""

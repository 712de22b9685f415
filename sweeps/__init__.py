"""One fast training run, multiplied into many trials, pruned, recorded and learned from."""

from sweeps.common import imports

imports.unite_lightning()  # before anything of the user's is imported, in each process

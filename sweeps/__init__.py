"""One fast training run, multiplied into many trials, pruned, recorded and learned from."""

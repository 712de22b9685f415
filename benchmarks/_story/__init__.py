"""What `benchmarks.story` is made of: workloads, rungs, arithmetic, picture."""

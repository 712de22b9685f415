"""What a sweep costs, side by side: `python -m benchmarks.overhead`, `python -m benchmarks.scale`."""

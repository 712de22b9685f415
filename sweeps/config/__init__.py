"""The settings of a sweep: SweepConfig, flags, YAML. Light: no Ray, no PyTorch."""

"""What was asked of a sweep. Light: no Ray, no PyTorch."""

"""What will be done: the configuration, checked, as a Plan."""

"""What can be tried: domains, flat and conditional search spaces, overrides."""

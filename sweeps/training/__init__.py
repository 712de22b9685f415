"""One trial, trained as fast as the hardware allows."""

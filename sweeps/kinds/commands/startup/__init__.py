"""What Python imports at its start in the program of a trial."""

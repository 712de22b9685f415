"""What all commands share: the parser of flags, the exit status, and what is shown on the terminal."""

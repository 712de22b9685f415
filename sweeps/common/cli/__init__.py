"""What all commands share: the parser of flags, and the skeleton of a command."""

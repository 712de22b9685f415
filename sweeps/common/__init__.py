"""What one run and many both need: errors, formatting, atomic files, plug-ins, seeds, the command line."""

"""What calls `trial.report` from the loops of other libraries: a file for each, which imports that library.

A function that trains imports the file of its library, and no other part of this program does.
"""

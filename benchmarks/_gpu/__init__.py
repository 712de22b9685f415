"""The parts of `benchmarks.gpu`, a file each.

A part is a module with

  measure(notes)  measures one thing after another by `notes.measure`, the most important first
  lines(runs)     what it found, medians over the repeats: `Line`s of the table
  goals(runs)     what is to be reached
  remarks(runs)   what no line says, as sentences
"""

from __future__ import annotations

PARTS = ("train", "data", "ladder", "sharing", "overhead", "zero")

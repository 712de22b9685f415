"""Trainables that go wrong on purpose, each in its own way."""

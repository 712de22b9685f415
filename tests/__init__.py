"""The tests, laid out as what they test: tests/sweeps/<room>/test_<file>.py for sweeps/<room>/<file>.py."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

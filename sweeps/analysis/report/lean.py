"""The module `page`, imported for a program of this package: in half of the time, and without what Optuna
imports for figures and importances that a report does not have."""

from __future__ import annotations

from sweeps.common import imports

with imports.without("matplotlib", "sklearn"):
    from sweeps.analysis.report import page

__all__ = ["page"]

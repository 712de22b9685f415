"""Read-only views of a record: tables, fidelity, advice, figures, report."""

"""Read-only views of a record: tables, compared trials, advice, figures, report."""

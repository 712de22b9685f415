"""What happened: the journal, its trials, their ranking, the lock."""

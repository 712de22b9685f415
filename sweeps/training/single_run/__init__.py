"""One run without a sweep, as `sweeps fit` trains it: settings, folder, output."""

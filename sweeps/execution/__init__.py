"""The run of a planned sweep: Tune's loop, what may go wrong in it, what is shown of it."""

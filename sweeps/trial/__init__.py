"""The training process of a sweep: Tune's Trainable, the worker group, the job."""

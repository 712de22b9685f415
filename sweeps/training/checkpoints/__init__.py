"""What a training leaves on the disk: checkpoints to resume from, weights, and the model that they make."""

"""The parts of the trainable `faces`: preparation, detection, the model."""

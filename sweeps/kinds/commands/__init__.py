"""The kind of trainable that is a command: any program, whose metrics are read where it writes them."""

"""What a training is: each kind of trainable in a file.

`registry` finds a trainable by its name, or makes it again of its description, in another process.
A kind is a class with `find`, of a name, and `load`, of a description, listed in `registry.LOADERS`.
"""

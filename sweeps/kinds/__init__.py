"""What a training is: each kind of trainable in a file.

`registry` finds a trainable by its name, or makes it again of its description, in another process.
A kind is a module with `find` and `load`, listed in `registry.KINDS`.
"""

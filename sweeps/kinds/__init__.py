"""What a training is: each kind of trainable in a file.

`registry` finds a trainable by its name, or makes it again of its description, in another process: by `find`
and `load` of its kind, in FINDERS and LOADERS.
"""

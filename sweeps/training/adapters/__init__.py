"""Projects that are configured by files, each kind as a trainable.

A module here has `find(rest)`, the trainable of what is behind the prefix of a name, such as
`lightning-cli:my_project.cli:config.yaml`, and `load(payload)`, the same in another process, by its __name__.
"""

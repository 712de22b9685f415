"""What to try: one file per space, `SPACE = {knob: domain}` of plain `ray.tune` domains.

A space with the name of a trainable is its default. Every key is a field of the trainable's Params.
"""

"""Every fault once, on a grid."""

from ray import tune

FAULTS = ["none", "raises", "flaky", "exits", "diverges", "stops", "cannot_save", "mute"]
ENDS = ["kills", "crashes", "leaves"]
SPACE = {"fault": tune.grid_search([*FAULTS, "killed_at_end", "killed", "killed_in_save", *ENDS])}

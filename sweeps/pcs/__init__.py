"""The operator's door to the PCs of a cluster: `sweeps pcs COMMAND`"""

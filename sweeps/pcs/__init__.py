"""The operator's door to the PCs of a cluster: `python -m sweeps.pcs COMMAND`"""

"""The commands for the PCs of a cluster: `sweeps pcs check|status|drain|back|down`"""

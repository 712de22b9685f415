"""The places of the sweeps that share a Ray: who claims, who divides, who waits."""

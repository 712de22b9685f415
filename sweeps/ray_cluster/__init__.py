"""Ray and its nodes: session, cluster, placement, GPUs, submission."""

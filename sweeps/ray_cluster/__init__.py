"""Ray and its nodes: session, placement, GPUs, membership, submission."""

"""The page *PCs*."""

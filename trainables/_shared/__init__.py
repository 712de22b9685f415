"""Parts that several of these trainables use."""

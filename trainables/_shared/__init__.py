"""What several of these trainables use."""

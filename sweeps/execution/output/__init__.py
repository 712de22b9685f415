"""What a sweep shows while it runs, and what it leaves at its end."""

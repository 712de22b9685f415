"""What a sweep does when a process, a PC or a trial fails: it goes on with what is left."""

"""The page that starts a sweep: a form of its settings, which the program itself checks."""

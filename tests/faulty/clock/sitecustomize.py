"""A clock that is 90 s ahead, or as many as the file $CLOCK_AHEAD_S says, for every Python with this folder
in its path: under faketime no Ray starts."""

import os
import pathlib
import time

_right = time.time
_file = os.environ.get("CLOCK_AHEAD_S")
time.time = lambda: _right() + (90 if _file is None else float(pathlib.Path(_file).read_text()))

"""A clock that is 90 s ahead, for every Python with this folder in its path: under faketime no Ray starts."""

import time

_right = time.time
time.time = lambda: _right() + 90

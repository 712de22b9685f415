"""The spaces of a sweep, as its record has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeps.record import Record

SAMPLED = "sampled_space"
"""What the record keeps of each space of a function: by trainable, knob to what the samples before the start
had of it, in words. Records of before have none."""


def name_of(record: Record, trainable: str) -> str:
    """Of the space of a trainable, as it was named to the sweep; "" of an old record."""
    settings = record.about.get("identity", {}).get("settings", {})
    spaces, names = settings.get("search_space", ""), record.about.get("trainable", "")
    if not isinstance(names, list):
        return str(spaces)
    return str(dict(zip(names, spaces, strict=False)).get(trainable, ""))


def function_of(record: Record, trainable: str) -> str:
    """The file of a space that is a function `suggest(trial)`, whose ranges only its file can change; "" of
    one whose knobs are written down, as the record keeps those in words."""
    identity, is_one = record.about.get("identity", {}), isinstance(record.about.get("trainable", ""), str)
    knobs, name = identity.get("space", {}), name_of(record, trainable)
    if not name or any(is_one or knob.endswith(f" of {trainable}") for knob in knobs):
        return ""
    paths = (f"search_spaces/{name}.py", f"{name.replace('.', '/')}.py")
    return next((path for path in paths if path in identity.get("code", {})), name)

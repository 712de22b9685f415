"""Source code in this program's former names.

The folder of prepared data is named by a checksum of the code that prepares it. The checksum is taken of the
code in the former names, so that data prepared before a renaming is found again.
"""

from __future__ import annotations

import re

FORMER_MODULES = {
    b"CannotTrain": b"training.config",
    b"Columns": b"training.parquet",
    b"ParquetDataModule": b"training.parquet",
    b"Rows": b"training.shards",
    b"seed_of_run": b"training.process",
}
"""Name that a trainable may import to its former module."""
_IMPORT = re.compile(
    rb"^(?P<indent>[ \t]*)from sweeps(\.\w+)+ import (?P<names>\([^)]*\)|[\w, ]*\w)(?P<rest>.*)$",
    re.MULTILINE,
)


def in_former_names(source: bytes) -> bytes:
    """The source of a module with its imports from this program in their former form."""
    return _IMPORT.sub(_former_import, source).replace(b"PREPARE_PARAMS", b"PREPARE_KNOBS")


def _former_import(found: re.Match[bytes]) -> bytes:
    indent, names, rest = found["indent"], found["names"], found["rest"]
    of_module: dict[bytes, list[bytes]] = {}
    for name in filter(None, (each.strip() for each in names.strip(b"()").split(b","))):
        of_module.setdefault(FORMER_MODULES.get(name.split()[0], b""), []).append(name)
    if b"" in of_module:  # a name without a former one
        return found[0]
    if len(of_module) == 1:  # also over several lines
        return b"%sfrom %s import %s%s" % (indent, *of_module, names, rest)
    lines = [
        b"%sfrom %s import %s" % (indent, home, b", ".join(of_module[home])) for home in sorted(of_module)
    ]
    return b"\n".join(lines) + rest

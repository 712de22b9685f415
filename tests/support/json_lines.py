"""The lines that commands print with `--json`, held against the schema in the docs."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from tests import ROOT

SCHEMA = json.loads((ROOT / "docs" / "output.schema.json").read_text())


def checked(command: str, text: str) -> list[dict[str, Any]]:
    """The lines that a command has printed, each as the schema has it, and the last one as its end."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines, "there is no line"
    assert [line["event"] == "end" for line in lines] == [False] * (len(lines) - 1) + [True]
    for line in lines:
        name = f"end_of_{command.replace(' ', '_')}" if line["event"] == "end" else line["event"]
        faults = Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{name}"}]}).iter_errors(line)
        assert [context.message for fault in faults for context in fault.context or [fault]] == []
    return lines

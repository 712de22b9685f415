"""The README and the pages of docs/, taken apart: their blocks of code, their commands, their sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests import ROOT

SETTINGS = re.compile(r"^(?:[A-Z_]+=\S+ +)*")
"""Variables that are set in front of a command."""


@dataclass(frozen=True)
class Page:
    """One file of Markdown."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    def blocks(self, language: str) -> list[str]:
        """The blocks of code in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```", self.text, flags=re.M | re.S)

    @property
    def commands(self) -> list[str]:
        """The lines of all blocks of `bash`, without comments."""
        return self.commands_of("".join(self.blocks("bash")))

    @staticmethod
    def commands_of(block: str) -> list[str]:
        """The lines of a block, without comments."""
        lines = block.replace("\\\n", " ").splitlines()
        return [re.sub(r"\s+#\s.*", "", line).strip() for line in lines]

    def sentences(self, with_tables: bool = True) -> list[str]:
        """Sentences of paragraphs, items and table cells; a piece of code counts as one word."""
        text = re.sub(r"^```.*?^```", "", self.text, flags=re.M | re.S)
        text = re.sub(r"<!--.*?-->|!\[[^]]*\]\([^)]*\)", "", text, flags=re.S)
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"`[^`]*`", "code", text)
        text = re.sub(r"^#.*|^\|[-|]+\|$", "", text, flags=re.M)
        text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n\n", text, flags=re.M)  # an item is a sentence of its own
        text = re.sub(r"\|" if with_tables else r"^\|.*", "\n\n", text, flags=re.M)  # and so is a cell
        pieces = [" ".join(piece.split()) for piece in re.split(r"\n\s*\n", text)]
        ends = re.compile(r"(?<=[.!?])[*)]*\s+(?=[A-Z*(\"`c0-9])")
        found = [sentence.strip() for piece in pieces for sentence in ends.split(piece)]
        return [sentence for sentence in found if len(sentence.split()) > 2]


PAGES = [Page(ROOT / "README.md"), *map(Page, sorted((ROOT / "docs").glob("*.md")))]
BY_NAME = {page.path.stem: page for page in PAGES}
WALKED = BY_NAME["tutorial"]
"""Its commands are typed on two PCs, one after the other: see `tests.docs.tutorial`."""
COMMANDS = [(page.name, command) for page in PAGES if page is not WALKED for command in page.commands]


def of(*programs: str) -> list[str]:
    """The commands on all pages but the walked one that begin with these words, without duplicates."""
    words = " ".join(programs).split()
    found = (SETTINGS.sub("", command) for _, command in COMMANDS)
    return list(dict.fromkeys(command for command in found if command.split()[: len(words)] == words))


def arguments_of(*programs: str) -> list[str]:
    """The rest of each of these commands."""
    begin = len(" ".join(programs))
    return [command[begin:].strip() for command in of(*programs)]

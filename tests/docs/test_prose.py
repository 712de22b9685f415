"""The README is short, and so are the sentences of all pages; each heading is used once."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import BY_NAME, PAGES, Page

MOST_LINES_OF_THE_README = 150
MOST_LINES_OF_ITS_MODEL = 40
MOST_WORDS, MOST_WORDS_ON_AVERAGE = 45, 25
OLD_WORDS = (
    "knob",
    "stands still",
    "hold still",
    "broke off",
    "broken off",
    "gang",
    "diary",
    "gets in",
    "sureness",
    "roster",
)
LINK = re.compile(r"\((?:docs/)?([\w-]+)\.md\b")
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def faults(sentences: list[str]) -> list[str]:
    """The sentences that are too long, and a mean that is too long."""
    lengths = [len(sentence.split()) for sentence in sentences]
    found = [
        f"{length} words: {text}"
        for length, text in zip(lengths, sentences, strict=True)
        if length > MOST_WORDS
    ]
    if lengths and sum(lengths) / len(lengths) > MOST_WORDS_ON_AVERAGE:
        found.append(f"{sum(lengths) / len(lengths):.1f} words on average")
    return found


@by_page
def test_its_sentences_are_short(page: Page) -> None:
    assert faults(page.sentences()) == []
    assert faults(page.sentences(with_tables=False)) == []


def test_a_long_sentence_is_found() -> None:
    assert len(faults(["word " * 46])) == 2
    assert len(faults(["word " * 26, "word " * 26])) == 1
    assert faults(["word " * 45, "word " * 5]) == []


@by_page
def test_it_uses_the_words_of_the_field(page: Page) -> None:
    assert [word for word in OLD_WORDS if word in page.text] == []


@by_page
def test_it_has_one_title_and_no_two_headings_alike(page: Page) -> None:
    text = re.sub(r"^```.*?^```", "", page.text, flags=re.M | re.S)
    titles = re.findall(r"^(#+) (.*)$", text, flags=re.M)
    assert [level for level, _ in titles].count("#") == 1
    assert len({title for _, title in titles}) == len(titles)


def test_the_readme_is_short_and_shows_a_model_in_one_short_file() -> None:
    readme = BY_NAME["README"]
    assert len(readme.text.splitlines()) <= MOST_LINES_OF_THE_README
    (model,) = readme.blocks("python")
    assert len(model.splitlines()) <= MOST_LINES_OF_ITS_MODEL


def test_the_readme_leads_to_every_page() -> None:
    """By a link, or by one on a page that it leads to."""
    found: set[str] = set()
    new = {"README"}
    while new:
        found |= new
        new = {name for page in new for name in LINK.findall(BY_NAME[page].text)} - found
    assert found >= {page.path.stem for page in PAGES} - {"index"}

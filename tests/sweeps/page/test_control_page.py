"""The buttons of a sweep: each command of `sweeps control` has one, with the same words."""

from __future__ import annotations

import pytest

from sweeps.common.errors import UserError
from sweeps.config import control_commands
from sweeps.page.sweep import control_page


def test_each_command_has_a_button_and_no_other_has_one() -> None:
    assert set(control_page.FORMS) == set(control_commands.NAMES)


def test_each_button_says_what_its_command_does() -> None:
    for form in control_page.FORMS.values():
        assert form.hint
        assert form.button


TYPED = {
    ("stop", "7"): {"trial": "7"},
    ("try", "lr=0.1", "optimizer=adam w"): {"point": "lr=0.1 'optimizer=adam w'"},
    ("retry", "failed", "7"): {"trials": "failed 7"},
    ("set", "num-trials=48", "lr=1e-4..1e-2:log"): {"values": "num-trials=48\nlr=1e-4..1e-2:log"},
    ("pause",): {},
    ("note", "", "2024"): {"trial": "", "text": "2024"},
    ("tag", "", "7", "good"): {"trial": "", "tags": "7 good"},
    ("note", "", 'a long\nnote, "quoted"'): {"trial": "", "text": ' a long\nnote, "quoted" '},
    ("note", "7", "lr too high"): {"trial": "7", "text": "lr too high"},
    ("note", "7", ""): {"trial": "7", "text": ""},
    ("tag", "", "baseline", "good"): {"trial": "", "tags": "baseline good"},
    ("untag", "7", "good"): {"trial": "7", "tags": "good"},
}


@pytest.mark.parametrize("words", TYPED)
def test_a_form_gives_the_words_of_its_command(words: tuple[str, ...]) -> None:
    posted = {control_page.PREFIX + name: text for name, text in TYPED[words].items()}
    assert control_page.words_of(words[0], posted) == [*words]


@pytest.mark.parametrize(
    ("command", "typed", "fault"),
    [
        ("stop", {"trial": ""}, "give the number of one trial"),
        ("stop", {"trial": "7 8"}, "give the number of one trial"),
        ("tag", {"trial": "best", "tags": "good"}, "tag best: give the number of one trial"),
        ("tag", {"trial": "", "tags": ""}, "tag: give tags"),
        ("note", {"trial": "7 8", "text": "good"}, "give the number of one trial"),
        ("note", {"trial": "", "text": "a\0b"}, "without control characters"),
        ("set", {"values": "a=" + "[" * 5000}, "nested too deep"),
        ("try", {"point": "lr"}, "give name=value"),
        ("try", {"point": "lr='1"}, "no closing quotation"),
        ("set", {"values": "num-trials=0"}, "must be at least 1"),
        ("explode", {}, "no such command"),
    ],
)
def test_a_mistake_is_answered_as_on_the_command_line(
    command: str, typed: dict[str, str], fault: str
) -> None:
    with pytest.raises(UserError, match=fault):
        control_page.words_of(command, {control_page.PREFIX + name: text for name, text in typed.items()})


def test_a_sweep_is_offered_what_it_can_do() -> None:
    def names(status: str) -> set[str]:
        return {form.command for form in control_page.offered(status)}

    assert {"pause", "finish", "stop"} <= names("running")
    assert "go" not in names("running")
    assert "go" in names("paused")
    assert "pause" not in names("paused")
    assert not {"pause", "go", "finish", "stop"} & names("finished")
    assert {"try", "set", "retry", "note", "tag", "untag"} <= names("finished")

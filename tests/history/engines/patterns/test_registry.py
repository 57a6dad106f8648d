"""Which patterns there are: ours by name, a user's own by where its function stands."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle

from coterie.errors import UsageError
from coterie.history.engines.patterns.registry import Team, definition, pattern, type_of
from coterie.history.engines.questions import Conversation, Question
from coterie.team.topology.patterns.kinds import KINDS


@bundle("name", KINDS)
def test_ours_are_there_when_they_are_asked_for(name: str) -> None:
    """With a formula for their turns."""
    found = definition(name)

    assert found.kind is KINDS[name]
    assert found.calls is not None
    assert type_of(found.play) == name


def test_a_name_is_one_functions() -> None:
    """Ours stay ours; a module that is loaded again registers its own again."""

    def play(team: Team, given: Mapping[str, Any]) -> Conversation:
        return (yield Question("a", "q")).text

    def other(team: Team, given: Mapping[str, Any]) -> Conversation:
        return (yield Question("a", "q")).text

    with pytest.raises(UsageError, match="the pattern name 'debate' is reserved"):
        pattern("debate")(play)
    with pytest.raises(UsageError, match="is not a pattern"):
        type_of(play)
    pattern("test-one-name")(play)
    pattern("test-one-name")(play)
    with pytest.raises(UsageError, match="two functions are pattern 'test-one-name'"):
        pattern("test-one-name")(other)


@bundle(
    ("source", "words"),
    [
        (None, "No module named"),
        ("", "has no attribute 'play'"),
        ("def play(team, given): yield", "is not a pattern: decorate it with @pattern"),
        ("raise RuntimeError('boom')", "raised RuntimeError: boom"),
        ("import sys; sys.exit(3)", "raised RuntimeError: SystemExit: 3"),
        ("def (", "raised SyntaxError"),
        ("import sys, surely_not_there", "surely_not_there"),
    ],
)
def test_a_function_that_cannot_be_had_is_told_in_words(
    source: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with the module: it is a user's own."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_patterns", raising=False)
    if source is not None:
        (tmp_path / "own_patterns.py").write_text(source)

    with pytest.raises(UsageError, match=words):
        definition("own_patterns:play")
    sys.modules.pop("own_patterns", None)


def test_a_word_that_is_none_of_them_is_mended() -> None:
    """Or told which there are."""
    with pytest.raises(UsageError, match="debate"):
        definition("debatte")
    with pytest.raises(UsageError, match="known patterns: debate, chain"):
        definition("zzz")

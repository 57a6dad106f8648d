"""Whatever the text: nothing is lost, nothing raises, nothing hangs."""

import random
import time
from pathlib import Path

from at_texts import PIECES, check_place, mutated
from hypothesis import given
from hypothesis import strategies as st
from parts import parts

from coterie.team.formats import read_text
from coterie.team.formats.at import parse
from coterie.team.formats.at.lexer import join, lex

DATA = Path(__file__).parents[2] / "data"
FILES = [path.read_bytes().decode() for path in sorted((DATA / "at").glob("*/*.at"))]
fragments = st.lists(st.sampled_from(PIECES), max_size=60).map(" ".join)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,5}(-[A-Za-z0-9_]{1,4}){0,2}", fullmatch=True)


@given(st.text() | fragments)
def test_the_tokens_of_a_text_are_the_text(text: str) -> None:
    """Every character belongs to one token, and every token stands where it says."""
    tokens = lex(text)

    assert join(tokens) == text
    assert all(text.startswith(token.text, token.offset) for token in tokens)
    assert [token.offset for token in tokens] == sorted(token.offset for token in tokens)


@given(
    st.text() | fragments | fragments.map(lambda text: f"topology t : [p] {{ agent a {{ {text} }} flow {{ {text} }} }}")
)
def test_a_tree_prints_as_the_text_it_was_read_from(text: str) -> None:
    """Comments, blanks, faults: all of it."""
    assert str(parse(text).tree) == text


@given(fragments.map(lambda text: f"topology t : [p] {{ {text} agent a {{ {text} }} flow {{ a -> {text} }} }}"))
def test_reading_never_raises(text: str) -> None:
    """A fault is a diagnostic, and each can be shown."""
    source = read_text(text)

    for diagnostic in source.diagnostics:
        check_place(diagnostic, text)
    assert source.topology is not None or source.has_errors


@given(
    st.lists(names, min_size=2, max_size=6, unique=True), st.booleans(), st.sampled_from([" ", "\n", "\r\n", "  # c\n"])
)
def test_any_identifier_names_an_agent(agents: list[str], tight: bool, blank: str) -> None:
    """No word is reserved, and no layout matters."""
    declared = blank.join(f"agent{blank}{name}{blank}{{{blank}model:{blank}m{blank}}}" for name in agents)
    arrow = "->" if tight and not any(name.endswith("-x") for name in agents) else f"{blank}->{blank}"
    text = f"topology t : [pipeline] {{{blank}{declared}{blank}flow {{{blank}{arrow.join(agents)}{blank}}} }}"
    source = read_text(text)

    assert not source.diagnostics
    assert source.topology is not None
    assert source.topology.flow is not None
    assert source.topology.flow.mentions == tuple(agents)


@parts(4)
def test_mutated_files_give_diagnostics(part: int) -> None:
    """1,000 files with a few characters lost, added, doubled, swapped or cut off: never a traceback, never a hang."""
    chosen = random.Random(20260101 + part)
    slowest = 0.0
    for _ in range(250):
        text = mutated(chosen.choice(FILES), chosen)
        started = time.process_time()
        source = read_text(text)
        slowest = max(slowest, time.process_time() - started)

        assert str(parse(text).tree) == text
        assert source.topology is not None or source.has_errors
        for diagnostic in source.diagnostics:
            check_place(diagnostic, text)
    assert slowest < 2.0

"""Whatever the text: nothing is lost, nothing raises, nothing hangs."""

import random
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from coterie.formats import read_text
from coterie.formats.at import parse
from coterie.formats.at.lexer import join, lex

DATA = Path(__file__).parent.parent / "data"
FILES = [path.read_bytes().decode() for path in sorted((DATA / "at").glob("*/*.at"))]
WORDS = (
    "topology fragment agent action human group gates gate flow meta roles orchestrator extensions coterie prompt "
    "outputs model tools retry when max per race t a b sonnet true 3 -1 30s 2d { } [ ] : , . | -> -x-> => --> == != "
    '< >= = # $ é § \'y\' "x" "open \\'
)
PIECES = [*WORDS.split(), "\n", "\r\n", "\t"]

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

    assert all(diagnostic.render(text) for diagnostic in source.diagnostics)
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


def test_mutated_files_give_diagnostics() -> None:
    """2,000 files with a few characters lost, added, doubled, swapped or cut off: never a traceback, never a hang."""
    chosen = random.Random(20260101)
    slowest = 0.0
    for _ in range(2000):
        text = _mutated(chosen.choice(FILES), chosen)
        started = time.perf_counter()
        source = read_text(text)
        slowest = max(slowest, time.perf_counter() - started)

        assert str(parse(text).tree) == text
        assert source.topology is not None or source.has_errors
        for diagnostic in source.diagnostics:
            assert diagnostic.render(text)
            assert diagnostic.span is None or 0 <= diagnostic.span.offset <= len(text)
    assert slowest < 2.0


def _mutated(text: str, chosen: random.Random) -> str:
    for _ in range(chosen.randint(1, 4)):
        at = chosen.randrange(len(text) + 1)
        end = min(len(text), at + chosen.choice([1, 1, 2, 5, 20, 80]))
        match chosen.randrange(6):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + chosen.choice(PIECES) + text[at:]
            case 2:
                text = text[:end] + text[at:]
            case 3:
                other = chosen.randrange(len(text) + 1)
                text = text[:other] + text[at:end] + text[other:]
            case 4:
                text = text[:at] + text[at:end][::-1] + text[end:]
            case _:
                text = text[:at] if chosen.random() < 0.3 else text[:at] + chr(chosen.randrange(1, 0x2100)) + text[end:]
    return text

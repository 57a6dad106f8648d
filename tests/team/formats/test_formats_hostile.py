"""Files that are nearly right, and files that are far from it: readers find fault, and never fail themselves."""

import random
from pathlib import Path

import pytest
from bundles import bundle

from coterie.base.diagnostics import Diagnostic
from coterie.team.formats import read_text
from coterie.team.formats.at.lexer import lex
from coterie.team.formats.settings import grammar
from coterie.team.formats.toml import read_folder

DATA = Path(__file__).parents[2] / "data"
FILES = {
    "at": sorted((DATA / "at" / "valid").glob("*.at")),
    "yaml": sorted((DATA / "patterns").rglob("*.yaml")),
    "toml": sorted((DATA / "loops").rglob("topology.toml")),
    "settings": sorted((DATA / "loops").rglob("autoloops.toml")),
}
PIECES = (
    "[",
    "{",
    "]",
    "}",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    ".",
    "=",
    ":",
    "\n",
    "\r",
    "#",
    ",",
    "&a ",
    "*a",
    "<<: ",
    "- ",
)
PIECES += ("/(a+)+/", "\0", "\ud800", "\ufeff", "🙂", "0x", "1e999", "9" * 5000, "prompt {", "->", "-x->", " " * 200)


def found_in(kind: str, text: str) -> list[Diagnostic]:
    """What reading *text* finds."""
    match kind:
        case "toml":
            return list(read_folder(Path("nowhere"), text).diagnostics)
        case "settings":
            return list(grammar.read(text).diagnostics)
        case _:
            return list(read_text(text, f"x.{kind}").diagnostics)


def mutated(text: str, chance: random.Random) -> str:
    """*text* with a few changes: pieces put in, repeated, left out, or moved."""
    for _ in range(chance.randint(1, 4)):
        start, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
        end = min(end, start + 200)
        match chance.randrange(4):
            case 0:
                text = text[:start] + chance.choice(PIECES) * chance.choice((1, 1, 2, 150)) + text[start:]
            case 1:
                text = text[:end] + text[start:end] * chance.choice((1, 1, 5, 40)) + text[end:]
            case 2:
                text = text[:start] + text[end:]
            case _:
                text = text[:start] + text[end:] + text[start:end]
    return text[:20_000]


@bundle("kind", FILES)
@bundle("seed", range(3))
def test_a_mutated_file_is_read_or_refused(kind: str, seed: int) -> None:
    """Each finding lies within the text."""
    chance = random.Random(f"{kind} {seed}")
    for _ in range(60):
        path = chance.choice(FILES[kind])
        text = mutated(path.read_bytes().decode(), chance)
        for found in found_in(kind, text):
            assert found.span is None or 1 <= found.span.line <= len(text.splitlines()) + 2, found
            found.render(text)


@pytest.mark.parametrize("most", [0, 1, 7, 30])
def test_what_is_beyond_the_tokens_is_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the text is lost, and the place where reading stops is named."""
    monkeypatch.setattr("coterie.team.formats.at.lexer.MAX_TOKENS", most)
    text = FILES["at"][0].read_text()
    source = read_text(text, "x.at")

    assert "".join(token.trivia + token.text for token in lex(text)) == text
    assert str(source.tree) == text
    assert [found.code for found in source.diagnostics] == ["too-large"]
    assert source.topology is None


def test_a_longer_text_than_is_read_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor's text is bounded as a file is."""
    monkeypatch.setattr("coterie.team.formats.at.lexer.MAX_TEXT", 10)
    (found,) = read_text("topology t : [pipeline] {}", "x.at").diagnostics

    assert (found.code, found.span and found.span.line) == ("too-large", 1)

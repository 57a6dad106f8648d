"""Texts in the `.at` notation: valid ones of any layout, and ones with a few characters changed."""

import random
import re

from hypothesis import strategies as st

from coterie.base.diagnostics import Diagnostic
from coterie.team.formats.at.lexer import RAW, Token, join, lex

WORDS = (
    "topology fragment agent action human group gates gate flow meta roles orchestrator extensions coterie prompt "
    "outputs model tools retry when max per race t a b sonnet true 3 -1 30s 2d { } [ ] : , . | -> -x-> => --> == != "
    '< >= = # $ é § \'y\' "x" "open \\'
)
PIECES = (*WORDS.split(), "\n", "\r\n", "\t")
_NAMES = ("a", "b1", "writer", "race-car", "max", "flow", "prompt", "D")
_FIELDS = (
    "model: sonnet",
    "model: openai/gpt-4o",
    "retry: 2,",
    "timeout: 30s",
    'description: "a # text { of \\" [ several"',
    "tools: []",
    "keeper-of: [a, b] { does: [link, tag]  since: 3 }",
    "scale: { min: many }",
    'tools: [Read, Bash("git *"),]',
    "tools: [" + ", ".join(f"mcp.server.tool-{n}" for n in range(9)) + "]",
    "outputs { verdict: approve|revise | reject  score: number }",
    "outputs {}",
    "extensions { coterie { timeout: 3s }  other { colour: a|b } }",
    "prompt {\n  Say {this}:\n\n    # and that\n }",
    "prompt { Be brief. }",
)
_BLOCKS = (
    "meta { version: 1.0, domain: review }",
    'roles { critic: "You doubt"  writer: "You write", }',
    "settings { rows: [{ a: 1 }, { b: [1, [2]] }] }",
    'env { KEY: secret "vault://key" }',
    "unknown-block x { y }",
    "memory { store s { type: brain  path: [a, b]  index: flat { metric: l2 } } }",
    "observability { sample-rate: 7  endpoint: { host: x }  level: loud }",
)
_BLANKS = (" ", "  ", "\t")
_BREAKS = ("\n", "\n\n\n", "\r\n\t", " # said\n", "\n# alone\n\n # twice\n")
_FREE = frozenset("{}[],:")


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file that can be read, in any layout."""
    names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=4, unique=True))
    blocks = draw(st.lists(st.sampled_from(_BLOCKS), max_size=2, unique=True))
    fields = st.lists(st.sampled_from(_FIELDS), max_size=4, unique_by=lambda field: field.split()[0].strip(":"))
    blocks += [f"agent {name} {{ {draw(st.sampled_from(_BLANKS + _BREAKS)).join(draw(fields))} }}" for name in names]
    node = st.sampled_from(names) | st.lists(st.sampled_from(names), min_size=1).map(lambda all: f"[{', '.join(all)}]")
    attributes = ["", "  [max 3]", f' [when {names[0]}.verdict=="a b", max 2 ,per run,]']
    chains = st.lists(node, min_size=2, max_size=4).map(" -> ".join)
    statements = st.lists(st.builds(str.__add__, chains, st.sampled_from(attributes)), max_size=4)
    flow = "\n".join(draw(statements))
    body = "\n".join([*draw(st.permutations(blocks)), f"flow {{ {flow} }}"])
    return relaid(f"topology t : [pipeline, fan-out] {{\n{body}\n}}", draw(st.randoms(use_true_random=False)))


def relaid(text: str, chosen: random.Random) -> str:
    """*text* with other blanks, line ends and comments where they mean nothing."""
    tokens = lex(text)
    return join([_relaid(before, token, chosen) for before, token in zip([None, *tokens], tokens, strict=False)])


def _relaid(before: Token | None, token: Token, chosen: random.Random) -> Token:
    """*token* behind another gap: a line end stays one, and beside brackets and colons anything may stand."""
    if before is None or token.kind == RAW or before.kind == RAW or chosen.random() < 0.7:
        return token
    free = token.kind in _FREE - {"[", ":"} or before.kind in _FREE - {"]", "}"} or token.text == "->"
    if "\n" in token.trivia:
        gaps: tuple[str, ...] = _BREAKS
    elif free:
        gaps = _BLANKS + _BREAKS
    else:
        gaps = _BLANKS if token.trivia else ("",)
    return Token(token.kind, token.text, chosen.choice(gaps), token.line, token.column, token.offset)


def mutated(text: str, chosen: random.Random) -> str:
    """*text* with a few characters lost, added, doubled, moved, reversed or cut off."""
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


def check_place(found: Diagnostic, text: str) -> None:
    """Line, column and offset of *found* are one place in *text*, and it is shown with that line."""
    shown = found.render(text)
    assert f"{found.severity.value}[{found.code}]: " in shown.splitlines()[0]
    if found.span is None:
        return
    assert 0 <= found.span.offset <= found.span.offset + found.span.length <= len(text)
    before = re.split("\r\n|\r|\n", text[: found.span.offset])
    assert (found.span.line, found.span.column) == (len(before), len(before[-1]) + 1)
    assert (f"\n  {found.span.line} | " in shown) == (not found.secret)

"""The one layout: the same tokens, the same comments, the same topology, and a second time nothing to do."""

import random
import re
from pathlib import Path

import pytest
from at_texts import files, mutated, relaid
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from parts import one_in, parts

from coterie.errors import TopologyError
from coterie.team.formats import read_text
from coterie.team.formats.at import parse
from coterie.team.formats.at.layout import format_text
from coterie.team.formats.at.lexer import RAW, Token, join, lex

DATA = Path(__file__).parents[2] / "data"
ROOT = DATA.parent.parent
VALID = [path for path in sorted(DATA.glob("**/*.at")) if "invalid" not in path.parts]
EXAMPLES = sorted((ROOT / "examples").rglob("*.at"))
FILES = [path.read_bytes().decode() for path in VALID]


def in_team(body: str) -> str:
    """*body* as the body of a topology."""
    return f"topology t : [pipeline] {{\n{body}\n}}\n"


def formatted(body: str) -> str:
    """What the body of a topology becomes."""
    return format_text(in_team(body)).removeprefix("topology t : [pipeline] {\n").removesuffix("\n}\n")


def tokens(text: str) -> list[str]:
    """What is said: every token but commas; of the text of a prompt, all but the line of its closing brace."""
    return [
        re.sub(r"\s*\Z", "", token.text) if token.kind == RAW else token.text
        for token in lex(text)
        if token.kind != ","
    ]


def comments(text: str) -> list[str]:
    """Every comment, in order."""
    return [comment.rstrip() for token in lex(text) for comment in re.findall(r"#[^\r\n]*", token.trivia)]


def check(text: str) -> bool:
    """Whether *text* could be laid out; what can be says the same."""
    try:
        found = format_text(text)
    except TopologyError:
        return False
    assert tokens(found) == tokens(text)
    assert comments(found) == comments(text)
    assert format_text(found) == found
    before, after = read_text(text), read_text(found)
    assert sorted(each.code for each in after.diagnostics) == sorted(each.code for each in before.diagnostics)
    wrong = "bad-value" in [each.code for each in before.diagnostics]  # such a value is taken as it is written
    assert wrong or after.topology == before.topology
    assert re.search(r"[^\n]\n\Z", found)
    return True


CASES = [
    ("agent a{model:m}", "  agent a { model: m }"),
    ("agent a { model: m\n }", "  agent a {\n    model: m\n  }"),
    ("agent a { model: m, retry: 2, }", "  agent a { model: m, retry: 2 }"),
    ("agent a {\n model: m, retry: 2,\n }", "  agent a {\n    model: m\n    retry: 2\n  }"),
    ("human a {\n }", "  human a {}"),
    ("human a { # why\n }", "  human a {  # why\n  }"),
    ("human a {\n# why\n }", "  human a {\n    # why\n  }"),
    ("agent a { model : m }\nagent bb {model: n}", "  agent a  { model: m }\n  agent bb { model: n }"),
    (
        "agent a { model: haiku tools: [] }\nagent bb { model: m tools: [] }",
        "  agent a  { model: haiku  tools: [] }\n  agent bb { model: m      tools: [] }",
    ),
    ("agent a { model: m }\n\n\n\nagent bb { model: m }", "  agent a { model: m }\n\n  agent bb { model: m }"),
    ("\n\nmeta { a: 1 }\n\n", "  meta { a: 1 }"),
    ("agent a { tools: [x,y , ] }", "  agent a { tools: [x, y] }"),
    (
        "agent a { model: m\n tools: [\n x, y] }",
        "  agent a {\n    model: m\n    tools: [\n      x,\n      y,\n    ]\n  }",
    ),
    (
        "agent a { outputs { v: x|y\n  |z } }",
        "  agent a {\n    outputs {\n      v: x | y | z\n    }\n  }",
    ),
    ("settings { rate: 60/min|x }", "  settings { rate: 60/min|x }"),
    ("flow { a->b->c }", "  flow { a -> b -> c }"),
    ("flow { a->b b->c }", "  flow {\n    a -> b\n    b -> c\n  }"),
    ("flow {\n a\n->\n[b,c,]\n}", "  flow {\n    a -> [b, c]\n  }"),
    (
        "flow {\n a->b [when b.v=='x' ,max 3]\n  long->a[max 2]\n}".replace("'", '"'),
        '  flow {\n    a -> b     [when b.v == "x", max 3]\n    long -> a  [max 2]\n  }',
    ),
    (
        "flow {\n a->b # to b\n # and back\n b->a [max 2]\n}",
        "  flow {\n    a -> b  # to b\n    # and back\n    b -> a  [max 2]\n  }",
    ),
    ("flow {\n a->[b, c] [tolerance :20 %,wait 3s]\n}", "  flow {\n    a -> [b, c]  [tolerance: 20%, wait 3s]\n  }"),
    ("agent a { prompt {\n One {x}\n\n   } }", "  agent a {\n    prompt {\n One {x}\n\n    }\n  }"),
    (
        "x {\n  a: not, b: =>agent,\n c { d: e }, f: g,\n }",
        "  x {\n    a: not,\n    b: =>agent,\n    c { d: e }\n    f: g\n  }",
    ),
    ("agent a { prompt {  Be brief. } }", "  agent a { prompt {  Be brief. } }"),
]


@bundle(("body", "wanted"), CASES)
def test_each_thing_has_one_layout(body: str, wanted: str) -> None:
    """What was on one line and fits stays there; everything else has a line of its own."""
    assert formatted(body) == wanted
    check(in_team(body))


def test_what_does_not_fit_is_broken() -> None:
    """One item on a line, a comma behind each; a chain is broken before its arrows."""
    names = [f"somebody-with-a-long-name-{n}" for n in range(4)]
    text = formatted(f"agent a {{ reads: [{', '.join(names)}] }}\nflow {{ {' -> '.join(names)} -> [a] [max 3]\n }}")

    assert text.splitlines() == [
        "  agent a {",
        "    reads: [",
        *(f"      {name}," for name in names),
        "    ]",
        "  }",
        "  flow {",
        f"    {names[0]} -> {names[1]}",
        f"      -> {names[2]}",
        f"      -> {names[3]}",
        "      -> [a]  [max 3]",
        "  }",
    ]


@pytest.mark.parametrize(("length", "lines"), [(100, 1), (101, 3)])
def test_a_line_has_at_most_a_hundred_characters(length: int, lines: int) -> None:
    """The last one included."""
    body = "  agent a { model: NAME }"
    text = formatted(body.replace("NAME", "m" * (length - len(body) + 4)))

    assert len(text.splitlines()) == lines
    assert max(map(len, text.splitlines())) <= 100


def test_a_comment_stays_where_it_stood() -> None:
    """Behind its line, above its item, before the closing brace, at the end of the file."""
    text = (
        "# top\n\n\n# of the team\ntopology t : [pipeline] { # opens\n   # first\n\n  agent a { model: m } # of a\n"
        "  agent b { # of b\n  model: m\n      # last of b\n}\n  # last\n} # closed\n\n# end"
    )
    assert format_text(text) == (
        "# top\n\n# of the team\ntopology t : [pipeline] {  # opens\n  # first\n\n  agent a { model: m }  # of a\n"
        "  agent b {  # of b\n    model: m\n    # last of b\n  }\n  # last\n}  # closed\n\n# end\n"
    )
    check(text)


def test_the_line_ends_of_a_file_stay() -> None:
    """Those of its first line, everywhere but in the text of a prompt; a byte order mark goes."""
    assert (
        format_text("\ufefftopology t : [p] {\r\n  meta { a: 1 }\n}")
        == "topology t : [p] {\r\n  meta { a: 1 }\r\n}\r\n"
    )


def test_what_is_not_well_formed_is_refused() -> None:
    """With all that is wrong with it, and the text to show it in."""
    with pytest.raises(TopologyError) as refused:
        format_text("topology t : [p] {\n  agent a { model m }\n  flow { a => a }\n")

    assert [found.code for found in refused.value.diagnostics] == ["missing-colon", "bad-arrow", "unclosed-block"]


@bundle("path", VALID, ids=lambda path: str(path.relative_to(DATA)))
def test_a_file_says_the_same_afterwards(path: Path) -> None:
    """All the files of the other tests: the same tokens, comments and topology, and nothing to do a second time."""
    text = path.read_bytes().decode()
    assert check(text) or any(found.is_error for found in parse(text).diagnostics)


@bundle("path", EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_examples_are_laid_out_so(path: Path) -> None:
    """What people copy from."""
    assert format_text(path.read_text()) == path.read_text()


@one_in(2)
@given(files())
def test_a_file_of_any_layout_says_the_same_afterwards(text: str) -> None:
    """Whatever stands between its tokens: blanks, line ends, comments."""
    assert str(parse(text).tree) == text
    assert check(text)


@one_in(2)
@given(files(), st.randoms(use_true_random=False))
def test_blanks_leave_no_trace(text: str, chosen: random.Random) -> None:
    """What the layout decides does not depend on how many blanks stood there."""
    spread = join([_spread(token, chosen) for token in lex(text)])

    assert format_text(spread) == format_text(text)


def _spread(token: Token, chosen: random.Random) -> Token:
    trivia = "".join(blank * chosen.randint(1, 3) if blank in " \t" else blank for blank in _unsaid(token.trivia))
    return Token(token.kind, token.text, trivia, token.line, token.column, token.offset)


def _unsaid(trivia: str) -> list[str]:
    """Comments whole, and blanks one by one."""
    return re.findall(r"#[^\r\n]*|[^#]", trivia)


@parts(4)
def test_a_mutated_file_is_refused_or_says_the_same_afterwards(part: int) -> None:
    """Characters lost, added, doubled, swapped or cut off: what is not well-formed is left alone."""
    chosen = random.Random(20260202 + part)
    laid_out = sum(check(mutated(relaid(chosen.choice(FILES), chosen), chosen)) for _ in range(250))

    assert laid_out > 30

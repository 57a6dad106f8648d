import pytest
from bundles import bundle

from coterie.team.formats.at.lexer import Token, join, lex


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in lex(text)[:-1]]


@bundle(
    ("text", "expected"),
    [
        ("a->b", [("name", "a"), ("->", "->"), ("name", "b")]),
        ("race-car -> a", [("name", "race-car"), ("->", "->"), ("name", "a")]),
        ("box-x-> c", [("name", "box"), ("error-arrow", "-x->"), ("name", "c")]),
        ("box-x[timeout]->c", [("name", "box"), ("error-arrow", "-x[timeout]->"), ("name", "c")]),
        ("box-x -> c", [("name", "box-x"), ("->", "->"), ("name", "c")]),
        ("a-xy->b", [("name", "a-xy"), ("->", "->"), ("name", "b")]),
        ("a --> b", [("name", "a"), ("bad-arrow", "-->"), ("name", "b")]),
        ("a => b", [("name", "a"), ("bad-arrow", "=>"), ("name", "b")]),
        ("a.b>=2", [("name", "a"), (".", "."), ("name", "b"), (">=", ">="), ("number", "2")]),
        ("a.b<-1", [("name", "a"), (".", "."), ("name", "b"), ("<", "<"), ("number", "-1")]),
        ("30s 5m 1h 2d 30x", [("duration", t) for t in ("30s", "5m", "1h", "2d")] + [("word", "30x")]),
        ("1 2.5 -3 2-of-3", [("number", "1"), ("number", "2.5"), ("number", "-3"), ("word", "2-of-3")]),
        (r'"a \" b" "c', [("string", r'"a \" b"'), ("open-string", '"c')]),
        ('"a # b" # "c"', [("string", '"a # b"')]),
        ("b# glued", [("name", "b")]),
        ("'a b' '", [("single-quoted", "'a b'"), ("'", "'")]),
        ("café 3d-artist _x", [("word", "café"), ("word", "3d-artist"), ("word", "_x")]),
        ("a § b", [("name", "a"), ("bad", "§"), ("name", "b")]),
        ("9" * 5000, [("word", "9" * 5000)]),
    ],
)
def test_a_text_is_cut_into_its_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    """Identifiers hold single hyphens inside, so an arrow ends one; what is no token of a file is one of its own."""
    assert kinds(text) == expected


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_token_knows_its_line_and_column(end: str) -> None:
    """Lines end as the text ends them; columns count characters."""
    text = f"# one{end}a{end}  ñ b{end}"
    spans = {token.text: token.span for token in lex(text)}

    assert (spans["a"].line, spans["a"].column, spans["a"].offset) == (2, 1, 5 + len(end))
    assert (spans["b"].line, spans["b"].column, spans["b"].length) == (3, 5, 1)
    assert text[spans["b"].offset] == "b"


def test_trivia_belongs_to_the_token_behind_it() -> None:
    """Comments and blanks stand before a token, those at the end of a text before its end."""
    tokens = lex("  a # x\n\tb # y\n")

    assert [token.trivia for token in tokens] == ["  ", " # x\n\t", " # y\n"]


@pytest.mark.parametrize("opening", ["prompt {", "prompt: {", "model: agent prompt {"])
def test_the_text_of_a_prompt_is_one_token(opening: str) -> None:
    """Up to the brace that matches the first; quotes and comments in it are text."""
    tokens = lex(f'{{ {opening} say "{{}} # }} x: 1 }}')

    assert ("raw", ' say "{} # ') in [(token.kind, token.text) for token in tokens]
    assert tokens[-2].kind == "}"


@pytest.mark.parametrize("head", ["agent prompt {", "human prompt {", "variant prompt {", "topology prompt {"])
def test_a_block_called_prompt_holds_fields(head: str) -> None:
    """Behind a word that wants a name, `prompt` is a name."""
    assert [token.kind for token in lex(f"{head} a: 1 }}")][-6:-1] == ["{", "name", ":", "number", "}"]


def test_a_prompt_that_does_not_balance_ends_with_its_indentation() -> None:
    """So the rest of the file is still read."""
    text = "agent a {\n  prompt {\n    {\n  }\n}\nagent b {\n}\n"
    tokens = lex(text)

    assert ("open-raw", "\n    {\n  ") in [(token.kind, token.text) for token in tokens]
    assert [token.text for token in tokens][-5:] == ["agent", "b", "{", "}", ""]
    assert join(tokens) == text


def test_a_balanced_prompt_may_hold_text_at_the_margin() -> None:
    """Indentation decides only where braces do not."""
    text = "agent a {\n  prompt {\nif x {\n}\n  }\n}\n"

    assert [token.kind for token in lex(text)] == ["name", "name", "{", "name", "{", "raw", "}", "}", "end"]


def test_a_prompt_that_never_ends_takes_the_rest() -> None:
    """Nothing is lost, and nothing hangs."""
    text = "{ prompt { a { b"

    assert lex(text)[3:] == [
        Token("open-raw", " a { b", "", 1, 11, 10),
        Token("end", "", "", 1, 17, 16),
    ]

from bundles import bundle

from coterie.team.formats.at import parse
from coterie.team.formats.at.tree import Attributes, FlowBlock, Root, Statement


def flow(text: str) -> FlowBlock:
    root = parse(f"topology t : [pipeline] {{ flow {{\n{text}\n}} }}").tree.items[0]
    assert isinstance(root, Root)
    block = root.items[0]
    assert isinstance(block, FlowBlock)
    return block


@bundle(
    ("text", "statements"),
    [
        ("a -> b", ["a -> b"]),
        ("a -> b b -> c", ["a -> b", "b -> c"]),
        ("a -> b, b -> c", ["a -> b,", "b -> c"]),
        ("a\n-> b ->\nc", ["a\n-> b ->\nc"]),
        ("a -> b\n[c, d] -> e", ["a -> b", "[c, d] -> e"]),
        ("a -> b\n[max 2]\nb -> c", ["a -> b\n[max 2]", "b -> c"]),
        ("a -> b\n[race, d] -> e", ["a -> b", "[race, d] -> e"]),
        ("a -> b\n[race] -> e", ["a -> b", "[race] -> e"]),
        ("a -> b [max 2] [c, d] -> e", ["a -> b [max 2] [c, d] -> e"]),
        ("a -> [\nb,\nc,\n] [max 2]", ["a -> [\nb,\nc,\n] [max 2]"]),
    ],
)
def test_a_statement_ends_where_the_next_token_cannot_continue_it(text: str, statements: list[str]) -> None:
    """Lines do not matter, but for the bracket behind a target: on its line, it opens attributes."""
    assert [str(statement).strip() for statement in flow(text).statements] == statements


@bundle("word", ["when a.b == c", "max 2", "per run", "tolerance: 1", "wait 3s"])
def test_a_bracket_on_the_next_line_opens_attributes_when_a_word_of_theirs_begins_it(word: str) -> None:
    """And the word is not a name in a list, so no comma or bracket follows it."""
    (statement,) = flow(f"a -> b\n  [{word}]").statements

    assert isinstance(statement, Statement)
    assert isinstance(statement.parts[-1], Attributes)


def test_the_rest_of_a_file_is_read_behind_a_bad_item() -> None:
    """What could not be read is one diagnostic and one stray in the tree."""
    parsed = parse("topology t : [a] {\n agent a {\n  § : 1\n  model: x\n }\n flow { a -> a [max 1] }\n}\n")
    root = parsed.tree.items[0]

    assert isinstance(root, Root)
    assert [type(item).__name__ for item in root.items] == ["BlockNode", "FlowBlock"]
    assert [diagnostic.code for diagnostic in parsed.diagnostics] == ["unexpected-text"]
    assert parsed.lost_items


@bundle("opener", ["{ a ", "[", "[{ a: ", "a: [", "a { b: ["])
def test_nesting_is_bounded(opener: str) -> None:
    """However deep a text nests, reading and printing it needs no deep stack."""
    text = "topology t : [a] { memory { x: " + opener * 10_000
    parsed = parse(text)

    assert str(parsed.tree) == text
    assert any(diagnostic.is_error for diagnostic in parsed.diagnostics)


def test_a_changed_tree_prints_the_change() -> None:
    """A tree is a way to edit a file and keep its comments."""
    parsed = parse("topology t : [a] { # why\n agent a { }\n agent b { } # so\n}\n")
    (root,) = parsed.tree.items
    assert isinstance(root, Root)
    del root.items[1]

    assert str(parsed.tree) == "topology t : [a] { # why\n agent a { } # so\n}\n"

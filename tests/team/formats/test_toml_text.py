"""Where the keys of a TOML text stand."""

import tomllib
from typing import Any

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from coterie.team.formats.toml_text import Path, key_spans

TEXT = """\
# a comment = no key
name = "x" # [not.a.table]
[core]
a.b = \"\"\"
c = 1
[d]
\"\"\"
"x.y" = [ # one
  "p = 1",
  'q',
]

[[role]]
id = "one"
[[role]]
  id = "two"
  [role.more]
  k = {a = 1}
[handoff]
"loop.start" = ["one"]
'/re.*/' = 2
"""


def test_every_key_has_its_place() -> None:
    """Comments, texts over several lines and lists do not confuse it."""
    found = {path: TEXT[span.offset : span.offset + span.length] for path, span in key_spans(TEXT).items()}

    assert found == {
        ("name",): "name",
        ("core",): "[core]",
        ("core", "a", "b"): "a.b",
        ("core", "x.y"): '"x.y"',
        ("role", 0): "[[role]]",
        ("role", 0, "id"): "id",
        ("role", 1): "[[role]]",
        ("role", 1, "id"): "id",
        ("role", 1, "more"): "[role.more]",
        ("role", 1, "more", "k"): "k",
        ("handoff",): "[handoff]",
        ("handoff", "loop.start"): '"loop.start"',
        ("handoff", "/re.*/"): "'/re.*/'",
    }
    spans = key_spans(TEXT)
    assert (spans["role", 1, "id"].line, spans["role", 1, "id"].column) == (16, 3)


def test_quotes_before_closing_quotes_belong_to_the_text() -> None:
    """A text may end in quotes, which do not hide the keys after it; a comment is not part of a header."""
    text = 'a = """\n""\\""""""\n["x]" . y] # c\nz = 1\n'
    assert tomllib.loads(text) == {"a": '"' * 5, "x]": {"y": {"z": 1}}}

    found = {path: text[span.offset : span.offset + span.length] for path, span in key_spans(text).items()}
    assert found == {("a",): "a", ("x]", "y"): '["x]" . y]', ("x]", "y", "z"): "z"}


NAMES = st.text("ab .\"'#=[]é\n", min_size=1, max_size=5)
VALUES = st.one_of(
    st.integers(), st.text("ab\"'#=[]\n{}", max_size=8), st.lists(st.text("a#]'\"", max_size=3), max_size=2)
)
TABLES = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


def paths(values: Any, path: Path = ()) -> set[Path]:
    """The way to every value that is no table."""
    found: set[Path] = set()
    for name, value in values.items():
        if isinstance(value, dict):
            found |= paths(value, (*path, name))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for at, each in enumerate(value):
                found |= paths(each, (*path, name, at))
        else:
            found.add((*path, name))
    return found


@given(st.dictionaries(NAMES, VALUES | TABLES | st.lists(TABLES, min_size=1, max_size=2), max_size=4))
def test_whatever_toml_holds_has_a_place(values: dict[str, Any]) -> None:
    """The keys that are found are those that the standard reader finds."""
    text = tomlkit.dumps(values)

    found = key_spans(text)
    assert paths(tomllib.loads(text)) <= found.keys()
    assert all(text.count("\n", 0, span.offset) == span.line - 1 for span in found.values())

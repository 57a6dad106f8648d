"""What is beyond the bounds of a text is found before a parser sees it, and named with its place."""

import json
import os
import tomllib
from pathlib import Path

import pytest
from bundles import bundle
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.team.formats import bounds
from coterie.team.formats.bounds import (
    MAX_KEY_PARTS,
    MAX_NESTED,
    TooLarge,
    check_json,
    check_toml,
    load_json,
    read_bytes,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@bundle(
    ("text", "code", "line", "column"),
    [
        ("a = 1\n" + "b." * MAX_KEY_PARTS + "c = 1", "too-deep", 2, 2 * MAX_KEY_PARTS),
        ("[" + "b." * MAX_KEY_PARTS + "c]", "too-deep", 1, 2 * MAX_KEY_PARTS + 1),
        ("a = " + "[" * (MAX_NESTED + 1), "too-deep", 1, 5 + MAX_NESTED),
        ("a = " + "{a.b.c = " * 40, "too-deep", 1, None),
        ("a = [\n" + "1,\n" * bounds.MAX_VALUES, "too-large", bounds.MAX_VALUES, 2),
        ("[a]\n" * (bounds.MAX_VALUES + 1), "too-large", bounds.MAX_VALUES + 1, 1),
    ],
)
def test_toml_beyond_the_bounds_is_named(text: str, code: str, line: int, column: int | None) -> None:
    """Its code, and where it begins."""
    found = check_toml(text)

    assert found is not None
    assert found.span is not None
    assert (found.code, found.span.line) == (code, line)
    assert column in (None, found.span.column)


@bundle(
    "text",
    [
        "a = '" + "[" * 500 + "'",
        'a = "' + '\\"[' * 500 + '"',
        'a = """\n' + '"" [ \\" ' * 500 + '"""',
        "a = '''\n" + "'' [" * 500 + "'''",
        "# " + "[" * 500,
        "".join(f"a{n} = [1, {{b = 2}}]\n" for n in range(500)),
        "a = " + "[" * 99 + "]" * 99,
        ".".join(["a"] * MAX_KEY_PARTS) + " = 1.5",
    ],
)
def test_toml_within_the_bounds_passes(text: str) -> None:
    """Strings and comments count as nothing, and what is closed does not nest."""
    tomllib.loads(text)

    assert check_toml(text) is None


@settings(max_examples=50)
@given(values)
def test_every_json_text_of_common_size_passes(value: object) -> None:
    """It reads as it did."""
    assert load_json(json.dumps(value)) == value


@pytest.mark.parametrize("text", ["[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101])
def test_json_that_is_nested_too_deeply_is_refused(text: str) -> None:
    """The message says where."""
    with pytest.raises(ValueError, match=r"more than 100 deep: line 1 column \d+"):
        load_json(text)


def test_json_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets in texts are no values."""
    monkeypatch.setattr(bounds, "MAX_JSON_VALUES", 10)

    assert check_json('["[[[[[[[[[[[[", "\\"[[[[[[[[["]') is None
    assert check_json("[" + "1," * 10 + "1]") is not None


def test_only_regular_files_of_some_size_are_read(tmp_path: Path) -> None:
    """A pipe is not waited for, also when it has no writer."""
    (tmp_path / "file").write_bytes(b"x" * 10)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")

    assert read_bytes(tmp_path / "file", 10) == b"x" * 10
    with pytest.raises(TooLarge):
        read_bytes(tmp_path / "file", 9)
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="not a regular file"):
            read_bytes(tmp_path / name)
    with pytest.raises(TooLarge):
        read_bytes(tmp_path / "link", 9, any_kind=True)

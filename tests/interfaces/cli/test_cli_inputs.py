from pathlib import Path

import pytest

from coterie.errors import UsageError
from coterie.interfaces.cli.inputs import gather, pair


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("repo=.", ("repo", ".")),
        ("budget=20", ("budget", "20")),
        ("budget:=20", ("budget", 20)),
        ("names:=[1, true]", ("names", [1, True])),
        ("empty=", ("empty", "")),
        ("a=b=c", ("a", "b=c")),
        ("url=http://x:=1", ("url", "http://x:=1")),
    ],
)
def test_an_equals_sign_gives_text_and_a_colon_before_it_json(word: str, value: tuple[str, object]) -> None:
    """Only the first equals sign separates."""
    assert pair(word) == value


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("budget", "'budget' is not a named value; write name=text"),
        ("=20", "'=20' is not a named value"),
        (":=20", "':=20' is not a named value"),
        ("budget:=twenty", "the value of 'budget' is not JSON"),
    ],
)
def test_a_value_that_cannot_be_read_is_a_usage_error(word: str, message: str) -> None:
    """The message names the word and how to write it."""
    with pytest.raises(UsageError) as raised:
        pair(word)

    assert message in str(raised.value)


def test_named_values_win_over_the_file_and_the_prompt_over_both(tmp_path: Path) -> None:
    """What is said last on the command line counts."""
    file = tmp_path / "in.json"
    file.write_text('{"repo": "a", "budget": 1, "prompt": "from the file"}')

    assert gather("Go", file, ["repo=b"]) == {"repo": "b", "budget": 1, "prompt": "Go"}
    assert gather(None, file, [])["prompt"] == "from the file"
    assert gather(None, None, []) == {}


def test_a_file_that_is_not_json_is_the_prompt(tmp_path: Path) -> None:
    """Its whole text, as it stands."""
    file = tmp_path / "task.md"
    file.write_text("# Task\nDo it.\n", encoding="utf-8")

    assert gather(None, file, []) == {"prompt": "# Task\nDo it.\n"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.json", None, "cannot be read"),
        ("list.json", b"[1]", "must contain a JSON object"),
        ("bad.json", b"{", "is not JSON"),
        ("binary.txt", b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_an_input_file_that_cannot_be_used_is_a_usage_error(
    tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    """The message names the file and the reason."""
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(UsageError) as raised:
        gather(None, file, [])

    assert str(file) in str(raised.value)
    assert message in str(raised.value)


def test_a_value_nested_beyond_all_bounds_is_no_json() -> None:
    """It is refused like any other nonsense."""
    with pytest.raises(UsageError, match="'n' is not JSON"):
        pair("n:=" + "[" * 100_000)

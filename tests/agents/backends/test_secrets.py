"""What is hidden, and that pieces hide as much as the whole."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.agents.backends.secrets import Secrets, StreamRedactor


@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "OPENAI_APIKEY",
        "PGPASSWORD",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "GH_PAT",
        "db_password",
        "KEYS",
    ],
)
def test_a_secret_looking_variable_is_hidden(name: str) -> None:
    """A name tells a secret by how one of its parts ends."""
    assert Secrets({name: "s3cr3t-value"}).hide("it is s3cr3t-value!") == "it is ***!"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOME", "/home/ada"),
        ("KEYBOARD", "german"),
        ("TOKENIZERS_PARALLELISM", "enabled"),
        ("MAX_TOKENS", "200000"),
        ("API_KEY", "short"),
        ("API_KEY", ""),
        ("COTERIE_KEY", "run/writer#1"),
    ],
)
def test_what_is_no_secret_stays(name: str, value: str) -> None:
    """Ordinary variables, numbers, values too short to be told from words, and coterie's own."""
    text = f"x {value} y"

    assert Secrets({name: value}).hide(text) == text


def test_of_two_secrets_the_longer_is_hidden_whole() -> None:
    """No rest of a secret shows because another is its beginning."""
    assert Secrets({"A_KEY": "abcdef", "B_KEY": "abcdefgh"}).hide("abcdefgh abcdef") == "*** ***"


def test_what_may_begin_a_secret_waits_for_the_next_piece() -> None:
    """A text is shown as far as it cannot turn into a secret."""
    veil = StreamRedactor(Secrets({"A_KEY": "abcdef"}))

    assert veil.feed("see abc") == "see "
    assert veil.feed("def and abc") == "*** and "
    assert veil.feed("", final=True) == "abc"


@pytest.mark.parametrize(("rest", "shown"), [("gh!", "***!"), ("!", "***!"), ("g", "***g")])
def test_a_secret_that_may_be_the_beginning_of_a_longer_one_waits_for_the_next_piece(rest: str, shown: str) -> None:
    """Nothing of the longer one shows."""
    veil = StreamRedactor(Secrets({"A_KEY": "abcdef", "B_KEY": "abcdefgh"}))

    assert veil.feed("see abcdef") == "see "
    assert veil.feed(rest) + veil.feed("", final=True) == shown


SECRETS = Secrets({"A_KEY": "ababab", "B_KEY": "abababba", "C_KEY": "bbaabb"})


@given(st.text("ab", max_size=60), st.lists(st.integers(0, 60)))
def test_pieces_hide_what_the_whole_would(text: str, cuts: list[int]) -> None:
    """However a text is cut up, what shows is what would show in one piece, without any secret."""
    veil = StreamRedactor(SECRETS)
    borders = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in pairwise(borders)]

    shown = "".join(veil.feed(piece) for piece in pieces) + veil.feed("", final=True)
    assert shown == SECRETS.hide(text)

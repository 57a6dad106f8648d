import pytest

from coterie.cli.argv import prepare


@pytest.mark.parametrize(
    ("words", "prepared"),
    [
        (["run", "a.at"], ["run", "a.at"]),
        (["run", "a.at", "--rehearse"], ["run", "a.at", "--rehearse="]),
        (["run", "a.at", "--rehearse", "s.json"], ["run", "a.at", "--rehearse=s.json"]),
        (["run", "a.at", "--rehearse", "Fix the parser"], ["run", "a.at", "--rehearse=", "Fix the parser"]),
        (["run", "--rehearse", "a.at", "prompt"], ["run", "--rehearse=", "a.at", "prompt"]),
        (["run", "a.at", "--rehearse=other.txt"], ["run", "a.at", "--rehearse=other.txt"]),
        (["run", "a.at", "--rehearse", "--json"], ["run", "a.at", "--rehearse=", "--json"]),
        (["run", "a.at", "--rehearse", "--rehearse", "s.json"], ["run", "a.at", "--rehearse=", "--rehearse=s.json"]),
        (["fork", "last", "--", "--rehearse", "s.json"], ["fork", "last", "--", "--rehearse", "s.json"]),
        (["fork", "last", "--rehearse", "--", "s.json"], ["fork", "last", "--rehearse=", "--", "s.json"]),
    ],
)
def test_the_word_after_rehearse_is_its_script_only_when_it_ends_in_json(words: list[str], prepared: list[str]) -> None:
    """Any other word stays where it stands, so that it can be the prompt."""
    assert prepare(words) == prepared


def test_what_stands_behind_two_dashes_is_for_the_backend_of_a_run() -> None:
    """Word by word, whatever it looks like; two dashes alone say nothing."""
    words = ["run", "loop", "-b", "pi", "Fix it", "--", "--model", "x", "--", "--rehearse"]

    assert prepare(words)[5:] == ["--argument=--model", "--argument=x", "--argument=--", "--argument=--rehearse"]
    assert prepare(["run", "loop", "--"]) == ["run", "loop"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["mock-backend", "s.json", "--do", "it"], ["mock-backend", "s.json", "--", "--do", "it"]),
        (["mock-backend", "s.json"], ["mock-backend", "s.json"]),
        (["mock-backend", "--help"], ["mock-backend", "--help"]),
    ],
)
def test_what_a_mock_backend_is_asked_is_no_option(given: list[str], wanted: list[str]) -> None:
    """A prompt may begin with whatever it likes."""
    assert prepare(given) == wanted

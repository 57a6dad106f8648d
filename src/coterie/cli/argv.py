"""What is done to the words of a command line before they are parsed."""

from collections.abc import Iterator, Sequence

from coterie.agentside.words import plain

REHEARSE = "--rehearse"
MOCK = "mock-backend"
"""What comes after its script is a prompt, whatever that begins with."""
BEHIND = "--argument"
"""The option of `run` that a word behind `--` becomes: the command line is parsed as if it had been given so."""


def prepare(arguments: Sequence[str]) -> list[str]:
    """*arguments* with the optional value of `--rehearse` made plain, and the words that `run` finds behind `--`.

    The word after a bare `--rehearse` is its script when it ends in `.json`; else it is left where it stands, and the
    option gets an empty value. Nothing after `--` is touched, but that of `run` each word is told to be an argument
    for the backend. The payload of `emit` may begin with a dash.
    """
    if len(arguments) > 2 and arguments[0] == MOCK and not arguments[1].startswith("-"):
        return [*arguments[:2], "--", *arguments[2:]]
    if "".join(arguments[:1]) == "emit":
        return plain(arguments)
    words = list(_prepared(arguments))
    if words[:1] == ["run"] and "--" in words:
        behind = words.index("--")
        words[behind:] = [f"{BEHIND}={word}" for word in words[behind + 1 :]]
    return words


def _prepared(arguments: Sequence[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word == "--":
            yield word
            yield from words
        elif word != REHEARSE:
            yield word
        else:
            follower = next(words, None)
            if follower is not None and follower.endswith(".json") and not follower.startswith("-"):
                yield f"{REHEARSE}={follower}"
                continue
            yield f"{REHEARSE}="
            if follower is not None:
                yield from _prepared([follower, *words])

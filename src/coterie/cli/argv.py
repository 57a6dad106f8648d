"""What is done to the words of a command line before they are parsed."""

from collections.abc import Iterator, Sequence

REHEARSE = "--rehearse"


def prepare(arguments: Sequence[str]) -> list[str]:
    """*arguments* with the optional value of `--rehearse` made plain.

    The word after a bare `--rehearse` is its script when it ends in `.json`; else it is left where it stands, and the
    option gets an empty value. Nothing after `--` is touched.
    """
    return list(_prepared(arguments))


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

"""Rewrite a command line before it is parsed."""

from collections.abc import Iterator, Sequence

from coterie.backends.agentside.words import plain

REHEARSE, RETRY = "--rehearse", "--retry"
MOCK = "mock-backend"
"""A command whose words after the first are a prompt, even if they begin with a dash."""
BEHIND = "--argument"
"""The hidden option of `run` that passes a word behind `--`."""


def prepare(arguments: Sequence[str]) -> list[str]:
    """Return *arguments* with optional values of options and the words behind `--` of `run` made explicit.

    The word after a bare `--rehearse` is its script if it ends in `.json`, that after a bare `--retry` a turn if it has
    a `#`; otherwise it is a separate word, and the option gets an empty value. Each word behind `--` of `run` becomes
    an argument for the backend; other words behind `--` do not change. The payload of `emit` may begin with a dash.
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
        elif word not in (REHEARSE, RETRY):
            yield word
        else:
            follower = next(words, None)
            if follower is not None and not follower.startswith("-") and _is_value(word, follower):
                yield f"{word}={follower}"
                continue
            yield f"{word}="
            if follower is not None:
                yield from _prepared([follower, *words])


def _is_value(option: str, word: str) -> bool:
    """Whether *word*, which follows *option*, is its value."""
    return word.endswith(".json") if option == REHEARSE else "#" in word

"""Recognize the text that completes a loop, unless the agent repeats it from its instructions."""

import re
from collections.abc import Iterable

ECHO = "it was only repeated from a line of the instructions"

_AROUND = " \t\"'`*_.\u2018\u2019\u201c\u201d"
"""What may surround the text: quotes, backticks, emphasis, a full stop."""
_FENCED = re.compile(r"^(~{3,})text\n.*?^\1$", re.DOTALL | re.MULTILINE)
"""A block made by `coterie.engines.fences`: recent outputs, memory, tasks."""


def refusal(promise: str, text: str, prompt: str = "", guidance: Iterable[str] = ()) -> str | None:
    """Why *text* does not give *promise*: empty if it does, None if it does not contain it.

    A line that is also in the instructions of *prompt* is an echo, unless it is nothing but the promise, which a prompt
    never has alone on a line. Recent outputs, memory, tasks and *guidance* are no instructions.
    """
    if not promise.strip() or promise not in text:
        return None
    if "\n" in promise:
        return ""
    said = {f"- {line}" for text in guidance for line in text.splitlines()}
    said |= {line.removeprefix("- ") for line in said}
    asked = {bare(line) for line in _FENCED.sub("", prompt).splitlines() if promise in line and line not in said}
    asked.add(bare(shown(promise)))
    given = {bare(line) for line in text.splitlines() if promise in line}
    return "" if bare(promise) in given or given - asked else ECHO


def shown(promise: str) -> str:
    """The line that a prompt has in place of *promise* alone on a line."""
    return f"the text `{promise.strip()}`"


def bare(line: str) -> str:
    """*line* without quotes, backticks, emphasis and a full stop around it."""
    return line.strip(_AROUND) or line.strip()

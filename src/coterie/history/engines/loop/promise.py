"""Recognize the text that completes a loop, where an agent says it as a separate sentence."""

import re
from collections.abc import Iterable, Iterator

ECHO = "it was only repeated from a line of the instructions"
MENTIONED = "it was only mentioned: it must be a separate sentence, best alone on a line, outside of code and diffs"

_QUOTES = "\"'`*_\u2018\u2019\u201c\u201d"
"""Quotes, backticks and emphasis, which may surround the text."""
_AROUND = f" \t.{_QUOTES}"
_SENTENCE_ENDS = tuple(".!?:")
_FENCED = re.compile(r"^(~{3,})text\n.*?^\1$", re.DOTALL | re.MULTILINE)
"""A block made by `coterie.history.engines.fences`: recent outputs, memory, tasks."""
_FENCE = re.compile(r"\s*(?:(`{3,})[^`]*|(~{3,}).*)\Z")
_HUNK = re.compile(r"@@+ -\d")
_IN_HUNK = ("", " ", "+", "-", "\\")
"""What the lines behind the header of a hunk begin with."""


def refusal(promise: str, text: str, prompt: str = "", guidance: Iterable[str] = ()) -> str | None:
    """The reason that *promise* in *text* does not count: empty if it counts, None if *text* does not contain it.

    It counts as a separate sentence at the end of a line. A line that is also in the instructions of *prompt* is an
    echo and does not count, except a line with only the promise, since prompts have no such line. Recent outputs,
    memory, tasks and *guidance* are not instructions.
    """
    promise = promise.strip()
    if not promise or promise not in text:
        return None
    said = set(_sentences(promise, "\n".join(_prose(text))))
    guided = {f"- {line}" for text in guidance for line in text.splitlines()}
    guided |= {line.removeprefix("- ") for line in guided}
    core = promise.strip(_AROUND)  # a line without it is no echo
    instructed = {bare(line) for line in _FENCED.sub("", prompt).splitlines() if core in line and line not in guided}
    if said:
        return "" if bare(promise) in said or said - instructed else ECHO
    as_word = re.compile(rf"(?<!\w){re.escape(promise)}(?!\w)")
    lines = {bare(line) for line in text.splitlines() if as_word.search(line)}
    if "\n" in promise or lines - instructed - {bare(shown(promise))}:
        return MENTIONED
    return ECHO if lines else None


def _sentences(promise: str, text: str) -> Iterator[str]:
    """The lines of *text* that end in *promise* as a sentence, without what surrounds them."""
    for found in re.finditer(re.escape(promise), text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        after = text[found.end() :].partition("\n")[0]
        earlier = before.rstrip(f"{_QUOTES} \t")
        follows = earlier.endswith(_SENTENCE_ENDS) and before[len(earlier) :].strip(_QUOTES)
        if (not earlier or follows) and not after.strip(f"{_AROUND}\r"):
            yield bare(before + promise)


def _prose(text: str) -> Iterator[str]:
    """The lines of *text* that are neither in fenced code nor in a diff."""
    fence, in_hunk = "", False
    for line in text.splitlines():
        if fence:
            bar = line.strip()
            fence = "" if bar.startswith(fence) and not bar.strip(fence[0]) else fence
        elif opened := _FENCE.match(line):
            fence = opened[1] or opened[2]
        elif _HUNK.match(line):
            in_hunk = True
        elif in_hunk := in_hunk and line[:1] in _IN_HUNK:
            pass
        else:
            yield line


def shown(promise: str) -> str:
    """The line that a prompt has in place of *promise* alone on a line."""
    return f"the text `{promise.strip()}`"


def bare(line: str) -> str:
    """*line* without quotes, backticks, emphasis and a full stop around it."""
    return line.strip(_AROUND) or line.strip()

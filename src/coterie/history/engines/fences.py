"""Mark the text of agents in a prompt, so that it cannot be mistaken for a section of the prompt."""

import re

_RUN = re.compile("~{3,}")


def fenced(text: str) -> str:
    """*text* as a Markdown code block whose fence is longer than any in the text."""
    fence = "~~~"
    if fence in text:
        fence = "~" * (1 + max(len(run) for run in _RUN.findall(text)))
    inner = text.strip("\n")
    return f"{fence}text\n{inner}\n{fence}"


def inline(text: str) -> str:
    """*text* to follow other words on a line: unchanged if it is a single line, else fenced."""
    return text if len(text.splitlines()) <= 1 else f"\n{fenced(text)}"

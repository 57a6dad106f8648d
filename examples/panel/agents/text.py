"""Work on the last text of a prompt: clean it, keep its first sentences, or give it a title.

Usage: python3 text.py clean|shorten|title
"""

import json
import re
import sys


def last_text(prompt: str) -> str:
    """The text that a stage is handed: `current`, or the task, in the JSON of the prompt."""
    decoder, found = json.JSONDecoder(), ""
    for brace in re.finditer(r"\{", prompt):
        try:
            value, _ = decoder.raw_decode(prompt, brace.start())
        except ValueError:
            continue
        found = value.get("current") or value.get("prompt") or value.get("task") or found
        break
    return found or prompt


def clean(text: str) -> str:
    """One blank between words."""
    return " ".join(text.split())


def shorten(text: str) -> str:
    """The first two sentences."""
    return " ".join(re.split(r"(?<=[.!?])\s+", text)[:2])


def title(text: str) -> str:
    """The text under a line of its first five words."""
    words = re.findall(r"[\w'-]+", text)[:5]
    return f"{' '.join(words).title()}\n\n{text}"


if __name__ == "__main__":
    print({"clean": clean, "shorten": shorten, "title": title}[sys.argv[1]](last_text(sys.stdin.read())))

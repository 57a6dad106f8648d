"""Text for what needs a person."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.views.words import duration

if TYPE_CHECKING:
    from coterie.runs.attention import AttentionChange
    from coterie.views.attention import Attention

_SHORT = {"y": "allow", "yes": "allow", "a": "always", "p": "project", "n": "deny", "no": "deny"}
"""Short answers to a permission."""
_TEXT = 400
"""Characters shown of a question."""


def items(found: "Sequence[Attention]", *, everywhere: bool) -> str:
    """Return what needs a person, each with the command that answers it."""
    if not found:
        return "nothing needs a person" + (
            "" if everywhere else "; `coterie attention --all` looks at the runs of other directories, too"
        )
    return "\n".join(map(item, found))


def item(one: "Attention") -> str:
    """Return one line about what is needed, one with its text, one with the command that answers it."""
    now = time.time()
    head = f"{one.kind}  {one.run}  for {duration(max(now - one.since, 0.0))}"
    if one.due is not None:
        head += f", `{one.policy}` in {duration(max(one.due - now, 0.0))}"
    text = " ".join(one.text.split())
    return f"{head}\n  {text if len(text) <= _TEXT else text[: _TEXT - 1] + '…'}\n  {one.command}"


def change(one: "AttentionChange") -> str:
    """Return what is open now, or a line about what is not any more."""
    return item(one.attention) if one.is_open else f"{one.attention.run}: {one.attention.id} no longer needs a person"


def question(one: "Attention") -> str:
    """Return what an attempt needs a person for, at the terminal."""
    due = f"; `{one.policy}` in {duration(max(one.due - time.time(), 0.0))}" if one.due is not None else ""
    return f"\n── {one.id} needs you ──\n{one.text}\n{choices(one)}{due}"


def meanwhile(one: "Attention") -> str:
    """Return a line about *one*, whose turn at the terminal has not come."""
    due = f"; `{one.policy}` in {duration(max(one.due - time.time(), 0.0))}" if one.due is not None else ""
    return f"{one.text}{due}; answer this question first, or from elsewhere: {one.command}"


def choices(one: "Attention") -> str:
    """Return the words that answer *one*."""
    short = "y or n, " if "allow" in one.answers else ""
    return f"answer {short}{', '.join(one.answers[:-1])} or {one.answers[-1]}"


def answer_of(one: "Attention", word: str) -> str:
    """Return the answer of *one* that *word* means; empty if it is none."""
    word = _SHORT.get(word.lower(), word.lower())
    return word if word in one.answers else ""

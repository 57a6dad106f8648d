"""Text for what needs a person."""

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coterie.history.views.words import duration
from coterie.interfaces.cli.text.words import cut

if TYPE_CHECKING:
    from coterie.execution.runs.attention import AttentionChange
    from coterie.history.views.attention import Attention

_SHORT = {"y": "allow", "yes": "allow", "a": "always", "p": "project", "n": "deny", "no": "deny"}
"""Short answers to a permission."""
_TEXT = 400
"""Characters shown of a question where lines may have any length."""


def items(found: "Sequence[Attention]", *, everywhere: bool, width: int | None = None) -> str:
    """Return what needs a person, each with the command that answers it.

    *width*: characters of a line, if they are limited: a text has one, and a command shows the rest of a question.
    """
    if not found:
        return "nothing needs a person" + (
            "" if everywhere else "; `coterie attention --all` looks at the runs of other directories, too"
        )
    return "\n".join(item(one, width) for one in found)


def item(one: "Attention", width: int | None = None) -> str:
    """Return one line about what is needed, one with its text, one with the command that answers it."""
    now = time.time()
    head = f"{one.kind}  {one.run}  for {duration(max(now - one.since, 0.0))}"
    if one.due is not None:
        head += f", `{one.policy}` in {duration(max(one.due - now, 0.0))}"
    text, most = " ".join(one.text.split()), _TEXT if width is None else max(width - 2, 20)
    lines = [head, f"  {cut(text, most)}"]
    if width is not None and len(text) > most:
        all_of = {"question": f" prompt {shlex.quote(one.turn)}", "permission": " why", "parked": " why"}
        turn = f" {shlex.quote(one.turn)}" if one.kind in ("permission", "parked") else ""
        lines.append(f"  coterie inspect {shlex.quote(one.run)}{all_of.get(one.kind, '')}{turn}  # in full")
    return "\n".join([*lines, f"  {one.command}"])


def change(one: "AttentionChange") -> str:
    """Return an open request, or a line about one that is closed."""
    return item(one.attention) if one.is_open else f"{one.attention.run}: {one.attention.id} no longer needs a person"


def question(one: "Attention") -> str:
    """Return the request of an attempt to a person, for the terminal."""
    due = f"\n`{one.policy}` in {duration(max(one.due - time.time(), 0.0))}" if one.due is not None else ""
    return f"\n── {one.id} needs you ──\n{one.text}\n{choices(one)}{due}"


def meanwhile(one: "Attention") -> str:
    """Return a line about *one*, whose turn at the terminal has not come."""
    due = f"; `{one.policy}` in {duration(max(one.due - time.time(), 0.0))}" if one.due is not None else ""
    return f"{one.text}{due}; answer this question first, or from elsewhere: {one.command}"


def choices(one: "Attention") -> str:
    """Return the words that answer *one*."""
    if "allow" not in one.answers:
        return f"answer {', '.join(one.answers[:-1])} or {one.answers[-1]}"
    lasting = "a always in this run, p always in this project, " if one.rule else ""
    means = f"; a and p allow {one.rule}" if one.rule else ""
    return f"y once, {lasting}n deny, park or fail\nn TEXT denies and tells the agent TEXT{means}"


def answer_of(one: "Attention", line: str) -> str:
    """Return the answer to *one* in *line*; empty if it has none. `deny` may have a text for the agent."""
    word, _, text = line.strip().partition(" ")
    word = _SHORT.get(word.lower(), word.lower()) if "allow" in one.answers else word.lower()
    if word not in one.answers or (text and word != "deny"):
        return ""
    return f"{word} {text.strip()}".strip()

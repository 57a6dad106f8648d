"""Rules of an attempt with a model: whether a request may be sent, whether an answer is complete, and what it is."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.agents.backends.base import Answer, Budgeted, Failure, OnEvent, Result
from coterie.history.journal.records import Usage

ROUNDS = 50
"""Requests to a model in one turn, unless `max-turns` says otherwise: each may lead to calls of tools."""

_CUT_SHORT = re.compile(r"length|max[_-]?tokens|context[_-]?window", re.IGNORECASE)
_REFUSED = re.compile(r"filter|refus|guardrail|safety|sensitive", re.IGNORECASE)
_BROKEN_OFF = re.compile(r"error|abort|cancel", re.IGNORECASE)


async def limit_reached(sent: int, options: Mapping[str, Any], on_event: OnEvent, before: int = 0) -> Failure | None:
    """Why an attempt that has sent *sent* requests may not send another, *before* which others of its turn sent some.

    None if it may.
    """
    most = options.get("max_turns", ROUNDS)
    if before + sent >= most:
        return Failure(kind="failed", reason=f"the model did not finish within the {most} requests of max-turns")
    if sent and isinstance(on_event, Budgeted) and not await on_event.affords():
        return Failure(kind="interrupted", reason="the budget of the run is spent")
    return None


def unfinished(ending: str | None, provider: str, limit: str) -> Failure | None:
    """Why an answer that ended with *ending* is not complete; None if it is.

    Nothing of such an answer may be used: neither its text nor the calls of tools that it contains.

    Args:
        ending: The reason that the provider gives for the end; empty or None: it gave none.
        limit: The setting that limits the length of an answer.
    """
    if not ending:
        return Failure(kind="transient", reason=f"{provider} ended its answer without marking it as complete")
    if _REFUSED.search(ending):
        return Failure(kind="refused", reason=f"{provider} refused to answer")
    if _CUT_SHORT.search(ending):
        return Failure(kind="failed", reason=f"the answer was cut off at {limit} before it was complete: allow more")
    if ending == "pause_turn" or _BROKEN_OFF.search(ending):
        return Failure(kind="transient", reason=f"{provider} broke off its answer: {ending}")
    return None


def result_of(texts: Sequence[str], outputs: Mapping[str, Any] | None, usage: Usage) -> Result:
    """The result of a conversation: the last text that is not blank, since a model may end with an empty answer."""
    text = next((text for text in reversed(texts) if text.strip()), "")
    if not text and outputs is None:
        return Failure(kind="invalid_output", reason="the model gave an empty answer", usage=usage)
    return Answer(text=text, outputs=dict(outputs) if outputs is not None else None, usage=usage)

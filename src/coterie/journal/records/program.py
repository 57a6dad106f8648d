"""Records of programs that call agents themselves."""

from typing import Any

from coterie.journal.records.base import Record


class CallAsked(Record, frozen=True, kw_only=True, tag="call.asked", gc=False):
    """A program asks an agent: its *n*-th call there is the turn `agent#n`.

    Attributes:
        hash: SHA-256 of what it asked, in hex, before anything was added to that: asked again, it must be the same.
        request: What the agent is sent.
        given: The whole input, when a team is asked; then there is no request.
        state: What the agent remembers from here on, when adding to the request changed that.
    """

    turn: str
    agent: str
    hash: str = ""
    request: dict[str, Any] = {}
    given: dict[str, Any] | None = None
    state: dict[str, Any] | None = None


class CallDropped(Record, frozen=True, kw_only=True, tag="call.dropped", gc=False):
    """A program no longer waits for a call of its own, and calls it off."""

    turn: str


class StateChanged(Record, frozen=True, kw_only=True, tag="state.changed", gc=False):
    """What an agent of a program remembers was changed by the reply to a turn; it counts once that has ended.

    Attributes:
        agent: Whose memory it is.
        turn: The turn whose reply changed it.
        state: All that it remembers now.
    """

    agent: str
    turn: str
    state: dict[str, Any]


class ResultRecorded(Record, frozen=True, kw_only=True, tag="result.recorded", gc=False):
    """A program recorded a result of its own making for an agent; those of turns are in `turn.finished`.

    Attributes:
        id: `agent+n`, the n-th of the agent.
        agent: For whom.
        output: What came of it.
        confidence: How sure that is, from 0 to 1.
        reasoning: What led there.
        tokens: What it used.
    """

    id: str
    agent: str
    output: dict[str, Any] = {}
    confidence: float | None = None
    reasoning: str | None = None
    tokens: dict[str, int] | None = None

"""Records of programs that call agents themselves."""

from typing import Any

from coterie.history.journal.records.base import Record


class CallAsked(Record, frozen=True, kw_only=True, tag="call.asked", gc=False):
    """A program, or an actor of a system, calls an agent: the *n*-th call of an agent is the turn `agent#n`.

    Attributes:
        hash: SHA-256 of the program's request, in hex, before anything was added; a replay must repeat it.
        request: The request to the agent.
        given: The whole input of a team, which has no request.
        state: The agent's memory from here on, if additions to the request changed it.
        origin: For an actor: the message that the asker was handling, and the number of the question within it; both
            are the same if the message is handled again after a kill. Empty: that message is not recorded.
    """

    turn: str
    agent: str
    hash: str = ""
    request: dict[str, Any] = {}
    given: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    origin: str = ""


class CallDropped(Record, frozen=True, kw_only=True, tag="call.dropped", gc=False):
    """A program, or an actor of a system, cancelled one of its calls."""

    turn: str


class StateChanged(Record, frozen=True, kw_only=True, tag="state.changed", gc=False):
    """The reply to a turn changed the memory of an agent of a program; it counts once the turn has ended.

    Attributes:
        agent: The owner of the memory.
        turn: The turn whose reply changed it.
        state: The whole memory now.
    """

    agent: str
    turn: str
    state: dict[str, Any]


class ResultRecorded(Record, frozen=True, kw_only=True, tag="result.recorded", gc=False):
    """A program recorded its own result for an agent; results of turns are in `turn.finished`.

    Attributes:
        id: `agent+n`, the n-th of the agent.
        agent: The agent that the result is for.
        output: The result.
        confidence: Its confidence, from 0 to 1.
        reasoning: Its reasoning.
        tokens: Tokens used.
    """

    id: str
    agent: str
    output: dict[str, Any] = {}
    confidence: float | None = None
    reasoning: str | None = None
    tokens: dict[str, int] | None = None


class ProgramNoted(Record, frozen=True, kw_only=True, tag="program.noted", gc=False):
    """A program wrote a note for people."""

    text: str

"""The key of the turn under way, for tools that must act once."""

from contextvars import ContextVar

TURN_KEY: ContextVar[str] = ContextVar("coterie_turn_key")


def turn_key() -> str:
    """The key of the turn that calls this tool: `run/turn`, the same in every attempt of the turn.

    A tool that pays, sends or publishes hands it to the other side, which then does so once, however often the turn is
    asked again after a crash.

    Raises:
        LookupError: If no model calls.
    """
    try:
        return TURN_KEY.get()
    except LookupError:
        raise LookupError("turn_key() is for tools that a model calls; nobody is calling") from None

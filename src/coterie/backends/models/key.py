"""The key of the current turn, for tools that must act once."""

from contextvars import ContextVar

TURN_KEY: ContextVar[str] = ContextVar("coterie_turn_key")


def turn_key() -> str:
    """The key of the turn that calls this tool: `run/turn`, the same in every attempt of the turn.

    A tool that pays, sends or publishes passes it on as an idempotency key, so that the other side acts once, however
    often the turn is retried after a crash.

    Raises:
        LookupError: If the caller is not a tool called by a model.
    """
    try:
        return TURN_KEY.get()
    except LookupError:
        raise LookupError("turn_key() works only in a tool that a model calls") from None

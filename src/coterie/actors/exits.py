"""Why an incarnation of an actor or a supervisor ended; plain data, so that it can come from another process."""

from typing import Any

from msgspec import Struct, to_builtins


class Normal(Struct, frozen=True, tag="normal"):
    """The child ended itself (`self.exit()`)."""


class Shutdown(Struct, frozen=True, tag="shutdown"):
    """The child was shut down, or it is a supervisor that gave up. Not a failure for a transient child, as in OTP.

    Attributes:
        causes: Why a supervisor gave up, one line each, the innermost last.
    """

    causes: tuple[str, ...] = ()


class Terminated(Struct, frozen=True, tag="terminated"):
    """The child asked to be stopped (`ErrorAction.STOP`): it is not restarted, whatever its restart type.

    Attributes:
        error: The error that led to it, in a line.
    """

    error: str = ""


class Crashed(Struct, frozen=True, tag="crashed"):
    """An exception ended the child.

    Attributes:
        error: The class and the message of the exception, in a line.
        trace: Where it was raised, as Python writes it.
        message: The id of the message in hand; empty without one.
    """

    error: str
    trace: str = ""
    message: str = ""


Exit = Normal | Shutdown | Terminated | Crashed
"""Why a child ended without being stopped by its supervisor."""


class Down(Struct, frozen=True):
    """An incarnation of a child ended by itself."""

    name: str
    incarnation: int
    reason: Exit


def payload_of(down: Down) -> dict[str, Any]:
    """The payload of the message `down`."""
    error = down.reason.error if isinstance(down.reason, Crashed | Terminated) else ""
    reason = type(down.reason).__name__.lower()
    return {"name": down.name, "incarnation": down.incarnation, "reason": reason, "error": error}


def plain_end(down: Down) -> dict[str, Any]:
    """*down* as plain data that every transport can carry, without the trace."""
    plain: dict[str, Any] = to_builtins(down)
    plain["reason"].pop("trace", None)
    return {**plain, "reason": {key: writable(value) for key, value in plain["reason"].items()}}


def writable(value: Any) -> Any:
    """*value*, a text or texts, without half a surrogate pair: that is shown escaped."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return [writable(each) for each in value]


class Lost(Struct, frozen=True):
    """Children of one supervisor ended together, with their worker.

    Attributes:
        downs: Their ends, in start order.
        is_failure: Whether that counts as one failure; False: their worker left in order, and they move to another.
    """

    downs: tuple[Down, ...]
    is_failure: bool = True


class Available(Struct, frozen=True):
    """A worker is there for a child that could not be started without one."""

    name: str


Change = Down | Lost | Available
"""What becomes of children without their supervisor's doing."""

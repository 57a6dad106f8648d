"""Reasons for the end of an incarnation of an actor or a supervisor, as plain data that can cross processes."""

from typing import Any

from msgspec import Struct, to_builtins


class Normal(Struct, frozen=True, tag="normal"):
    """The child ended itself (`self.exit()`)."""


class Shutdown(Struct, frozen=True, tag="shutdown"):
    """The child was shut down, or is a supervisor that gave up. As in OTP, this is not a failure for a transient child.

    Attributes:
        causes: Why a supervisor gave up, one line each, the innermost last.
    """

    causes: tuple[str, ...] = ()


class Terminated(Struct, frozen=True, tag="terminated"):
    """The child asked to be stopped (`ErrorAction.STOP`): it is not restarted, whatever its restart type.

    Attributes:
        error: The error that led to it, in one line.
    """

    error: str = ""


class Crashed(Struct, frozen=True, tag="crashed"):
    """An exception ended the child.

    Attributes:
        error: The class and the message of the exception, in one line.
        trace: The traceback.
        message: The id of the current message; empty without one.
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
    """Convert *down* to plain data, without the trace, that every transport can carry."""
    plain: dict[str, Any] = to_builtins(down)
    plain["reason"].pop("trace", None)
    return {**plain, "reason": {key: writable(value) for key, value in plain["reason"].items()}}


def writable(value: Any) -> Any:
    """Escape halves of surrogate pairs in *value*, a text or several texts."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return [writable(each) for each in value]


class Lost(Struct, frozen=True):
    """Children of one supervisor ended together with their worker.

    Attributes:
        downs: Their ends, in start order.
        is_failure: Whether this counts as one failure; False: their worker left in order, and they move to another one.
    """

    downs: tuple[Down, ...]
    is_failure: bool = True


class Available(Struct, frozen=True):
    """A worker is available for a child that could not be started without one."""

    name: str


Change = Down | Lost | Available
"""Changes of children that their supervisor did not cause."""

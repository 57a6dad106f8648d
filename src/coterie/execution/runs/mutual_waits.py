"""Which run waits for the end of which: a run that would wait for its own end is refused."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from coterie.agents.actors.message import IN_HAND, TURN
from coterie.agents.backends.models.key import turn_key
from coterie.agents.backends.processes import marks_of
from coterie.errors import UsageError
from coterie.history.journal.rules import root_of

_WAITS: dict[str, list[str]] = {}
"""The runs whose ends the code of each run waits for, in this process."""


def is_within(run: str) -> bool:
    """Whether this is called in a turn of *run*, which would wait for its own end, or in a process of one."""
    return run in (root_of(_turn()), *(root_of(mark) for mark in marks_of() or ()))


def check_wait(run: str) -> None:
    """Check that the caller is no part of *run*, for whose end it is going to wait.

    Raises:
        UsageError: If it is.
    """
    if is_within(run):
        raise UsageError(
            f"run {run} would wait for its own end, since a turn of it calls this: give the new run another id; what "
            f"this one has done is in coterie.get({run!r}), and in `coterie inspect {run}`"
        )


@contextmanager
def wait_for(run: str, *, is_new: bool = False) -> Iterator[None]:
    """Within, the turn that calls this, if one does, waits for the end of *run*.

    Args:
        is_new: Whether the run begins now: another one of that name, in another directory, is not meant.

    Raises:
        UsageError: If *run* waits for the end of that turn, perhaps by way of others.
    """
    if not (own := root_of(_turn())) or (is_new and run == own):
        yield
        return
    if not is_new:
        check_wait(run)
    if not is_new and (chain := _chain(run, own, ())):
        between = "".join(f"run {one}, which waits for " for one in chain)
        raise UsageError(
            f"run {own} would wait for its own end: it waits for {between}run {own}; let one of them end without the "
            "other, or run both from a program outside"
        )
    _WAITS.setdefault(own, []).append(run)
    try:
        yield
    finally:
        _WAITS[own].remove(run)
        if not _WAITS[own]:
            del _WAITS[own]


def _chain(run: str, to: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    """The runs from *run* on, each of which waits for the next, the last one for *to*; empty if none does."""
    seen = (*seen, run)
    for one in _WAITS.get(run, ()):
        if one == to:
            return seen
        if one not in seen and (found := _chain(one, to, seen)):
            return found
    return ()


def _turn() -> str:
    """The key of the turn that calls this; empty if none does."""
    with suppress(LookupError):
        return turn_key()
    held = IN_HAND.get()
    if held is not None and held.type == TURN and isinstance(held.payload, Mapping):
        return str(held.payload.get("key", ""))
    return ""

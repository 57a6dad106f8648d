"""Faults of patterns, not yet located in a file, and faults that several patterns share."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from coterie.base.diagnostics import Severity, did_you_mean

_SLOTS = ("proponent", "opponent", "mediator", "coordinator", "primary", "commander")
"""Slots that patterns require; these are never treated as misspellings of each other."""


class Fault(Struct, frozen=True):
    """One fault.

    Attributes:
        code: Stable diagnostic code.
        message: The message.
        where: The part it concerns: `type`, `slots`, `slots.mediator`, `config.max_rounds`.
    """

    code: str
    message: str
    where: str = ""
    severity: Severity = Severity.ERROR
    hint: str = ""


def missing(message: str, slot: str, names: Sequence[str]) -> Fault:
    """A required slot is missing."""
    near = did_you_mean(slot, [name for name in names if name not in _SLOTS])
    return Fault("missing-slot", message, "slots", hint=near or f"write {slot}: {{model: …}}")


def no_such(where: str, name: str, known: Sequence[str]) -> Fault:
    """The setting *where* names an unknown slot."""
    hint = did_you_mean(name, known) or (f"known slots: {', '.join(dict.fromkeys(known))}" if known else "")
    setting = where.rpartition(".")[2]
    return Fault("unknown-slot", f"{setting} names the unknown slot {name!r}", where, hint=hint)


def strangers(where: str, named: Mapping[str, float], known: Sequence[str]) -> Iterator[Fault]:
    """Unknown slots among the keys of the setting *where*."""
    for name in named:
        if name not in known:
            yield no_such(where, name, known)


def foreign(title: str, names: Sequence[str], known: Sequence[str]) -> Iterator[Fault]:
    """Slots that the pattern does not have."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            yield Fault("unknown-slot", f"{title} has no slot {name!r}", f"slots.{name}", hint=hint)


def spare(what: str, names: Sequence[str], used: Sequence[str]) -> Iterator[Fault]:
    """Slots that are never called."""
    for name in names:
        if name not in used:
            message = f"the slot {name!r} is not a {what}, so it is never called"
            yield Fault("spare-slot", message, f"slots.{name}", Severity.WARNING)

"""What a workflow, a node and an operator with the same keys prove to each other, without a server."""

from typing import Any

from temporalio.common import RawValue
from temporalio.converter import PayloadConverter

from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.orders import Orders, Performance
from coterie.execution.cluster.seals import Charter, Sealed, new_charter, peek, seal
from coterie.execution.cluster.wire import MsgspecConverter

EXECUTION = "00000000-0000-0000-0000-000000000001"


def raw(value: Any) -> RawValue:
    """*value* as a workflow or an activity gets it."""
    converter: PayloadConverter = MsgspecConverter()
    return RawValue(converter.to_payloads([value])[0])


def charter(run: str = "r", ring: KeyRing | None = None) -> tuple[Sealed, Charter]:
    """A charter of *run*, as it travels, and its content."""
    sealed = new_charter(run, ring or KeyRing.of_user())
    return sealed, peek(sealed, Charter)


def orders(run: str = "r", execution: str = EXECUTION) -> Orders:
    """Those of a workflow that drives *run*."""
    ring = KeyRing.of_user()
    return Orders(seal({}, ring, "begin", run), *charter(run), ring, execution)


def performance(name: str = "a#1.1") -> Performance:
    """An order that a node performs as the activity *name*."""
    return Performance(KeyRing.of_user(), charter()[1], EXECUTION, name)


def message(said: Any, run: str = "r") -> RawValue:
    """A message to *run*, as its workflow gets it."""
    return raw(seal(said, KeyRing.of_user(), "message", run))

"""What can happen in a run: one frozen class per topic, one module per noun.

The journal is the truth and everything else a fold of it, so records are small and explain themselves. Fields are
added with defaults; nothing is renamed. Journals of every release stay in `tests/histories/`.

A new noun is a new module that is imported here and listed in `NOUNS`; the codec and the reference page follow.
"""
# ruff: noqa: F403  # users import every record from here

from functools import reduce
from operator import or_
from types import ModuleType
from typing import Any

from coterie.journal.records import (
    actor,
    attempt,
    attention,
    config,
    evaluation,
    event,
    flow,
    gate,
    loop,
    message,
    notes,
    program,
    reply,
    run,
    tree,
    turn,
)
from coterie.journal.records.actor import *
from coterie.journal.records.attempt import *
from coterie.journal.records.attention import *
from coterie.journal.records.base import *
from coterie.journal.records.base import Record
from coterie.journal.records.config import *
from coterie.journal.records.evaluation import *
from coterie.journal.records.event import *
from coterie.journal.records.flow import *
from coterie.journal.records.gate import *
from coterie.journal.records.loop import *
from coterie.journal.records.message import *
from coterie.journal.records.notes import *
from coterie.journal.records.program import *
from coterie.journal.records.reply import *
from coterie.journal.records.run import *
from coterie.journal.records.tree import *
from coterie.journal.records.turn import *

NOUNS = (
    run,
    turn,
    attempt,
    attention,
    gate,
    event,
    message,
    program,
    notes,
    flow,
    config,
    loop,
    tree,
    actor,
    evaluation,
    reply,
)


def _records(noun: ModuleType) -> list[type[Record]]:
    """The records that *noun* defines, in their order there."""
    names = vars(noun).values()
    return [one for one in names if isinstance(one, type) and issubclass(one, Record) and one is not Record]


RECORDS = tuple(record for noun in NOUNS for record in _records(noun))
"""The class of every topic, in the order of the reference page."""
AnyRecord: Any = reduce(or_, RECORDS)
"""The union of `RECORDS`, for typed decoders."""

"""Everything that can happen in a run: one frozen class per topic, one module per noun.

The journal is the truth and everything else is a fold of it, so records are small and self-explanatory. Fields are
added with defaults; nothing is renamed. Journals of every release stay in `tests/histories/`.

A new noun is a new module that is imported here and listed in `NOUNS`; the codec and the reference page use these
lists.
"""
# ruff: noqa: F403  # users import every record from here

from functools import reduce
from operator import or_
from types import ModuleType
from typing import Any

from coterie.history.journal.records import (
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
    set,
    sleep,
    tree,
    turn,
)
from coterie.history.journal.records.actor import *
from coterie.history.journal.records.attempt import *
from coterie.history.journal.records.attention import *
from coterie.history.journal.records.base import *
from coterie.history.journal.records.base import Record
from coterie.history.journal.records.config import *
from coterie.history.journal.records.evaluation import *
from coterie.history.journal.records.event import *
from coterie.history.journal.records.flow import *
from coterie.history.journal.records.gate import *
from coterie.history.journal.records.loop import *
from coterie.history.journal.records.message import *
from coterie.history.journal.records.notes import *
from coterie.history.journal.records.program import *
from coterie.history.journal.records.reply import *
from coterie.history.journal.records.run import *
from coterie.history.journal.records.set import *
from coterie.history.journal.records.sleep import *
from coterie.history.journal.records.tree import *
from coterie.history.journal.records.turn import *

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
    set,
    sleep,
    config,
    loop,
    tree,
    actor,
    evaluation,
    reply,
)


def _records(noun: ModuleType) -> list[type[Record]]:
    """The records that the module *noun* defines, in order."""
    names = vars(noun).values()
    return [one for one in names if isinstance(one, type) and issubclass(one, Record) and one is not Record]


RECORDS = tuple(record for noun in NOUNS for record in _records(noun))
"""The class of every topic, in the order of the reference page."""
AnyRecord: Any = reduce(or_, RECORDS)
"""The union of `RECORDS`, for typed decoders."""

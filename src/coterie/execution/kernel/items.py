"""The sets of a run, and the item in the prompt and the input of a turn."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from coterie.history.engines.commands import Ask, Item
from coterie.history.engines.sets import Given, joined
from coterie.history.journal import records as r
from coterie.history.journal.codec import text_hash

LONGEST_NAME = 80
"""The longest name of an item, in characters."""
LONGEST_VARIABLE = 32_768
"""The longest item, in bytes, that a program gets as a variable."""


class Set(Struct, kw_only=True, gc=False):
    """A set of a run.

    Attributes:
        ask: Its start as that of a turn: its id, its node and its inputs.
        size: How many items it has.
        items: The results of its items, by their numbers.
        equal: The numbers of its items with a result, by the hashes of their values.
        result: Its answer, once it has ended.
        shown: Its results as a part of prompts, once one has shown them.
    """

    ask: Ask
    size: int
    items: dict[int, r.TurnFinished]
    equal: dict[str, int]
    result: r.TurnFinished | None = None
    shown: str = ""

    @classmethod
    def of(cls, record: r.SetStarted) -> "Set":
        """The set that *record* starts."""
        ask = Ask(turn=record.set, agent=record.node, inputs=record.inputs)
        return cls(ask=ask, size=record.items, items={}, equal={})

    def finish(self, item: Item, record: r.TurnFinished) -> None:
        """Keep the result of *item*."""
        self.items[item.k] = record
        self.equal[hash_of(item)] = item.k

    def end(self, record: r.SetEnded) -> r.TurnFinished:
        """Join the results of its items."""
        found = (self.items.get(k) for k in range(1, self.size + 1))
        results = [Given(one.text, one.outputs) if one is not None else None for one in found]
        text, outputs = joined(results, record.outputs)
        self.result = r.TurnFinished(turn=record.set, attempt=0, text=text, outputs=outputs)
        return self.result

    def let_go(self) -> None:
        """Forget what its items answered, which no prompt shows any more."""
        self.items, self.equal, self.shown = {}, {}, ""
        if self.result is not None:
            self.result = msgspec.structs.replace(self.result, text="", outputs={})

    def for_equal(self, item: Item) -> r.TurnFinished | None:
        """Its result for an item that is equal to *item*, if it has one."""
        return self.items.get(self.equal.get(hash_of(item), 0))


def hash_of(item: Item) -> str:
    """SHA-256 of the value of *item* as JSON, in hex."""
    return text_hash(msgspec.json.encode(item.value, order="deterministic").decode())


def name_of(item: Item, hide: Callable[[str], str]) -> str:
    """What people call *item*: a text or number itself, an object by its `name`, `id` or `path`; empty if it has none.

    Several neighbours are called by their place in the list.

    It is one line, shortened if it is long, and without what *hide* takes away.
    """
    value = item.within or item.value
    if isinstance(value, dict):
        value = next((value[key] for key in ("name", "id", "path") if isinstance(value.get(key), str | int)), None)
    if value is None or isinstance(value, list):
        return ""
    text = hide(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    line = " ".join(text.split(None, LONGEST_NAME)[:LONGEST_NAME])
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1]}…"


def text_of(item: Item) -> str:
    """The value of *item* as text: a text as it is, anything else as JSON."""
    return item.value if isinstance(item.value, str) else msgspec.json.encode(item.value).decode()


def as_input(item: Item | None) -> dict[str, Any]:
    """What a team gets of its *item*: the fields of an object by name, else `item`."""
    if item is None:
        return {}
    return item.value if isinstance(item.value, dict) else {"item": item.value}


def as_data(item: Item) -> dict[str, Any]:
    """What a program and a function get of their *item*: `item`, and the name of its list as `item_of`.

    Several neighbours have their place in the list as `items`, such as `21 to 30`.
    """
    return {"item": item.value, "item_of": item.field} | ({"items": item.within} if item.within else {})


def as_variables(item: Item) -> dict[str, str]:
    """The variable `COTERIE_ITEM`, unless the item is too long for one: a program reads it from its input anyway."""
    text = text_of(item)
    fits = "\0" not in text and len(text.encode(errors="replace")) <= LONGEST_VARIABLE
    return {"COTERIE_ITEM": text} if fits else {}

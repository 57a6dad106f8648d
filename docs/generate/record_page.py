"""Generate `docs/reference/records.md` from the records.

python docs/generate/record_page.py > docs/reference/records.md
"""

import inspect
import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from coterie.history.journal.codec import TextLine
from coterie.history.journal.records import RECORDS, Record

HEAD = """\
# Records: what a journal says

<!-- Written by `python docs/generate/record_page.py`; a test keeps it fresh. -->

A run is its journal, `.coterie/runs/RUN/journal.jsonl`: a record a line, as JSON, in the order in which things
happened. `coterie inspect RUN` shows it in sentences, `coterie inspect RUN journal` unchanged. Here is a record:

```json
{"topic":"turn.started","seq":12,"at":1790943321.5,"cause":[11,0],"turn":"writer#2","agent":"writer","inputs":["reviewer#1"]}
```

A field that has its default is not written. Fields are added with defaults and nothing is renamed, so a journal of any
earlier version can still be read; readers of journals should ignore what they do not know. A text above 1 kB
is on a separate line, a [`text`](#text), and records refer to it as `@text:HASH`.

The last field of a record, `crc`, is the CRC-32 of its line up to that field, without blanks. A record that does not
match it is refused with its line. Journals of earlier versions begin without two blanks and have none.
"""

CUT_OFF = """\
## cut off

A run is cut off if its journal has no end and no process drives it: that process was killed, or the machine went down.
`coterie resume RUN` continues it.
"""
COMMON = {
    "turn": "The turn: `reviewer#2` is the second start of `reviewer` in this run.",
    "agent": "The agent.",
    "attempt": "Which attempt of the turn, from 1.",
    "message": "The message in the run's inbox that brought it.",
    "usage": "Tokens, cost and time used.",
    "text": "The text.",
    "outputs": "The named values of the answer.",
    "event": "The event's topic.",
    "payload": "The event's payload.",
    "kind": "The kind of failure.",
    "reason": "Why.",
    "run": "The run's id.",
    "plan": "A plan, as JSON.",
    "plan_hash": "The plan's content hash.",
    "topology": "The topology's name.",
    "epoch": "Which owner it is, from 1.",
    "limits": "What it allows the run.",
    "wave": "Which wave of the run, from 1.",
    "allowed": "The events that may be emitted.",
    "schema": "The version of the record format.",
    "engine_version": "The engine's version.",
    "result": "The result.",
    "pid": "The process.",
    "group": "Its process group.",
    "turns": "The turns.",
    "file": "The file's name.",
    "size": "Bytes.",
    "hash": "A content hash.",
    "input_tokens": "Tokens that were read.",
    "output_tokens": "Tokens that were written.",
}
"""What fields mean wherever a class says nothing else of them."""


def page() -> str:
    """The whole page."""
    kinds = RECORDS
    parts = [kind for record in kinds for kind in _inner(record)]
    return "\n".join(
        [
            HEAD,
            *_section("Every record", Record, None),
            *(line for kind in kinds for line in _section(_topic(kind), kind, Record)),
            *_section("text", TextLine, None),
            *(line for part in dict.fromkeys(parts) for line in _section(part.__name__, part, None)),
            CUT_OFF,
        ]
    )


def _topic(kind: Any) -> str:
    return str(kind.__struct_config__.tag)


def _inner(kind: type[Struct]) -> Iterator[type[Struct]]:
    """The values that fields of *kind* hold and that have fields, inner ones last."""
    for field in fields(kind):
        for part in _parts(field.type):
            if isinstance(part, type) and issubclass(part, Struct):
                yield part
                yield from _inner(part)


def _parts(found: Any) -> Iterator[Any]:
    yield found
    for part in get_args(found):
        yield from _parts(part)


def _section(title: str, kind: type[Struct], base: type[Struct] | None) -> Iterator[str]:
    """A section on *kind*, without the fields that *base* has, too."""
    about, attributes = _said(kind)
    known = {field.name for field in fields(base)} if base else set()
    own = [field for field in fields(kind) if field.name not in known]
    yield f"## {title}\n"
    yield f"{about}\n"
    if own:
        yield "| field | holds | without it | meaning |\n|---|---|---|---|"
        for field in own:
            meaning = attributes.get(field.name) or ("" if f"*{field.name}*" in about else COMMON.get(field.name, ""))
            yield f"| `{field.name}` | {_holds(field.type)} | {_default(field)} | {_cell(meaning)} |"
        yield ""


def _said(kind: type[Struct]) -> tuple[str, dict[str, str]]:
    """What the docstring of *kind* says of it, and of each of its attributes."""
    about, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("\n\nAttributes:\n")
    entries = re.split(r"^    (\w+): ", listed, flags=re.MULTILINE)
    return about, {entries[i]: entries[i + 1] for i in range(1, len(entries), 2)}


_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any value", NoneType: "null"}


def _holds(found: Any) -> str:
    """What a field of the type *found* holds, in words."""
    if isinstance(found, type) and issubclass(found, Struct):
        return f"[{found.__name__}](#{found.__name__.lower()})"
    if isinstance(found, UnionType):
        return " or ".join(_holds(part) for part in get_args(found))
    if get_origin(found) is dict:
        return "values by name"
    if get_origin(found) is tuple:
        parts = get_args(found)
        if parts[-1] is Ellipsis:
            return f"list of {_holds(parts[0])}"
        return "[" + ", ".join(map(_holds, parts)) + "]"
    return _WORDS[found]


def _default(field: FieldInfo) -> str:
    """The default of the field, as a cell; empty if it is always written."""
    if field.default is NODEFAULT:
        return "" if field.default_factory is NODEFAULT else "empty"
    if isinstance(field.default, Struct) or field.default in ("", ()):
        return "empty"
    return f"`{msgspec.json.encode(field.default).decode()}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")

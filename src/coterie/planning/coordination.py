"""The base of what a plan says about coordination: a flow, a loop, a pattern, or a kind that another package adds."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Self

import msgspec
from msgspec import Struct

OWN_KINDS = {
    "flow": "coterie.planning.plan",
    "loop": "coterie.planning.loop",
    "pattern": "coterie.planning.pattern",
    "program": "coterie.planning.program",
    "system": "coterie.planning.system",
}
"""The modules that define our own kinds, by tag: imported when a plan of that kind is read. Others import theirs."""


class Coordination(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="engine"):
    """What decides which agent runs next. Each kind is a subclass with a unique tag, stored as `engine`."""

    @property
    def tag(self) -> str:
        """The tag of its kind."""
        return str(self.__struct_config__.tag)

    def without_folders(self) -> Self:
        """The same without the names of folders, which do not affect the run."""
        return self

    def environments(self) -> Iterator[dict[str, str]]:
        """Texts by name that it gives to code of users, such as the settings of plugins; some may be secrets."""
        yield from ()


def read_coordination(data: dict[str, Any]) -> Coordination:
    """The coordination that was encoded as *data*.

    Raises:
        ValueError: If no kind has that tag, or the data does not fit the kind.
    """
    tag = str(data.get("engine"))
    if tag in OWN_KINDS:
        import_module(OWN_KINDS[tag])
    known = {str(kind.__struct_config__.tag): kind for kind in Coordination.__subclasses__()}
    if tag not in known:
        raise ValueError(f"unknown coordination {tag!r}; known: {', '.join(sorted({*OWN_KINDS, *known}))}")
    return msgspec.convert(data, type=known[tag])

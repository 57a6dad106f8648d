"""The base class of a plan's coordination: a flow, a loop, a pattern, or a kind that another package adds."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Self

import msgspec
from msgspec import Struct

OWN_KINDS = {
    "flow": "coterie.team.planning.plan",
    "flow-each": "coterie.team.planning.plan",
    "flow-each-by": "coterie.team.planning.plan",
    "loop": "coterie.team.planning.loop",
    "pattern": "coterie.team.planning.pattern",
    "program": "coterie.team.planning.program",
    "system": "coterie.team.planning.system",
}
"""The modules of the built-in kinds by tag, imported when a plan of that kind is read. Other packages import theirs."""


class Coordination(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="engine"):
    """Decides which agent runs next. Each kind is a subclass with a unique tag, stored as `engine`."""

    @property
    def tag(self) -> str:
        """The tag of its kind."""
        return str(self.__struct_config__.tag)

    @property
    def reads_values(self) -> bool:
        """Whether it reads the values of the runs above, as functions of agents do."""
        return False

    def without_folders(self) -> Self:
        """A copy without the names of folders, which do not affect the run."""
        return self

    def moved(self, move: Callable[[str], str]) -> Self:
        """The same with the paths that *move* gives for those of its files and folders."""
        return self

    def environments(self) -> Iterator[dict[str, str]]:
        """Texts by name for user code, such as the settings of plugins; some may be secrets."""
        yield from ()


def _below(kind: type[Coordination]) -> Iterator[type[Coordination]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def read_coordination(data: dict[str, Any]) -> Coordination:
    """Decode a coordination from *data*.

    Raises:
        ValueError: If no kind has that tag, or the data is invalid for the kind.
    """
    tag = str(data.get("engine"))
    if tag in OWN_KINDS:
        import_module(OWN_KINDS[tag])
    known = {str(kind.__struct_config__.tag): kind for kind in _below(Coordination)}
    if tag not in known:
        raise ValueError(f"unknown coordination {tag!r}; known: {', '.join(sorted({*OWN_KINDS, *known}))}")
    return msgspec.convert(data, type=known[tag])

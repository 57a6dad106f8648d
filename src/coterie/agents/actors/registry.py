"""The names of the agents of one process."""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import lru_cache
from typing import Generic, TypeVar

T = TypeVar("T")

REMEMBERED = 10_000
"""How many names of stopped agents are kept, to report that an agent has stopped."""


class Registry(Generic[T]):
    """Agents by name, and the names of stopped agents.

    Attributes:
        entries: The registered entries, in the order of registration.
    """

    def __init__(self) -> None:
        self.entries: dict[str, T] = {}
        self._stopped: OrderedDict[str, str] = OrderedDict()

    def __iter__(self) -> Iterator[T]:
        return iter(list(self.entries.values()))

    def add(self, name: str, entry: T) -> None:
        """Register *entry*.

        Raises:
            ValueError: If another entry has that name.
        """
        if self.entries.setdefault(name, entry) is not entry:
            raise ValueError(f"there is an agent {name!r} already")
        self._stopped.pop(name, None)

    def remove(self, name: str, reason: str) -> None:
        """Remove a name, and remember the reason."""
        del self.entries[name]
        self._stopped[name] = reason
        if len(self._stopped) > REMEMBERED:
            self._stopped.popitem(last=False)

    def stopped(self, name: str) -> str | None:
        """Why the agent *name* has stopped; None if there was no such agent."""
        return self._stopped.get(name)


def matching(glob: str, names: Iterable[str]) -> list[str]:
    """The *names* that match *glob* (`*`, `?`, `[…]`; case-sensitive)."""
    matches = _pattern(glob).match
    return [name for name in names if matches(name)]


def path(start: str, end: str, following: Callable[[str], Iterable[str]]) -> list[str] | None:
    """A path from *start* to *end*, where each name is *following* the one before; None if there is none."""
    if start == end:
        return [start]
    seen = {start}
    paths = [[start]]
    while paths:
        names = paths.pop()
        for name in following(names[-1]):
            if name == end:
                return [*names, name]
            if name not in seen:
                seen.add(name)
                paths.append([*names, name])
    return None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))

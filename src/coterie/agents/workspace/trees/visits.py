"""Which attempts work in which work tree: they share it, while a merge into it has it alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Visits:
    """The attempts that work in the trees of one run; a tree is its path, or empty: the user's checkout."""

    def __init__(self) -> None:
        self._visitors: dict[str, tuple[str, bool]] = {}
        self._merging: set[str] = set()
        self._change = asyncio.Event()

    async def begin(self, place: str, tree: str, *, mounts: bool) -> None:
        """Let the attempt at *place* work in *tree*, once no merge goes there.

        Args:
            mounts: Whether it sees another `.git` than everybody else.
        """
        while tree in self._merging:
            await self._change.wait()
        self._visitors[place] = tree, mounts

    def end(self, place: str) -> None:
        """End the visit of *place*, if it has begun."""
        self._visitors.pop(place, None)
        self._changed()

    def links(self, tree: str) -> bool:
        """Whether an attempt needs `.git` in *tree* to name the agents' repository."""
        return (tree, False) in self._visitors.values()

    def is_alone(self, tree: str) -> bool:
        """Whether one attempt at most works in *tree*."""
        return sum(where == tree for where, _ in self._visitors.values()) < 2

    @asynccontextmanager
    async def alone(self, tree: str) -> AsyncIterator[None]:
        """Have *tree* without attempts and merges; attempts that come meanwhile wait."""
        while tree in self._merging:
            await self._change.wait()
        self._merging.add(tree)
        try:
            while any(where == tree for where, _ in self._visitors.values()):
                await self._change.wait()
            yield
        finally:
            self._merging.discard(tree)
            self._changed()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

"""`memory`: the memories of an agent across calls, in its `state`."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.mixins.requests import with_system

_SHOWN = 10
_HOW = "To remember something in your next calls, end your answer with a line `remember: …` for each thing."
_LINE = re.compile(r"^[\s*_`>-]*remember[*_`]*:[*_`]*[ \t]*(?P<what>\S.*?)[ \t*_`]*$\n?", re.IGNORECASE | re.MULTILINE)
_BRIEF = 80


class MemoryConfig(BaseModel):
    """Settings of `memory`.

    Attributes:
        memory_decay: Memories lose importance with time: half after each half-life.
        auto_summarize: Above `summary_threshold` memories, `summarize` condenses the older half into one.
    """

    model_config = {"extra": "forbid"}

    max_memories: int = Field(default=100, ge=1)
    memory_decay: bool = False
    decay_half_life_hours: float = Field(default=24.0, gt=0)
    auto_summarize: bool = False
    summary_threshold: int = Field(default=50, ge=2)


class MemoryMixin(BaseMixin):
    """Shows an agent its memories, and tells it how to add one: a line `remember: …` in its answer, which is removed.

    A response may also list memories under `_remember` (texts, or objects with `content`, `importance` and `tags`).
    """

    name: ClassVar[str] = "memory"
    description: ClassVar[str] = "Remember from call to call"
    config_class: ClassVar[type[BaseModel]] = MemoryConfig
    pure: ClassVar[bool] = True

    @property
    def memories(self) -> list[dict[str, Any]]:
        """All memories, oldest first."""
        return list(self.agent.state.get("memories", ()))

    def remember(self, content: str, importance: float = 0.5, tags: Sequence[str] = ()) -> None:
        """Store *content*; the least important memories are dropped beyond the limit."""
        now = datetime.now(UTC).isoformat()
        kept = [*self.memories, {"content": content, "importance": importance, "tags": list(tags), "at": now}]
        if self.config.auto_summarize and len(kept) > self.config.summary_threshold:
            kept = self._with_summary(kept)
        self._keep(self._pruned(kept))

    def recall(self, tags: Sequence[str] = (), limit: int = _SHOWN) -> list[dict[str, Any]]:
        """The *limit* most important memories, of those with one of *tags*; the newest first among equals."""
        newest_first = reversed(self.memories)
        found = [one for one in newest_first if not tags or set(tags) & set(one["tags"])]
        return sorted(found, key=self._weight, reverse=True)[:limit]

    def forget(self, tags: Sequence[str]) -> int:
        """Drop the memories with one of *tags*; return their number."""
        kept = [one for one in self.memories if not set(tags) & set(one["tags"])]
        gone = len(self.memories) - len(kept)
        self._keep(kept)
        return gone

    def summarize(self, memories: Sequence[dict[str, Any]]) -> str:
        """Condense *memories* into one text: the beginning of each; a subclass may do better."""
        return "; ".join(one["content"][:_BRIEF] for one in memories)

    async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        """Add the memories to the request, and instructions for adding one."""
        shown = "".join(f"\n- {one['content']}" for one in self.recall())
        return with_system(request, f"You remember:{shown}\n\n{_HOW}" if shown else _HOW)

    async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Store the memories that the response lists."""
        said = response.get("_remember")
        for one in said if isinstance(said, list) else []:
            if isinstance(one, str):
                self.remember(one)
            elif isinstance(one, dict) and isinstance(one.get("content"), str):
                self.remember(one["content"], float(one.get("importance", 0.5)), one.get("tags", ()))
        content = response.get("content")
        if not isinstance(content, str):
            return response
        for line in _LINE.finditer(content):
            self.remember(line["what"])
        return {**response, "content": _LINE.sub("", content).strip() or content}

    def _weight(self, one: dict[str, Any]) -> float:
        weight = float(one["importance"])
        if self.config.memory_decay:
            age = datetime.now(UTC) - datetime.fromisoformat(one["at"])
            weight *= math.pow(0.5, age.total_seconds() / 3600 / self.config.decay_half_life_hours)
        return weight

    def _pruned(self, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
        while len(kept) > self.config.max_memories:
            kept.remove(min(kept, key=self._weight))
        return kept

    def _with_summary(self, kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
        old, new = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        importance = max(one["importance"] for one in old)
        tags = list(dict.fromkeys(tag for one in old for tag in one["tags"]))
        made = {"content": self.summarize(old), "importance": importance, "tags": tags, "at": old[-1]["at"]}
        return [made, *new]

    def _keep(self, memories: list[dict[str, Any]]) -> None:
        self.agent.state = {**self.agent.state, "memories": memories}

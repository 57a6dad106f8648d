"""`memory`: what an agent remembers from call to call, in its `state`."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from coterie.patterns.reference.mixins.base import BaseMixin
from coterie.patterns.reference.mixins.requests import with_system

_SHOWN = 10
_BRIEF = 80


class MemoryConfig(BaseModel):
    """How much is remembered, and how long.

    Attributes:
        memory_decay: What is remembered becomes less important with time: half as much after each half-life.
        auto_summarize: Above `summary_threshold` memories, the older half becomes one: `summarize` says which.
    """

    model_config = {"extra": "forbid"}

    max_memories: int = Field(default=100, ge=1)
    memory_decay: bool = False
    decay_half_life_hours: float = Field(default=24.0, gt=0)
    auto_summarize: bool = False
    summary_threshold: int = Field(default=50, ge=2)


class MemoryMixin(BaseMixin):
    """Shows an agent what it remembers, and remembers what its responses say under `_remember` (texts, or objects
    with `content`, `importance` and `tags`).
    """

    name: ClassVar[str] = "memory"
    description: ClassVar[str] = "Remember from call to call"
    config_class: ClassVar[type[BaseModel]] = MemoryConfig
    pure: ClassVar[bool] = True

    @property
    def memories(self) -> list[dict[str, Any]]:
        """All there is, oldest first."""
        return list(self.agent.state.get("memories", ()))

    def remember(self, content: str, importance: float = 0.5, tags: Sequence[str] = ()) -> None:
        """Keep *content*; what matters least is forgotten when there is too much."""
        now = datetime.now(UTC).isoformat()
        kept = [*self.memories, {"content": content, "importance": importance, "tags": list(tags), "at": now}]
        if self.config.auto_summarize and len(kept) > self.config.summary_threshold:
            kept = self._with_summary(kept)
        self._keep(self._pruned(kept))

    def recall(self, tags: Sequence[str] = (), limit: int = _SHOWN) -> list[dict[str, Any]]:
        """The *limit* memories that matter most, of those that have one of *tags*; the newest first among equals."""
        newest_first = reversed(self.memories)
        found = [one for one in newest_first if not tags or set(tags) & set(one["tags"])]
        return sorted(found, key=self._weight, reverse=True)[:limit]

    def forget(self, tags: Sequence[str]) -> int:
        """Forget what has one of *tags*; return how much that was."""
        kept = [one for one in self.memories if not set(tags) & set(one["tags"])]
        gone = len(self.memories) - len(kept)
        self._keep(kept)
        return gone

    def summarize(self, memories: Sequence[dict[str, Any]]) -> str:
        """*memories* as one text; this says the beginning of each, a subclass may know better."""
        return "; ".join(one["content"][:_BRIEF] for one in memories)

    async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        """Show what is remembered."""
        shown = self.recall()
        if not shown:
            return request
        return with_system(request, "You remember:\n" + "\n".join(f"- {one['content']}" for one in shown))

    async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """Remember what the response says should be."""
        said = response.get("_remember")
        for one in said if isinstance(said, list) else []:
            if isinstance(one, str):
                self.remember(one)
            elif isinstance(one, dict) and isinstance(one.get("content"), str):
                self.remember(one["content"], float(one.get("importance", 0.5)), one.get("tags", ()))
        return response

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

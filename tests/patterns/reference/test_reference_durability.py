"""When a program hears of an answer, and what is on disk by then."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from reference_play import agent, team

from coterie.agents.backends.base import Request
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import TurnFinished
from coterie.patterns import (
    BaseMixin,
    BaseTopology,
    DebateTopology,
    EnsembleConfig,
    EnsembleTopology,
    ExecutionContext,
    MemoryMixin,
    MessageType,
    MixinRegistry,
    Topology,
    TopologyType,
    current_call,
)

CALLS = 4


def on_disk(folder: Path) -> list[str]:
    """The turns whose answer no crash takes back."""
    [run] = JsonlStore(folder).list()
    return [one.turn for one in JsonlStore(folder).read(run) if isinstance(one, TurnFinished)]


class Steps(BaseTopology):
    """Asks one thing after the other, and looks at the disk at each answer, and when it is to give one."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig
    folder: Path

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        heard = []
        for n in range(1, CALLS + 1):
            got = await self.invoke_agent("a", [{"role": "user", "content": str(n)}], context)
            heard.append((n, f"a#{n}" in on_disk(self.folder)))
            await self.send_message("a", None, MessageType.BROADCAST, {"said": got.text}, context)
        return {"heard": heard}

    async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
        n = int(current_call().turn.partition("#")[2])
        assert on_disk(self.folder) == [f"a#{k}" for k in range(1, n)]
        return {"content": "done"}


class PureSteps(Steps):
    """The same, which writes nothing: it may say so."""

    pure = True


def heard(kind: type[Steps], folder: Path, **config: Any) -> list[list[Any]]:
    """For each answer, whether it was safe when a *kind* heard of it."""
    made = kind(
        Topology(name="steps", description="steps", topology_type=TopologyType.ENSEMBLE), {"a": agent("a", **config)}
    )
    made.folder = folder
    output = asyncio.run(made.execute({}, state_dir=folder)).output_data
    assert output is not None
    said: list[list[Any]] = output["heard"]
    return said


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was synced so far."""
    if not hasattr(os, "fdatasync"):
        pytest.skip("macOS has no fdatasync")
    made: list[int] = []
    monkeypatch.setattr(os, "fdatasync", made.append)
    return made


def test_a_program_hears_what_no_crash_takes_back(tmp_path: Path, syncs: list[int]) -> None:
    """What it does outside may follow from it: so each answer has a sync of its own, and each call."""
    assert heard(Steps, tmp_path) == [[n, True] for n in range(1, CALLS + 1)]
    assert len(syncs) >= 2 * CALLS


def test_a_pure_program_hears_at_once_and_its_next_call_shares_the_sync(tmp_path: Path, syncs: list[int]) -> None:
    """Nobody is asked before all that led to it is safe; what is told between has no sync of its own."""
    assert heard(PureSteps, tmp_path) == [[n, False] for n in range(1, CALLS + 1)]
    assert len(syncs) <= CALLS + 3


def test_ours_pay_one_sync_a_call(tmp_path: Path, syncs: list[int]) -> None:
    """The stages of a pipeline, with a message each; members that are asked at once share theirs."""

    async def done(request: dict[str, Any]) -> dict[str, Any]:
        return {"content": "done"}

    stages = team("pipeline", [f"s{n}" for n in range(10)], done)
    asyncio.run(stages.execute({"document": "x"}, state_dir=tmp_path / "p"))
    assert len(syncs) <= 13
    syncs.clear()
    members = team("ensemble", [f"ensemble_{n}" for n in range(30)], done, aggregation_method="concat")
    asyncio.run(members.execute({"prompt": "x"}, state_dir=tmp_path / "e"))
    assert len(syncs) <= 8


@pytest.mark.parametrize(("pure", "safe"), [(True, False), (False, True)])
def test_a_mixin_that_acts_outside_hears_what_is_safe_too(tmp_path: Path, pure: bool, safe: bool) -> None:
    """One that says nothing of it counts as one that does."""

    class Acting(BaseMixin):
        name = "acting"

    if pure:
        Acting.pure = True
    MixinRegistry.register(Acting)
    try:
        assert heard(PureSteps, tmp_path, capabilities=[{"name": "acting"}])[0] == [1, safe]
    finally:
        del MixinRegistry._mixins["acting"]


def test_a_tool_that_a_human_allows_acts_once_their_word_is_safe(tmp_path: Path) -> None:
    """In a pure program, too: what a tool does is outside."""
    seen: list[bool] = []

    class Tooled(PureSteps):
        pure = True

        async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
            is_first = len(request["messages"]) == 1
            return {"tool_calls": [{"id": "1", "name": "act", "arguments": {}}]} if is_first else {"content": "done"}

    def act() -> str:
        seen.append(f"human#{len(seen) + 1}" in on_disk(tmp_path))
        return "acted"

    async def human(request: Request) -> str:
        return "yes"

    made = Tooled(
        Topology(name="tooled", description="tooled", topology_type=TopologyType.ENSEMBLE),
        {"a": agent("a", capabilities=[{"name": "tool_use"}, {"name": "human_in_loop"}])},
    )
    made.folder, made.tools = tmp_path, {"act": act}
    asyncio.run(made.execute({}, state_dir=tmp_path, human=human))
    assert seen == [True] * CALLS


def test_what_a_subclass_adds_makes_it_impure() -> None:
    """Until it says otherwise; who answers does not matter."""

    class Answers(DebateTopology):
        async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
            return {}

    class Adds(EnsembleTopology):
        async def _run(self, context: ExecutionContext) -> dict[str, Any]:
            return {}

    class AddsMore(Answers):
        def helper(self) -> None: ...

    class Says(Adds):
        pure = True

    class Remembers(MemoryMixin):
        """Its hooks are its own."""

    assert (Answers.pure, Adds.pure, AddsMore.pure, Says.pure) == (True, False, False, True)
    assert (BaseTopology.pure, EnsembleTopology.pure, MemoryMixin.pure, Remembers.pure) == (False, True, True, False)

"""Plays topology classes: scripted models in virtual time, on a journal in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pattern_cases import Call, Case, Played, script_of

from coterie.base.clock import VirtualClock
from coterie.patterns import (
    AgentRole,
    AgentType,
    BaseTopology,
    CompoundTopology,
    Execution,
    Topology,
    TopologyRegistry,
    TopologyType,
    current_call,
)

Model = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""What stands for `_call_llm`."""


def agent(name: str, /, role: str = "specialist", **config: Any) -> AgentType:
    """An agent type; what fails is not tried again unless *config* says so."""
    return AgentType(name=name, description=f"the {name}", role=AgentRole(role), config={"max_retries": 0, **config})


def team(
    type: str | TopologyType,
    agents: Mapping[str, AgentType] | Sequence[str],
    model: Model | None = None,
    *,
    name: str = "",
    session: Any = None,
    subs: Mapping[str, BaseTopology] | None = None,
    **config: Any,
) -> BaseTopology:
    """A topology object whose calls *model* answers."""
    kind = TopologyType(type)
    filled = agents if isinstance(agents, Mapping) else {slot: agent(slot) for slot in agents}
    defined = Topology(name=name or f"a-{kind.value}", description="a team", topology_type=kind, config=config)
    made = TopologyRegistry.create(defined, filled, session)
    if model is not None:
        made._call_llm = model  # type: ignore[method-assign]
    if subs:
        assert isinstance(made, CompoundTopology)
        made._sub_topologies.update(subs)
    return made


def play(made: BaseTopology, given: Mapping[str, Any], **options: Any) -> Execution:
    """Execute *made* in virtual time, on a journal in memory."""
    clock = VirtualClock()
    return clock.run(made.execute(dict(given), durable=False, clock=clock, **options))


def path_of() -> str:
    """Where the call that is being answered is made: `sub.slot`, or the slot alone in the root."""
    call = current_call()
    above = [part.partition("#")[0] for part in call.run.split("/")[1:]]
    return ".".join([*above, call.slot])


class Scripted:
    """A model that says what a script says, and remembers what it was asked.

    Attributes:
        calls: In the order of their beginning.
    """

    def __init__(self, script: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._script = script
        self._counts: dict[str, int] = {}
        self.calls: list[Call | None] = []

    async def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        slot = path_of()
        replies = self._script[slot]
        k = self._counts[slot] = self._counts.get(slot, 0) + 1
        reply = replies[min(k, len(replies)) - 1]
        n, loop = len(self.calls), asyncio.get_running_loop()
        self.calls.append(None)
        began = loop.time()
        await asyncio.sleep(float(reply.get("slow", 1)))
        chat = tuple((one["role"], one["content"]) for one in request["messages"])
        self.calls[n] = Call(slot=slot, began=began, ended=loop.time(), chat=chat)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        said = {"_confidence": reply["confidence"]} if "confidence" in reply else {}
        return {"content": reply["content"], "usage": {"input_tokens": 10, "output_tokens": 5}, **said}


def play_case(case: Case) -> Played:
    """Play *case* through the topology classes, from its configuration to its end."""
    model = Scripted(script_of(case))
    stored = {one["name"]: one for one in case.get("sub_topologies", ())}

    def made(one: Case, path: tuple[str, ...]) -> BaseTopology:
        agents = {
            slot: agent(slot.replace(".", "-"), said["role"], **{**case["agent_defaults"], **said.get("config", {})})
            for slot, said in one["agents"].items()
        }
        subs = {
            name: made(stored[name], (*path, name))
            for name in one["config"].get("sub_topologies", ())
            if name in stored and name not in path
        }
        for name in path:
            if name in one["config"].get("sub_topologies", ()):
                subs[name] = team(one["topology"], agents, model, name=name, **one["config"])
        return team(one["topology"], agents, model, name=one.get("name", "case"), subs=subs, **one["config"])

    try:
        execution = play(made(case, (case.get("name", "case"),)), case["input"])
    except Exception as error:
        return Played(status="raised", error=str(error), calls=tuple(filter(None, model.calls)))
    return Played(status="completed", calls=tuple(filter(None, model.calls)), output=execution.output_data)

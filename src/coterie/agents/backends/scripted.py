"""The backend of rehearsals: plays agents without a model, by the time of the event loop, virtual or real."""

import asyncio
import json
from functools import partial
from typing import Any

from msgspec import UNSET

from coterie.agents.backends.base import Abilities, Answer, Emitted, Failure, OnEvent, Request, Result, Session, Text
from coterie.agents.backends.pending import Pending
from coterie.agents.backends.script_file import Emission
from coterie.agents.backends.scripts import Script, ScriptedAttempt, parse_script, read_script
from coterie.history.engines.schemas import sample
from coterie.history.journal.records import Usage
from coterie.team.planning.plan import AgentPlan, Wanted

__all__ = ["Script", "ScriptedBackend", "read_script"]

_UNSCRIPTED = ScriptedAttempt()


class ScriptedBackend:
    """Answers for all agents, actions, gates and humans.

    An agent without entries takes 1 second a turn; its turn n answers `<agent> <n>` and the n-th value of each declared
    output, repeating the last: an enum's values in order, true then false, n for a number, `<agent> <n>` for a text. In
    a loop it emits the event with the shortest path to the end. With entries, its k-th attempt plays the k-th entry,
    repeating the last; an attempt that takes longer than the agent's time-out fails with `timeout`.

    Args:
        script: What each agent does at each attempt, by its name, or `node/agent` in the topology at a node.
        prefix: Put before each agent's path when its entries are looked up: `panel` for `panel/critic`.

    Raises:
        UsageError: If the script is invalid.
    """

    uses_context = True
    abilities = Abilities(cost=True)

    def __init__(self, script: Script | None = None, *, prefix: str = "") -> None:
        self._script = parse_script(script or {})
        self._prefix = prefix
        self._attempts: dict[str, int] = {}
        self._sessions: set[Pending] = set()

    async def start(self, request: Request, on_event: OnEvent) -> Session:
        """Start to play one attempt; returns at once."""
        entry, agent, session = self._next(request), request.agent, Pending()
        seconds, result = entry.seconds, _result(entry, request)
        if agent.kind != "human" and agent.timeout is not None and agent.timeout < seconds:
            seconds = agent.timeout
            reason = f"it took longer than its time-out of {seconds:g} s"
            entry, result = ScriptedAttempt(), Failure(kind="timeout", reason=reason, usage=Usage(seconds=seconds))
        end = partial(_end, session, entry, result, on_event)
        self._sessions.add(session)
        session.when_over(partial(self._sessions.discard, session))
        session.when_over(asyncio.get_running_loop().call_later(seconds, end).cancel)
        return session

    async def close(self) -> None:
        """Interrupt all attempts that still run. Idempotent."""
        for session in list(self._sessions):
            await session.interrupt()

    def _next(self, request: Request) -> ScriptedAttempt:
        """The entry to play: from the script, or in a loop one that leads to its end."""
        path = path_of(request)
        if self._prefix:
            path = f"{self._prefix}/{path}"
        entries = self._script.get(path)
        if entries is None:
            event = request.context.get("loop", {}).get("nearest", "")
            return ScriptedAttempt(emits=(Emission(topic=event),)) if event else _UNSCRIPTED
        k = self._attempts[path] = self._attempts.get(path, 0) + 1
        return entries[min(k, len(entries)) - 1]


def path_of(request: Request) -> str:
    """The names of the nodes from the root down to the agent: `panel/critic` for `critic` of the team at `panel`."""
    return "/".join((*request.nodes, request.agent.name))


def default_outputs(agent: AgentPlan, n: int) -> dict[str, Any]:
    """The outputs of *agent* in its *n*-th turn, from 1, unless a script says otherwise."""
    outputs = {
        wanted.name: _value(wanted, agent.name, n) for wanted in agent.outputs if wanted.declared or wanted.needed
    }
    return {"passed": n == 1} | outputs if agent.verdict else outputs


def _value(wanted: Wanted, agent: str, n: int) -> Any:
    if wanted.type == "list" and wanted.schema:
        of = wanted.schema.get("items", {}).get("type", "string")
        return [f"{agent} {n}.{k}" if of == "string" else sample({"type": of}) for k in (1, 2)]
    if wanted.schema:
        return sample(wanted.schema)
    match wanted.type:
        case "enum" | "text" | "any" if wanted.values:
            return wanted.values[min(n, len(wanted.values)) - 1]
        case "boolean":
            return n == 1
        case "number" | "integer":
            return n
        case "list":
            return [f"{agent} {n}"]
        case _:
            return f"{agent} {n}"


def _result(entry: ScriptedAttempt, request: Request) -> Result:
    if (failure := entry.failure) is not None:
        return failure
    agent, n, usage = request.agent, int(request.turn.rpartition("#")[2]), entry.used
    outputs = None if entry.outputs is UNSET else entry.outputs
    if outputs is None and entry.text is UNSET:
        if request.wanted:
            return Answer(text=_smallest(request.wanted, agent.name, n), usage=usage)
        outputs = default_outputs(agent, n)
    return Answer(text=f"{agent.name} {n}" if entry.text is UNSET else entry.text, outputs=outputs, usage=usage)


def _smallest(wanted: tuple[Wanted, ...], agent: str, n: int) -> str:
    """The smallest JSON that answers a prompt for *wanted*."""
    needed = [one for one in wanted if one.declared] or wanted
    return json.dumps({one.name: _value(one, agent, n) for one in needed}, ensure_ascii=False)


def _end(session: Pending, entry: ScriptedAttempt, result: Result, on_event: OnEvent) -> None:
    if session.over:
        return
    said = result.text if isinstance(result, Answer) else entry.text
    if said:
        on_event(Text(text=said))
    for emitted in entry.emits:
        on_event(Emitted(event=emitted.topic, payload=emitted.payload))
    session.settle(result)

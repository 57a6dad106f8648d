"""A topology class that is killed after each of its appends, and resumed: `python killed_program.py FOLDER [STEP]`.

Prints a line of JSON for the run that is left alone, for each that is killed, and for the first that ends before it
would be. Every execution is a process of its own, forked before anything runs; it dies by SIGKILL.
"""

import asyncio
import gc
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import killed
import unsynced

import coterie.agents.backends.processes
import coterie.patterns.builtin.compound
import coterie.patterns.builtin.ensemble
import coterie.patterns.reference.execution  # noqa: F401 - once, before anything is forked
from coterie.execution.kernel import retries
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import TurnFinished
from coterie.patterns import (
    AgentInvocationResult,
    AgentRole,
    AgentType,
    BaseMixin,
    BaseTopology,
    CompoundConfig,
    CompoundTopology,
    EnsembleConfig,
    Execution,
    ExecutionContext,
    MessageType,
    PipelineConfig,
    Topology,
    TopologyRegistry,
    TopologyType,
    current_call,
    mixin,
)

FINDINGS = 3
LEDGER = Path("ledger")


def note(what: str) -> None:
    """Write *what* down at once: a line survives the process."""
    with open(LEDGER, "a", encoding="utf-8") as ledger:
        ledger.write(f"{what}\n")


@mixin
class Witness(BaseMixin):
    """Counts its agent's calls in its state, shows the count, and tells when it was called."""

    name = "witness"

    async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        asked = self.agent.state.get("asked", 0) + 1
        self.agent.state = {**self.agent.state, "asked": asked}
        return {**request, "nth": [asked, self.agent.state.get("answered", 0)]}

    async def on_response(self, response: dict[str, Any]) -> dict[str, Any]:
        self.agent.state = {**self.agent.state, "answered": self.agent.state.get("answered", 0) + 1}
        note(f"heard {current_call().turn}")
        return {**response, "witnessed": self.agent.state["answered"]}


class Scribe(BaseTopology):
    """Plans, looks at several things at once, tells of it, and writes it up."""

    topology_type = TopologyType.PIPELINE
    config_class = PipelineConfig

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        plan = await self._ask("planner", context.input_data["task"], context)
        found = await asyncio.gather(*(self._ask("finder", f"{plan.text}, {n}", context) for n in range(FINDINGS)))
        for n, one in enumerate(found):
            context.round_number = n
            await self.send_message("finder", "writer", MessageType.REQUEST, {"found": one.text}, context)
        broken = await self._ask("broken", "whatever", context)
        text = await self._ask("writer", "; ".join(one.text for one in found), context)
        own = AgentInvocationResult(agent_instance_id=text.agent_instance_id, output={"of": text.text}, duration_ms=0)
        await self.record_result(own, context)
        return {
            "text": text.text,
            "broken": broken.error,
            "witnessed": [one.output["witnessed"] for one in [plan, text]],
        }

    async def _ask(self, slot: str, text: str, context: ExecutionContext) -> AgentInvocationResult:
        result = await self.invoke_agent(slot, [{"role": "user", "content": text}], context)
        await self.record_result(result, context)
        return result


async def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What stands for the model."""
    call = current_call()
    name = f"{call.run.partition('/')[2]}:{call.turn}"
    note(f"began {name}")
    await asyncio.sleep(0)
    if call.slot == "broken":
        raise ConnectionError("nobody is there")
    return {"content": f"{call.slot} on {request['messages'][-1]['content'][:60]} {request.get('nth')}"}


def agents(*slots: str, **config: Any) -> dict[str, AgentType]:
    """An agent for each slot."""
    made = {"max_retries": 1, **config}
    return {slot: AgentType(name=slot, description=slot, role=AgentRole.EXECUTOR, config=made) for slot in slots}


def team() -> BaseTopology:
    """The scribe, then an ensemble, as one compound."""
    witness = {"capabilities": [{"name": "witness"}]}
    scribe = Scribe(
        Topology(name="scribe", description="a scribe", topology_type=TopologyType.PIPELINE),
        {**agents("planner", "writer", **witness), **agents("finder", "broken")},
    )
    config = EnsembleConfig(aggregation_method="concat").model_dump(mode="json")
    panel = TopologyRegistry.create(
        Topology(name="panel", description="a panel", topology_type=TopologyType.ENSEMBLE, config=config),
        agents("ensemble_0", "ensemble_1"),
    )
    config = CompoundConfig(sub_topologies=["scribe", "panel"]).model_dump(mode="json")
    both = Topology(name="both", description="both", topology_type=TopologyType.COMPOUND, config=config)
    made = CompoundTopology(both, {}, sub_topologies={"scribe": scribe, "panel": panel})
    for one in (scribe, panel):
        one._call_llm = answer  # type: ignore[method-assign]
    return made


def keep(execution: Execution) -> None:
    """Write the output down."""
    Path("output").write_text(json.dumps(execution.output_data), encoding="utf-8")


async def begin() -> None:
    """Execute it, and keep the output."""
    execution = await team().execute({"task": "count the birds"})
    keep(execution)


async def go_on() -> None:
    """Resume it, and keep the output."""
    [run] = JsonlStore(Path(".coterie")).list()
    execution = await team().resume(run)
    keep(execution)


def in_process(what: Any, *, die_at: int = 0) -> int:
    """Run *what* in a process of its own; its exit status, negative if it was killed."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if die_at:
                killed.arm("append", die_at)
            asyncio.run(what())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finished(folder: Path) -> list[str]:
    """The turns whose answer is in the journals."""
    store, found = JsonlStore(folder), []

    def look(run: str) -> None:
        below = []
        for record in store.read(run):
            if isinstance(record, TurnFinished):
                found.append(f"{run.partition('/')[2]}:{record.turn}")
            turn = getattr(record, "turn", "")
            if turn.partition("#")[0] in ("scribe", "panel") and f"{run}/{turn}.1" not in below:
                below.append(f"{run}/{turn}.1")
        for child in below:
            if (store.folder(child) / "journal.jsonl").exists():
                look(child)

    for run in store.list():
        look(run)
    return found


def report(folder: Path, n: int) -> dict[str, Any]:
    """Play it in *folder*, dying at append *n*, and resume it."""
    folder.mkdir()
    os.chdir(folder)
    died = in_process(begin, die_at=n) < 0
    before = finished(Path(".coterie")) if died else []
    note("resumed")
    resumed = in_process(go_on) if died and JsonlStore(Path(".coterie")).list() else 0
    return {
        "n": n,
        "died": died,
        "before": before,
        "resumed": resumed,
        "ledger": LEDGER.read_text(encoding="utf-8").splitlines(),
        "output": json.loads(Path("output").read_text(encoding="utf-8")) if Path("output").exists() else None,
    }


def main(place: Path, step: int = 1) -> None:
    """Play it without harm, then killed at every *step*-th append until it ends before."""
    unsynced.apply()
    retries._backoff = lambda failures: 0.0  # type: ignore[assignment]
    gc.freeze()  # what is loaded is shared with every process that is forked
    n = 0
    while True:
        made = report(place / str(n), n)
        print(json.dumps(made), flush=True)
        if n and not made["died"]:
            return
        n += step


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *map(int, sys.argv[2:]))

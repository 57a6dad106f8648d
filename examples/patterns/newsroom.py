"""A custom topology class: one agent plans, several research in parallel, one writes. It needs no model.

python examples/patterns/newsroom.py "Bees dance."
KILL_AT=finder#2 python examples/patterns/newsroom.py "Bees dance."
python examples/patterns/newsroom.py --resume RUN
"""

import asyncio
import os
import signal
import sys
from typing import Any

from coterie.patterns import (
    AgentRole,
    AgentType,
    BaseTopology,
    ExecutionContext,
    MessageType,
    PipelineConfig,
    Topology,
    TopologyType,
    current_call,
)


class Newsroom(BaseTopology):
    topology_type = TopologyType.PIPELINE
    config_class = PipelineConfig

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        plan = await self._ask("planner", context.input_data["topic"], context)
        found = await asyncio.gather(*(self._ask("finder", f"{plan}, part {n}", context) for n in (1, 2, 3)))
        await self.broadcast_message("finder", MessageType.RESPONSE, {"found": found}, context)
        return {"text": await self._ask("writer", "; ".join(found), context)}

    async def _ask(self, slot: str, question: str, context: ExecutionContext) -> str:
        result = await self.invoke_agent(slot, [{"role": "user", "content": question}], context)
        if result.error is not None:
            raise RuntimeError(f"{slot}: {result.error}")
        await self.record_result(result, context)
        return result.text

    async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
        turn = current_call().turn
        print("asked:", turn)
        if turn == os.environ.get("KILL_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"content": f"{turn} of <{request['messages'][-1]['content']}>"}


def newsroom() -> Newsroom:
    defined = Topology(name="newsroom", description="A small newsroom", topology_type=TopologyType.PIPELINE)
    slots = ("planner", "finder", "writer")
    return Newsroom(defined, {slot: AgentType(name=slot, description=slot, role=AgentRole.EXECUTOR) for slot in slots})


async def main(words: list[str]) -> None:
    if words[0] == "--resume":
        execution = await newsroom().resume(words[1])
    else:
        execution = await newsroom().execute({"topic": words[0]})
    print(execution.status.value, execution.output_data)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

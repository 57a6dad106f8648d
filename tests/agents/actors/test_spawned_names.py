"""The names of agents that others spawn."""

import asyncio
from typing import Any

from bundles import bundle

from coterie import AgentProcess, DynamicSupervisor, Message, Runtime, Supervisor
from coterie.errors import SpawnError


@bundle("name", ["_runtime", "a/b", "a#1", "*", "", "a\x07", 5])
def test_a_spawned_agent_is_named_like_one_of_a_file(name: Any) -> None:
    """A name that comes with a message can be anything."""

    async def main() -> None:
        runtime = Runtime(Supervisor("root", children=[DynamicSupervisor("pool"), Maker("maker")]))
        async with runtime:
            reply = await runtime.ask("maker", {"name": name})
            assert "cannot spawn" in reply.payload["refused"]
            runtime.print_tree()

    asyncio.run(main())


class Maker(AgentProcess):
    """Spawns an agent under the name in the message."""

    async def handle(self, message: Message) -> Message | None:
        """Answer with the refusal."""
        try:
            await self.spawn(Maker, message.payload["name"])
        except SpawnError as error:
            return self.reply({"refused": str(error)})
        return None

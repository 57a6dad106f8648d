"""An agent with one method for requests, one for commands and one for all other messages, like Erlang's gen_server."""

import inspect
from typing import Any

from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess


class GenServer(AgentProcess):
    """An agent that distinguishes calls, casts and other messages.

        class Stack(GenServer):
            async def handle_call(self, payload, from_):
                return {"top": self.state["items"][-1]}

            async def handle_cast(self, payload):
                self.state.setdefault("items", []).append(payload)

    An ask is a call, whatever its type; `self.cast` and `ActorNode.cast` send casts; timers (`self.send_after`, in
    seconds), monitors and plain sends are infos.
    """

    async def init(self) -> None:
        """Prepare. Called by `on_start`; may be a plain function."""

    async def on_start(self) -> None:
        """Call `init`."""
        prepared: Any = self.init()
        if inspect.isawaitable(prepared):
            await prepared

    async def handle_call(self, payload: Any, from_: str) -> Any:
        """Return the payload of the reply to the agent *from_*."""
        raise NotImplementedError(f"{type(self).__name__} does not define handle_call")

    async def handle_cast(self, payload: Any) -> None:
        """Handle a command that has no reply."""
        raise NotImplementedError(f"{type(self).__name__} does not define handle_cast")

    async def handle_info(self, payload: Any) -> None:
        """Handle another message; ignored unless overridden."""

    async def handle(self, message: Message) -> Message | None:
        """Call the method for the kind of message."""
        if message.reply_to is not None:
            return self.reply(await self.handle_call(message.payload, message.sender), "reply")
        if message.type == "cast":
            await self.handle_cast(message.payload)
        else:
            await self.handle_info(message.payload)
        return None

"""The agent of the chat: it repeats what it hears, word by word."""

from coterie import AgentProcess, Message


class Parrot(AgentProcess):
    """Says each word twice, and remembers how many it has heard."""

    async def handle(self, message: Message) -> Message | None:
        """Give each word as a piece of the reply, then the whole reply."""
        said = []
        for word in str(message.payload.get("text", "")).split():
            said.append(f"{word} {word}")
            await self.stream({"text": said[-1]})
        self.state["heard"] = self.state.get("heard", 0) + len(said)
        await self.checkpoint()
        return self.reply({"text": ", ".join(said), "heard": self.state["heard"]})

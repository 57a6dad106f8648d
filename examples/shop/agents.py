"""The agents of the shop's counter. The clerk has a bug on purpose: it crashes at a letter without a subject."""

from coterie import AgentProcess, Message
from coterie.errors import AgentCrashed

POST = [
    {"from": "Ada", "subject": "order", "text": "When does my order 17 arrive?"},
    {"from": "Bob", "text": "I forgot the subject."},
    {"from": "Cyd", "subject": "refund", "text": "The kettle of order 12 leaks. I want my money back."},
]


class Ledger(AgentProcess):
    """Keeps a line for each letter; what it has checkpointed survives a restart."""

    async def handle(self, message: Message) -> Message | None:
        """Add a line, or answer with all of them."""
        lines = self.state.setdefault("lines", [])
        if message.payload == "read":
            return self.reply(list(lines))
        lines.append(message.payload)
        await self.checkpoint()
        return None


class Clerk(AgentProcess):
    """Decides where a letter belongs."""

    async def handle(self, message: Message) -> Message | None:
        """Answer with the place for the letter; one without a subject is the bug."""
        letter = message.payload
        return self.reply("refunds" if letter["subject"] == "refund" else "writer")


class Desk(AgentProcess):
    """Answers the post: the clerk sorts it, the back office answers it, the ledger keeps what was done."""

    async def handle(self, message: Message) -> Message | None:
        """Work through the post and answer with the ledger."""
        for letter in POST:
            await self._answer(letter)
        lines = await self.ask("ledger", "read")
        return self.reply({"text": "\n".join(lines.payload)})

    async def _answer(self, letter: dict[str, str]) -> None:
        try:
            place = (await self.ask("clerk", letter)).payload
        except AgentCrashed as crash:
            await self.send("ledger", f"{letter['from']}: put aside, the clerk crashed ({crash.error})")
            return
        answer = (await self.ask(place, {"prompt": f"{letter['from']} writes: {letter['text']}"}, timeout=60)).payload
        stamp = (await self.ask("stamp", answer["text"])).payload
        await self.send("ledger", f"{letter['from']}: {stamp['text'].strip()}")

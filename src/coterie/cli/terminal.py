"""Ask a human on the terminal that a run was started from."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

from coterie.backends.base import Request
from coterie.cli.output import say
from coterie.cli.text import runs as text
from coterie.planning.plan import Wanted

AskAside = Callable[[], AbstractContextManager[object]]
"""Returns a context in which a question has the terminal."""


class Terminal:
    """Asks one question at a time.

    Lines are read on the event loop, so a question that is cancelled or answered elsewhere leaves the terminal at once.
    After the end of input (Ctrl-D), the question stays open for `coterie control respond`.

    Args:
        aside: Hides the display while a question is on the terminal.
        source: The descriptor of the terminal's input.
    """

    def __init__(self, aside: AskAside, source: int | None = None) -> None:
        self._aside = aside
        self._source = sys.stdin.fileno() if source is None else source
        self._free = asyncio.Lock()

    async def ask(self, request: Request) -> str:
        """Print the question of *request* and wait for the answer: a line of text, then each output."""
        async with self._free:
            with self._aside():
                say(text.question(request))
                answer = await self._line("> ")
                for wanted in request.agent.outputs:
                    answer += f"\n{wanted.name}: {await self._output(wanted)}"
                return answer

    async def _output(self, wanted: Wanted) -> str:
        """Read one output; repeat the question while the line is empty or no member of the enum."""
        choice = [str(value) for value in wanted.values]
        prompt = f"{wanted.name} ({' | '.join(choice) or wanted.type}): "
        while True:
            given = (await self._line(prompt)).strip()
            if given and not (wanted.type == "enum" and given not in choice):
                return given

    async def _line(self, prompt: str) -> str:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            loop.remove_reader(self._source)
            if not arrived.done():
                arrived.set_result(os.read(self._source, 65536))

        loop.add_reader(self._source, read)
        try:
            line = await arrived
        finally:
            loop.remove_reader(self._source)
        if not line:
            say("(no answer here; you can still answer with `coterie control respond`)")
            await loop.create_future()
        return line.decode("utf-8", "replace").rstrip("\r\n")

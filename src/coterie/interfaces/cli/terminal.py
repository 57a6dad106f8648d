"""Ask a human on the terminal that a run was started from."""

import asyncio
import os
import shutil
import sys
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

from coterie.agents.backends.base import Request
from coterie.history.engines.replies import expectation, find_outputs, fit
from coterie.history.views.attention import Attention
from coterie.interfaces.cli.output import complain, prompt
from coterie.interfaces.cli.text import attention
from coterie.interfaces.cli.text import runs as text
from coterie.team.planning.plan import Wanted
from coterie.team.topology.conditions import equal, is_number

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
        """Print the question of *request* and wait for the answer: a line of text, then each output it lacks."""
        async with self._free:
            with self._aside():
                complain(text.question(request, shutil.get_terminal_size()))
                try:
                    return await self._answer(request)
                except asyncio.CancelledError:
                    self._forget_typed()
                    complain(f"\n({request.turn} no longer waits for an answer here)")
                    raise

    async def approve(self, one: Attention) -> str:
        """Print the request of an attempt to a person, and wait for one of its answers.

        While another question is on the terminal, one line says so, since this one may have a deadline.
        """
        if self._free.locked():
            prompt(f"\n({attention.meanwhile(one)})\n> ")
        async with self._free:
            with self._aside():
                complain(attention.question(one))
                try:
                    while not (word := attention.answer_of(one, (await self._line("> ")).strip())):
                        complain(attention.choices(one))
                    return word
                except asyncio.CancelledError:
                    self._forget_typed()
                    complain(f"\n({one.id} no longer waits for an answer here)")
                    raise

    async def _answer(self, request: Request) -> str:
        """Read the text, then each output that it does not hold; the value of an only output may come alone.

        A question mark alone shows all of the question.
        """
        outputs = request.agent.outputs
        while (answer := await self._line("> ")).strip() == "?":
            complain(text.question(request))
        if len(outputs) == 1 and outputs[0].values and _fitting(outputs[0], answer.strip()) is not None:
            return answer
        for wanted in outputs:
            if _given(wanted, answer) is None:
                answer += f"\n{await self._output(wanted)}"
        return answer

    async def _output(self, wanted: Wanted) -> str:
        """Read the line of one output; for an invalid one, print the reason and read another."""
        choice, refused = " | ".join(map(str, wanted.values)) or wanted.type, ""
        while True:
            line = (await self._line(f"{wanted.name} ({choice}): ")).strip()
            named = line if find_outputs(line, [wanted]) else f"{wanted.name}: {line}"
            if line and (_given(wanted, named) is not None or wanted.type == "list" or line == refused):
                return named
            if not line:
                complain(f"{wanted.name} is needed")
            elif wanted.declared:
                complain(f"{wanted.name} must be {expectation(wanted)}, not {line!r}")
            else:
                complain(f"no condition compares {wanted.name} with {line!r}; enter it again to give it anyway")
                refused = line

    async def _line(self, shown: str) -> str:
        prompt(shown)
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
            complain("(no answer here; you can still answer with `coterie control respond` or `coterie attention`)")
            await loop.create_future()
        return line.decode("utf-8", "replace").rstrip("\r\n")

    def _forget_typed(self) -> None:
        """Discard unread input, which would otherwise begin the answer to the next question."""
        with suppress(termios.error):
            termios.tcflush(self._source, termios.TCIFLUSH)


def _given(wanted: Wanted, text: str) -> Any:
    """The value of *wanted* that *text* names; None if it names none."""
    return _fitting(wanted, find_outputs(text, [wanted]).get(wanted.name))


def _fitting(wanted: Wanted, value: Any) -> Any:
    """*value* if it fits *wanted*, else None; an undeclared one fits where conditions compare it with it."""
    if wanted.declared or not wanted.values:
        return fit(value, wanted)
    return value if any(equal(value, one) for one in wanted.values) or is_number(value) else None

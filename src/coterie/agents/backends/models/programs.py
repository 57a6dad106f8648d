"""The tools `Bash` and `autoloops`: programs that a model runs, each as a marked process of its attempt.

A command line is split into words as in a shell, but no shell runs it. A program gets the environment of the attempt
without secret-looking variables of this process. Its process group and descendants end with it; processes that left
them end with the attempt.
"""

import asyncio
import os
import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from coterie.agents.backends.agentside.client import TOKEN
from coterie.agents.backends.agentside.words import Misused, message_of
from coterie.agents.backends.attempt import ProcessEnvironment, prepared
from coterie.agents.backends.base import OnEvent, Request
from coterie.agents.backends.child import Child, spawn
from coterie.agents.backends.models.rules import Refused, Rules
from coterie.agents.backends.needs import variables_of
from coterie.agents.backends.outcome import OutputReader, cannot_start
from coterie.agents.backends.processes import GRACE, end_group
from coterie.agents.backends.secrets import Secrets, without_secrets

LONGEST = 600.0
"""The longest time that a program may take, in seconds."""
_USUAL = 120.0
_OUTPUT = 30_000
"""How many bytes of output are kept, from its end."""
_LINGER = 1.0


class Programs:
    """Runs the programs of one attempt.

    Args:
        stack: Removes the files of the attempt when it unwinds.

    Raises:
        OSError: If the files of the attempt cannot be written.
    """

    def __init__(
        self, request: Request, rules: Rules, secrets: Secrets, on_event: OnEvent, stack: AsyncExitStack
    ) -> None:
        self._environment = stack.enter_context(prepared(request))
        self._variables = _variables(request, self._environment)
        self._nothing = stack.enter_context(open(os.devnull, "rb"))  # noqa: SIM115 - the stack is its context
        self._rules, self._secrets, self._on_event = rules, secrets, on_event
        self._marker = request.ref.marker

    async def bash(self, command: str, seconds: float = _USUAL) -> str:
        """Run a program and return its exit status and output.

        No shell is used: pipes, redirections, `&&`, `;`, variables and wildcards are not available.

        Args:
            command: The program and its arguments, quoted as for a shell.
            seconds: How long it may take, at most 600; then it is ended.
        """
        argv = _split(command)
        self._rules.check_command(argv)
        return await self._run(argv, min(max(seconds, 1.0), LONGEST))

    async def autoloops(self, command: str) -> str:
        """Run the command `autoloops` that the prompt names: emit an event, or change memory or tasks.

        Args:
            command: The words behind `autoloops`, quoted as for a shell: `emit EVENT 'what the next role needs'`.
        """
        words = _split(command)
        try:
            if message_of(words) is None:
                raise Refused("write emit EVENT 'TEXT', or a change of memory or tasks that the prompt shows")
        except Misused as error:
            raise Refused(str(error)) from error
        return await self._run([self._environment.env["AUTOLOOP_BIN"], *words], _USUAL)

    async def _run(self, argv: Sequence[str], seconds: float) -> str:
        """Run *argv* for at most *seconds*, and return its exit status and output."""
        output = OutputReader("log", self._secrets, self._on_event, _OUTPUT)
        try:
            child = await spawn(
                argv,
                stdin=self._nothing,
                env=self._variables,
                cwd=self._environment.cwd,
                marker=self._marker,
                on_event=self._on_event,
                on_output=lambda fd, data: output.feed(data),
                merged=True,
            )
        except (OSError, ValueError) as error:
            raise Refused(cannot_start(argv[0], self._environment.cwd, error).reason) from error
        ended = await self._until_over(child, seconds)
        output.end()
        how = f"exit status {child.status}" if ended else f"ended after {seconds:g} s, its limit of time"
        return f"{how}\n{output.text}".rstrip()

    async def _until_over(self, child: Child, seconds: float) -> bool:
        """Wait for *child*, end the processes that it left behind, and return whether it ended in time."""
        exited: set[asyncio.Future[Any]] = {child.exited}
        try:
            await asyncio.wait(exited, timeout=seconds)
            return child.exited.done()
        finally:
            await end_group(child.pid, grace=GRACE, since=child.since)
            await child.drain(_LINGER)
            child.close()


def _split(command: str) -> Sequence[str]:
    """Split *command*, which must be one program with its arguments.

    Raises:
        Refused: If it is not.
    """
    if "\0" in command:
        raise Refused("the command contains a NUL")
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        words, signs = shlex.split(command), [word for word in lexer if word and set(word) <= set("();<>|&")]
    except ValueError as error:
        raise Refused(f"the command cannot be split into words: {error}") from error
    if not words:
        raise Refused("the command is empty")
    if unquoted := [sign for sign in signs if sign not in words or f" {sign} " in f" {command} "]:
        raise Refused(f"no shell is used, so {unquoted[0]!r} has no meaning: run one program at a time")
    return words


def _variables(request: Request, environment: ProcessEnvironment) -> dict[str, str]:
    """The environment of the attempt; its only secrets are those that the file gives the agent, and its token."""
    names = (*variables_of(request.agent), TOKEN)
    return without_secrets(environment.env) | {name: environment.env[name] for name in names if name in environment.env}

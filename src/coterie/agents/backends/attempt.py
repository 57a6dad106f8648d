"""Prepare the process of an attempt: its environment, its files, its working directory.

Files with a prompt are readable only by their owner, and removed when the attempt is over.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from coterie.agents.backends import reported, wrapper
from coterie.agents.backends.agentside import detached
from coterie.agents.backends.agentside.client import ATTEMPT_FOLDER, MESSAGE, NOTES_FOLDER, OWN, RUN_FOLDER, TOKEN
from coterie.agents.backends.base import Request, Say, discard
from coterie.agents.backends.git_variables import LOCAL
from coterie.agents.backends.needs import sandbox_of, variables_of
from coterie.agents.backends.processes import MARK
from coterie.agents.backends.sandbox import restoring
from coterie.agents.backends.secrets import without_secrets
from coterie.base import files, program_files
from coterie.errors import Unconfined

TURN_FILE = "turn.json"
PROMPT_FILE = "prompt.md"
LONGEST_WORD = 100_000
"""The longest prompt in bytes that is passed as an argument; a longer one is in a file named by the argument."""

_OUTER = frozenset({"COTERIE_PROMPT_FILE", RUN_FOLDER, NOTES_FOLDER, MESSAGE, TOKEN, "COTERIE_CLUSTER"})
"""Variables of an outer run and of its operator that must not be inherited; others are always replaced."""
_SPEAKER = (
    "COTERIE_RUN",
    "COTERIE_TURN",
    "COTERIE_ATTEMPT",
    "COTERIE_EPOCH",
    TOKEN,
    RUN_FOLDER,
    ATTEMPT_FOLDER,
    NOTES_FOLDER,
    "AUTOLOOP_MEMORY_FILE",
    "AUTOLOOP_TASKS_FILE",
)
"""Variables that are written into the wrapper of an attempt."""

_PLACEHOLDER = re.compile(r"\{(python|here|model|prompt_file)\}")


class ProcessEnvironment(Struct, frozen=True):
    """Input, arguments and environment of the processes of an attempt.

    Attributes:
        stdin: The prompt, or an empty file if it is passed otherwise; rewind it before each program.
        values: The values of the placeholders in a command.
        argument: The prompt as the last argument, if it is passed that way.
        confine: Wraps a filled command in the agent's sandbox, until the attempt, or the given stack, is over. It
            raises `Unconfined` if the agent requires a sandbox and none works, or if the program of an agent without a
            sandbox is one that another could have written.
    """

    env: dict[str, str]
    cwd: Path
    stdin: IO[bytes]
    values: dict[str, str]
    argument: tuple[str, ...]
    confine: Callable[..., list[str]]

    def fill(self, command: Sequence[str]) -> list[str]:
        """Replace the placeholders in *command* once; placeholders in the values stay unchanged."""
        return [*(_PLACEHOLDER.sub(lambda found: self.values[found[1]], word) for word in command), *self.argument]


def is_temporary(name: str) -> bool:
    """Whether the file *name* in an attempt's folder can be removed once the attempt is over."""
    return name in (TURN_FILE, PROMPT_FILE, reported.FILE, restoring.FILE) or detached.owns(name)


@contextmanager
def prepared(request: Request, say: Say = discard) -> Iterator[ProcessEnvironment]:
    """Prepare the files and variables for the process of *request*, and remove the files afterwards.

    Args:
        say: Called with a line about each gap of its sandbox.

    Raises:
        OSError: If the files cannot be written.
    """
    with ExitStack() as stack:
        folder = _folder(request, stack)
        own = folder / OWN
        if os.path.islink(own):
            own.unlink()  # left there by an agent without a sandbox
        files.make_folder(own)
        stack.callback(_remove_empty, own)
        link = folder
        if request.folder is not None:
            link = wrapper.link(folder, folder, request.root)
            stack.callback(wrapper.unlink, link)
        stack.callback(restoring.restore, folder, say, lives=True)
        if request.team and sandbox_of(request.agent) != "off":
            from coterie.agents.backends.sandbox.choice import working
            from coterie.agents.backends.team_files import kept

            if (one := working()) is not None:
                stack.enter_context(kept(request.team, folder, say, restores=not one.PROTECTS))
        turn_file = _private(folder / TURN_FILE, _as_json(request.context), stack)
        prompt = request.prompt.encode("utf-8", "replace")
        prompt_file = None
        wants_file = _wants_file(request)
        as_word = request.agent.prompt_via == "arg" and not wants_file
        if wants_file or request.env or (as_word and not _fits_word(prompt)):
            prompt_file = link / _private(folder / PROMPT_FILE, prompt, stack).name
        argument = (_word(prompt, prompt_file),) if as_word else ()
        if as_word or wants_file:
            prompt = b""
        here = (request.here or request.cwd or Path()).absolute()
        env = _environment(request, folder, own, link, turn_file, prompt_file)
        cwd = (request.cwd or Path()).absolute() / request.agent.cwd

        def confine(argv: list[str], until: ExitStack = stack) -> list[str]:
            wrapped = argv
            if sandbox_of(request.agent) != "off":
                from coterie.agents.backends.sandbox.choice import confined

                wrapped = until.enter_context(confined(request, env, cwd, own, argv, say))
            if wrapped == argv and request.agent.kind == "agent" and (why := program_files.refusal(argv, cwd, env)):
                raise Unconfined(f"{argv[0]} is not started without a sandbox: {why}")
            return wrapped

        yield ProcessEnvironment(
            env=env,
            cwd=cwd,
            stdin=_unnamed(prompt, stack),
            values={
                "python": sys.executable,
                "here": str(here),
                "model": request.agent.model,
                "prompt_file": str(prompt_file or ""),
            },
            argument=argument,
            confine=confine,
        )


def identity(request: Request) -> dict[str, str]:
    """The variables that identify the attempt of a process; they override all others, since orphans are found by them.

    Those of an outer run are not inherited.
    """
    return {
        "COTERIE_RUN": request.run,
        "COTERIE_TURN": request.turn,
        "COTERIE_ATTEMPT": str(request.attempt),
        MARK: request.marker,
        "COTERIE_KEY": request.key,
        "COTERIE_EPOCH": str(request.epoch),
        "COTERIE_AGENT": request.agent.name,
        "COTERIE_MODEL": request.agent.model,
        "COTERIE_INTERRUPTED": str(request.interrupted),
    }


@lru_cache(maxsize=1024)
def _is_of_outer_run(name: str) -> bool:
    """Whether an outer run set the variable *name* for this process; the user's settings file is not one of them."""
    return name in _OUTER or name in LOCAL or (name.startswith("AUTOLOOP_") and name != "AUTOLOOP_CONFIG")


def _environment(
    request: Request, folder: Path, own: Path, link: Path, turn_file: Path, prompt_file: Path | None
) -> dict[str, str]:
    """The environment of this process, the variables of the agent, and those that identify the attempt."""
    ours = identity(request) | {ATTEMPT_FOLDER: str(own), "COTERIE_TURN_FILE": str(turn_file)}
    ours[reported.VARIABLE] = f"{own}/{reported.FILE}"
    env = {name: value for name, value in os.environ.items() if not _is_of_outer_run(name)}
    env |= variables_of(request.agent)
    if request.clean:
        env = without_secrets(env)
    if prompt_file is not None:
        ours |= {"COTERIE_PROMPT_FILE": str(prompt_file), "AUTOLOOP_PROMPT_PATH": str(prompt_file)}
    if request.root is not None and not request.clean:
        ours |= request.env | {RUN_FOLDER: str(request.root.absolute()), TOKEN: request.token}
        wrapper.write(folder, {name: ours[name] for name in _SPEAKER if name in ours})
        ours |= {
            "AUTOLOOP_BIN": f"{link}/{wrapper.NAME}",
            "PATH": os.pathsep.join(filter(None, (str(link), env.get("PATH")))),
        }
    return env | ours


def _as_json(context: dict[str, Any]) -> bytes:
    """Encode *context*, plain data, as JSON; a lone surrogate, not valid in UTF-8, becomes `?` as in the prompt."""
    try:
        return msgspec.json.encode(context)
    except UnicodeEncodeError:
        return json.dumps(context, ensure_ascii=False).encode("utf-8", "replace")


def _wants_file(request: Request) -> bool:
    agent = request.agent
    return agent.prompt_via == "file" or "{prompt_file}" in "\0".join(chain(agent.argv, *agent.steps))


def _fits_word(prompt: bytes) -> bool:
    return len(prompt) <= LONGEST_WORD and b"\0" not in prompt


def _word(prompt: bytes, prompt_file: Path | None) -> str:
    """The prompt as one argument, or a reference to its file if it is too long."""
    if _fits_word(prompt):
        return prompt.decode()
    return f"Your task is in the file {prompt_file}: read the whole file, then do what it says."


def _folder(request: Request, stack: ExitStack) -> Path:
    if request.folder is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-", ignore_cleanup_errors=True)))
    return request.folder.absolute()


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        os.rmdir(folder)


def _private(path: Path, content: bytes, stack: ExitStack) -> Path:
    """Write a file that only its owner can read, and that is removed when *stack* unwinds."""
    stack.callback(path.unlink, missing_ok=True)
    files.write(path, content)
    return path


def _unnamed(content: bytes, stack: ExitStack) -> IO[bytes]:
    """An unnamed file, in memory where it can be, which as standard input never blocks and need not be read."""
    in_memory = hasattr(os, "memfd_create")
    made = open(os.memfd_create("prompt"), "w+b") if in_memory else tempfile.TemporaryFile()  # noqa: SIM115
    file = stack.enter_context(made)
    file.write(content)
    file.flush()
    return file

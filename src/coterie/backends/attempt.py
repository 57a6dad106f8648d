"""Prepare what the process of an attempt starts with: its environment, its files, its working directory.

Files with a prompt are readable by their owner only, and removed when the attempt is over.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from coterie import files
from coterie.backends import reported, wrapper
from coterie.backends.agentside import detached
from coterie.backends.agentside.client import ATTEMPT_FOLDER, MESSAGE, NOTES_FOLDER, OWN, RUN_FOLDER, TOKEN
from coterie.backends.base import Request
from coterie.backends.needs import sandbox_of
from coterie.backends.processes import MARK
from coterie.backends.sandbox import restoring
from coterie.backends.secrets import without_secrets
from coterie.options.values import VARIABLE
from coterie.planning.plan import AgentPlan
from coterie.values import dataclass

TURN_FILE = "turn.json"
PROMPT_FILE = "prompt.md"
LONGEST_WORD = 100_000
"""Bytes of a prompt that is passed as an argument; a longer one is in a file, which the argument names."""

_OUTER = frozenset({"COTERIE_PROMPT_FILE", RUN_FOLDER, NOTES_FOLDER, MESSAGE, TOKEN, "COTERIE_CLUSTER"})
"""Variables of an outer run that are not always replaced, and of its operator, that must not be inherited."""
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
"""The variables that are written into the wrapper of an attempt."""

_AUTOLOOP = re.compile(r"AUTOLOOP_(?!CONFIG$)")
"""Variables that an outer run set for this process; the user's settings file is not one of them."""
_PLACEHOLDER = re.compile(r"\{(python|here|model|prompt_file)\}")


@dataclass(frozen=True, slots=True)
class ProcessEnvironment:
    """Input, arguments and environment of the processes of an attempt.

    Attributes:
        stdin: The prompt, or an empty file if it is passed otherwise; to be rewound before each program.
        values: The values of the placeholders in a command.
        argument: The prompt as the last argument, if it is passed so.
        confine: Puts a filled command into the sandbox that the agent wants, until the attempt, or the given stack, is
            over. It raises `Unconfined` if the agent requires one and none holds.
    """

    env: dict[str, str]
    cwd: Path
    stdin: IO[bytes]
    values: dict[str, str]
    argument: tuple[str, ...] = ()
    confine: Callable[..., list[str]] = list

    def fill(self, command: Sequence[str]) -> list[str]:
        """*command* with its placeholders replaced once: placeholders in the values stay as they are."""
        return [*(_PLACEHOLDER.sub(lambda found: self.values[found[1]], word) for word in command), *self.argument]


def is_temporary(name: str) -> bool:
    """Whether the file *name* in an attempt's folder is useless once the attempt is over."""
    return name in (TURN_FILE, PROMPT_FILE, reported.FILE, restoring.FILE) or detached.owns(name)


@contextmanager
def prepared(request: Request, say: Callable[[str], object] = str) -> Iterator[ProcessEnvironment]:
    """Prepare what the process of *request* needs, and remove it afterwards.

    Args:
        say: Called with each line about what its sandbox does not hold.

    Raises:
        OSError: If the files cannot be written.
    """
    with ExitStack() as stack:
        folder = _folder(request, stack)
        files.make_folder(folder / OWN)
        stack.callback(_remove_empty, folder / OWN)
        stack.callback(restoring.restore, folder, say, lives=True)
        if request.team and sandbox_of(request.agent) != "off":
            from coterie.backends.sandbox.choice import working
            from coterie.backends.team_files import kept

            if (one := working()) is not None:
                stack.enter_context(kept(request.team, folder, say, restores=not one.PROTECTS))
        turn_file = _private(folder / TURN_FILE, _as_json(request.context), stack)
        prompt = request.prompt.encode("utf-8", "replace")
        prompt_file = None
        wants_file = _wants_file(request)
        as_word = request.agent.prompt_via == "arg" and not wants_file
        if wants_file or request.env or (as_word and not _fits_word(prompt)):
            prompt_file = _private(folder / PROMPT_FILE, prompt, stack)
        argument = (_word(prompt, prompt_file),) if as_word else ()
        if as_word or wants_file:
            prompt = b""
        here = (request.here or request.cwd or Path()).absolute()
        env = _environment(request, folder, turn_file, prompt_file)
        cwd = (request.cwd or Path()).absolute() / request.agent.cwd

        def confine(argv: list[str], until: ExitStack = stack) -> list[str]:
            if sandbox_of(request.agent) == "off":
                return argv
            from coterie.backends.sandbox.choice import confined

            return until.enter_context(confined(request, env, cwd, folder / OWN, argv, say))

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
        MARK: request.ref.marker,
        "COTERIE_KEY": request.key or f"{request.run}/{request.turn}",
        "COTERIE_EPOCH": str(request.epoch),
        "COTERIE_AGENT": request.agent.name,
        "COTERIE_MODEL": request.agent.model,
        "COTERIE_INTERRUPTED": str(request.interrupted),
    }


def variables_of(agent: AgentPlan) -> dict[str, str]:
    """The variables that the file gives *agent*, with `${NAME}` filled in; a variable that is not set is empty."""
    given = {
        name: VARIABLE.sub(lambda found: os.environ.get(found[1], ""), value) for name, value in agent.env_from.items()
    }
    return given | agent.env


def _environment(request: Request, folder: Path, turn_file: Path, prompt_file: Path | None) -> dict[str, str]:
    """The environment of this process, the variables of the agent, and those that identify the attempt."""
    ours = identity(request) | {ATTEMPT_FOLDER: str(folder / OWN), "COTERIE_TURN_FILE": str(turn_file)}
    ours[reported.VARIABLE] = str(folder / OWN / reported.FILE)
    env = {name: value for name, value in os.environ.items() if name not in _OUTER and not _AUTOLOOP.match(name)}
    env |= variables_of(request.agent)
    if request.clean:
        env = without_secrets(env)
    if prompt_file is not None:
        ours |= {"COTERIE_PROMPT_FILE": str(prompt_file), "AUTOLOOP_PROMPT_PATH": str(prompt_file)}
    if request.root is not None:
        ours |= request.env | {RUN_FOLDER: str(request.root.absolute()), TOKEN: request.token}
        tool = wrapper.write(folder, {name: ours[name] for name in _SPEAKER if name in ours})
        ours |= {"AUTOLOOP_BIN": str(tool), "PATH": os.pathsep.join(filter(None, (str(folder), env.get("PATH"))))}
    return env | ours


def _as_json(context: dict[str, Any]) -> bytes:
    """*context*, plain data, as JSON; a lone surrogate, which UTF-8 cannot encode, becomes `?` as in the prompt."""
    try:
        return msgspec.json.encode(context)
    except UnicodeEncodeError:
        return json.dumps(context, ensure_ascii=False).encode("utf-8", "replace")


def _wants_file(request: Request) -> bool:
    agent = request.agent
    words = [word for command in (agent.argv, *agent.steps) for word in command]
    return agent.prompt_via == "file" or any("{prompt_file}" in word for word in words)


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
        folder.rmdir()


def _private(path: Path, content: bytes, stack: ExitStack) -> Path:
    """Write a file that only its owner can read, until *stack* unwinds."""
    stack.callback(path.unlink, missing_ok=True)
    files.write(path, content)
    return path


def _unnamed(content: bytes, stack: ExitStack) -> IO[bytes]:
    """An unnamed file: as standard input it never blocks and need not be read."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack is its context
    file.write(content)
    file.flush()
    return file

"""What a program finds around it when it is asked: its environment, its files, its folder.

Files that hold a prompt may be read by their owner only and are gone when the attempt is over.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from coterie import files
from coterie.agentside import keeper
from coterie.agentside.client import MESSAGE, NOTES_FOLDER, RUN_FOLDER, TOKEN
from coterie.backends import reported, wrapper
from coterie.backends.base import Request
from coterie.backends.processes import MARK

TURN_FILE = "turn.json"
PROMPT_FILE = "prompt.md"
LONGEST_WORD = 100_000
"""A prompt of more bytes is not given as an argument, but in a file that the argument names."""

_OUTER = frozenset({"COTERIE_PROMPT_FILE", RUN_FOLDER, NOTES_FOLDER, MESSAGE, TOKEN})
"""Variables that an outer run may have left, and that this one may not give anew."""
_SPEAKER = (
    "COTERIE_RUN",
    "COTERIE_TURN",
    "COTERIE_ATTEMPT",
    "COTERIE_EPOCH",
    TOKEN,
    RUN_FOLDER,
    NOTES_FOLDER,
    "AUTOLOOP_MEMORY_FILE",
    "AUTOLOOP_TASKS_FILE",
)
"""What the wrapper of an attempt knows of itself."""

_AUTOLOOP = re.compile(r"AUTOLOOP_(?!CONFIG$)")
"""Variables that an outer run set for this process; the user's settings file is not one of them."""
_PLACEHOLDER = re.compile(r"\{(python|here|model|prompt_file)\}")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where and with what a program is started.

    Attributes:
        stdin: The prompt, or nothing when it gets there otherwise; to be rewound before each program.
        values: What the placeholders of a command stand for.
        told: The prompt as the last word of the command, for an agent that is given it so.
    """

    env: dict[str, str]
    cwd: Path
    stdin: IO[bytes]
    values: dict[str, str]
    told: tuple[str, ...] = ()

    def fill(self, command: Sequence[str]) -> list[str]:
        """*command* with its placeholders replaced, literally and once: what comes in is not looked through again."""
        return [*(_PLACEHOLDER.sub(lambda found: self.values[found[1]], word) for word in command), *self.told]


def is_temporary(name: str) -> bool:
    """Whether the file *name* in an attempt's folder is of no use once the attempt is over."""
    return name in (TURN_FILE, PROMPT_FILE, reported.FILE) or keeper.owns(name)


def marker_of(request: Request) -> str:
    """By what the processes of an attempt are known: `<run>/<turn>.<attempt>`."""
    return request.ref.marker


@contextmanager
def surroundings(request: Request) -> Iterator[Surroundings]:
    """Prepare what *request* needs, and clear it away afterwards.

    Raises:
        OSError: If the files cannot be written.
    """
    with ExitStack() as stack:
        folder = _folder(request, stack)
        turn_file = _private(folder / TURN_FILE, _as_json(request.context), stack)
        prompt = request.prompt.encode("utf-8", "replace")
        prompt_file = None
        wants_file = _wants_file(request)
        as_word = request.agent.prompt_via == "arg" and not wants_file
        if wants_file or request.env or (as_word and not _fits_word(prompt)):
            prompt_file = _private(folder / PROMPT_FILE, prompt, stack)
        told = (_word(prompt, prompt_file),) if as_word else ()
        if as_word or wants_file:
            prompt = b""
        here = (request.here or request.cwd or Path()).absolute()
        yield Surroundings(
            env=_environment(request, folder, turn_file, prompt_file),
            cwd=(request.cwd or Path()).absolute() / request.agent.cwd,
            stdin=_unnamed(prompt, stack),
            values={
                "python": sys.executable,
                "here": str(here),
                "model": request.agent.model,
                "prompt_file": str(prompt_file or ""),
            },
            told=told,
        )


def identity(request: Request) -> dict[str, str]:
    """The variables that tell a process whose it is; nothing may change them: orphans are found by them.

    Ours that an outer run left in the user's environment do not come through.
    """
    return {
        "COTERIE_RUN": request.run,
        "COTERIE_TURN": request.turn,
        "COTERIE_ATTEMPT": str(request.attempt),
        MARK: marker_of(request),
        "COTERIE_KEY": request.key or f"{request.run}/{request.turn}",
        "COTERIE_EPOCH": str(request.epoch),
        "COTERIE_AGENT": request.agent.name,
        "COTERIE_MODEL": request.agent.model,
        "COTERIE_INTERRUPTED": str(request.interrupted),
    }


def _environment(request: Request, folder: Path, turn_file: Path, prompt_file: Path | None) -> dict[str, str]:
    """The user's environment, the agent's own variables, and ours."""
    ours = identity(request) | {"COTERIE_ATTEMPT_DIR": str(folder), "COTERIE_TURN_FILE": str(turn_file)}
    ours[reported.VARIABLE] = str(folder / reported.FILE)
    env = {name: value for name, value in os.environ.items() if name not in _OUTER and not _AUTOLOOP.match(name)}
    env |= request.agent.env
    if prompt_file is not None:
        ours |= {"COTERIE_PROMPT_FILE": str(prompt_file), "AUTOLOOP_PROMPT_PATH": str(prompt_file)}
    if request.root is not None:
        ours |= request.env | {RUN_FOLDER: str(request.root.absolute()), TOKEN: request.token}
        tool = wrapper.write(folder, {name: ours[name] for name in _SPEAKER if name in ours})
        ours |= {"AUTOLOOP_BIN": str(tool), "PATH": os.pathsep.join(filter(None, (str(folder), env.get("PATH"))))}
    return env | ours


def _as_json(context: dict[str, Any]) -> bytes:
    """*context*, plain data, as JSON; half a surrogate pair, which UTF-8 cannot carry, becomes `?` as in the prompt."""
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
    """The prompt as one word of a command; one that is too long for that as the name of its file."""
    if _fits_word(prompt):
        return prompt.decode()
    return f"Your task is in the file {prompt_file}: read the whole file, then do what it says."


def _folder(request: Request, stack: ExitStack) -> Path:
    if request.folder is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coterie-", ignore_cleanup_errors=True)))
    folder = request.folder.absolute()
    files.make_folder(folder)
    return folder


def _private(path: Path, content: bytes, stack: ExitStack) -> Path:
    """Write a file that only its owner can read, until *stack* unwinds."""
    stack.callback(path.unlink, missing_ok=True)
    files.write(path, content)
    return path


def _unnamed(content: bytes, stack: ExitStack) -> IO[bytes]:
    """A file without a name: as a program's standard input it never blocks and need not be read."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack is its context
    file.write(content)
    file.flush()
    return file

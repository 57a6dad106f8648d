"""The program of Claude Code: its location, its environment, and a transport of the SDK for it."""

import logging
import shutil
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coterie.agents.backends.coding.attempt import Gone
from coterie.agents.backends.coding.claude_code import DEFAULTS
from coterie.agents.backends.coding.wire import WireProcess

_LIBRARY = "claude_agent_sdk"
PROGRAM = "claude"
"""The command for which the SDK includes a program, used if there is none on the PATH."""
_OURS = {"CLAUDE_CODE_ENTRYPOINT": "sdk-py", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1"}
_OUTER = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION")
"""Variables of a Claude Code in which Coterie itself runs."""
RETRIES, _WATCHDOG = "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_RETRY_WATCHDOG"
"""With the watchdog, Claude Code announces each retry with any delay; without it, it gives up on a long delay."""


class ProcessTransport:
    """A started program, as a transport of the SDK.

    Attributes:
        may_end: Whether the program has answered, so that its end is not an error.
    """

    def __init__(self, process: WireProcess) -> None:
        self._process = process
        self.may_end = False

    async def connect(self) -> None:
        """Do nothing: the program is running."""

    async def write(self, data: str) -> None:
        """Send *data* to the program."""
        self._process.child.write(data.encode("utf-8", "replace"))

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of the program.

        Raises:
            Gone: If it ends too early.
        """
        while (message := await self._process.receive()) is not None:
            if _is_well_formed(message):
                yield message
        if not self.may_end:
            raise Gone(self._process.last_words("it had answered"))

    async def close(self) -> None:
        """Do nothing: the attempt ends the process."""

    async def end_input(self) -> None:
        """Do nothing: the attempt closes the input."""

    def is_ready(self) -> bool:
        """Whether the program runs."""
        return self._process.running


def load() -> None:
    """Import the SDK, which takes a second; its log messages appear only if logging is configured."""
    import_module(_LIBRARY)
    logging.getLogger(_LIBRARY).addHandler(logging.NullHandler())


def program(command: str, env: Mapping[str, str]) -> str:
    """Find the program *command*: for `claude`, on the PATH or else in the SDK; without a command, vice versa."""
    library = find_spec(_LIBRARY)
    bundled = Path((library and library.origin) or "").parent / "_bundled" / PROGRAM
    own = str(bundled) if bundled.is_file() else ""
    if not command:
        return own or shutil.which(PROGRAM, path=env.get("PATH")) or PROGRAM
    return shutil.which(command, path=env.get("PATH")) or (own if command == PROGRAM else "") or command


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Add the variables to *env* that make the program leave retries, updates and the like to the run."""
    watched = {} if RETRIES in env else {_WATCHDOG: "1"}
    return {name: value for name, value in (DEFAULTS | watched | dict(env) | _OURS).items() if name not in _OUTER}


def _is_well_formed(message: Mapping[str, Any]) -> bool:
    """Whether the SDK can route *message*; otherwise the message would end its reader."""
    match message:
        case {"type": "control_response"}:
            return isinstance(message.get("response"), dict) and isinstance(message["response"].get("request_id"), str)
        case {"type": "control_request", "request_id": str(), "request": {"subtype": str()}}:
            return True
        case {"type": "control_cancel_request", "request_id": str()}:
            return True
        case {"type": "control_request" | "control_cancel_request" | "transcript_mirror"}:
            return False
    return isinstance(message.get("task_id", ""), str)

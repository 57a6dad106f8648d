"""The secrets with which a node reaches its cluster, where its agents do not find them.

Agents inherit the environment of their node, and can read that of a process of their user in `/proc`. So a node takes
these variables out of its environment at its start, executes itself anew, so that the kernel's copy is gone as well,
and has its memory closed to other processes of its user. None of that stops an agent that runs as root without a
sandbox.
"""

import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from coterie.journal.export import folder_of

NAMES = (
    "COTERIE_CLUSTER",  # its URL may contain the database's password
    "PGPASSWORD",
    "PGPASSFILE",
    "TEMPORAL_API_KEY",
    "TEMPORAL_TLS_CLIENT_KEY_DATA",
    "TEMPORAL_TLS_CLIENT_KEY_PATH",
)
"""The variables that are held back."""

_HELD = "COTERIE_NODE_SECRETS"
"""The variable that names the descriptor which the node's new start reads them from."""
_PR_SET_DUMPABLE = 4
_held: dict[str, str] = {}


def environment() -> dict[str, str]:
    """The environment of this process, with what `hold_back` took out of it; empty variables count as unset."""
    return {name: value for name, value in (os.environ | _held).items() if value or name not in NAMES}


def database_login() -> dict[str, str]:
    """What was held back of the login of the export's database, as arguments of its client."""
    names = {"PGPASSWORD": "password", "PGPASSFILE": "passfile"}
    return {names[name]: value for name, value in _held.items() if name in names and value}


def secret_paths(export: str) -> tuple[Path, ...]:
    """The files and folders with secrets of the cluster on this machine, which a sandbox hides.

    Args:
        export: As `ClusterAddress` has it.
    """
    named = [environment().get(name) for name in ("PGPASSFILE", "TEMPORAL_TLS_CLIENT_KEY_PATH")]
    return tuple(filter(None, (folder_of(export), *(Path(name) for name in named if name))))


def hold_back(command: list[str]) -> None:
    """Take the secrets out of the environment of this process; it executes itself anew as *command* if there are any.

    To be called before anything else is started.
    """
    if (fd := os.environ.pop(_HELD, "")).isdigit():
        with open(int(fd), "rb") as file:
            _held.update(json.load(file))
    elif held := {name: os.environ[name] for name in NAMES if name in os.environ}:
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(held).encode())
            file.seek(0)
            os.set_inheritable(file.fileno(), True)
            kept: Mapping[str, str] = {name: value for name, value in os.environ.items() if name not in NAMES}
            sys.stdout.flush()
            os.execve(command[0], command, {**kept, _HELD: str(file.fileno())})
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from coterie.history.journal.export import folder_of

KEY_FILE = "COTERIE_CLUSTER_KEY"
"""The variable that names the file with the cluster's keys of this machine."""
NAMES = (
    "COTERIE_CLUSTER",  # its URL may contain the database's password
    KEY_FILE,
    "PGPASSWORD",
    "PGPASSFILE",
    "TEMPORAL_API_KEY",
    "TEMPORAL_CODEC_AUTH",
    "TEMPORAL_TLS_CLIENT_KEY_DATA",
    "TEMPORAL_TLS_CLIENT_KEY_PATH",
)
_HEADERS = "TEMPORAL_GRPC_META_"
"""What the names of variables with headers begin with, in which a login may be; they are held back, too."""
_FILES = ("PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY", "TEMPORAL_CONFIG_FILE", "TEMPORAL_TLS_CLIENT_KEY_PATH")
"""Variables that name a file with secrets."""
_IN_URL = ("passfile", "servicefile", "sslkey")
"""Options of the URL of a database that do."""

_HELD = "COTERIE_NODE_SECRETS"
"""The variable that names the descriptor which the node's new start reads them from."""
_PR_SET_DUMPABLE = 4
_held: dict[str, str] = {}


def _is_held(name: str) -> bool:
    return name in NAMES or name.startswith(_HEADERS)


def environment() -> dict[str, str]:
    """The environment of this process, with what `hold_back` took out of it; empty variables count as unset."""
    return {name: value for name, value in (os.environ | _held).items() if value or not _is_held(name)}


def database_login() -> dict[str, str]:
    """What was held back of the login of the export's database, as arguments of its client."""
    names = {"PGPASSWORD": "password", "PGPASSFILE": "passfile"}
    return {names[name]: value for name, value in _held.items() if name in names and value}


def secret_paths(export: str) -> tuple[Path, ...]:
    """The files and folders with secrets of the cluster on this machine, which a sandbox hides.

    Args:
        export: As `ClusterAddress` has it.
    """
    if (folder := folder_of(export)) is None:
        options = parse_qs(urlsplit(export).query)
        named = [path for option in _IN_URL for path in options.get(option, ())]
    else:
        named = [str(folder)]
    known = environment()
    return tuple(Path(path).absolute() for path in (*named, *(known.get(name) for name in _FILES)) if path)


def hold_back(command: list[str]) -> None:
    """Take the secrets out of the environment of this process; it executes itself anew as *command* if there are any.

    To be called before anything else is started.
    """
    if (fd := os.environ.pop(_HELD, "")).isdigit():
        with open(int(fd), "rb") as file:
            _held.update(json.load(file))
    elif held := {name: value for name, value in os.environ.items() if _is_held(name)}:
        from tempfile import TemporaryFile  # only nodes need it

        with TemporaryFile() as file:
            file.write(json.dumps(held).encode())
            file.seek(0)
            os.set_inheritable(file.fileno(), True)
            kept: Mapping[str, str] = {name: value for name, value in os.environ.items() if name not in held}
            sys.stdout.flush()
            os.execve(command[0], command, {**kept, _HELD: str(file.fileno())})
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

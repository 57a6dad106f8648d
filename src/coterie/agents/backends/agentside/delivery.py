"""Put a message into the inbox of a run, ring its doorbell, and wait for the verdict.

The file is renamed into place, so an owner never sees a partial file. The run's lock shows whether an owner lives; a
failed connection does not, since a sandboxed agent may reach the folder but not the socket.
"""

from __future__ import annotations

import _socket  # `socket` imports enum and selectors, which would double the start of a wrapper
import os
import time

TYPE_CHECKING = False  # as in `typing`, whose import costs as much as all else here
if TYPE_CHECKING:
    from typing import Any

try:
    from _json import encode_basestring_ascii as _quoted
except ImportError:  # another Python
    from json import dumps as _quoted
try:
    import fcntl
except ImportError:  # not Unix: no run can have an owner there
    fcntl = None  # type: ignore[assignment]

PATIENCE = 10.0
"""Seconds to wait for the verdict of a living owner."""
REFUSED_FOR = 1.0
"""Seconds that a sender without access to the lock waits for an owner whose doorbell no longer answers."""
PAUSE = 0.05
BELL = "bell"
"""The link, in the folder of a run, to the socket of its owner's doorbell."""
PLAIN = "plain"
"""A suffix of a message's id that requests the verdict as text: its status, then its detail from the second line on."""

ACCEPTED = "accepted"
REFUSED = "refused"
QUEUED = "queued"
"""The owner is releasing the run: the message waits for the next owner."""
CHECKING = "checking"
"""The owner is running gates on which the verdict depends: ring again."""
UNOWNED = "unowned"
"""The run has no owner: the message waits for the next owner."""
UNREACHABLE = "unreachable"
"""The owner does not answer: the message stays in the inbox, where the owner will find it."""
TAKEN = "taken"
"""The owner found the message in the inbox: the verdict is in the journal."""


def send(
    folder: str, name: str, message: dict[str, Any], patience: float = PATIENCE, outbox: str = ""
) -> tuple[str, str]:
    """Put *message* into the inbox of the run in *folder* under the id *name*; return its status and a detail.

    The status is one of those above. A waiting message is on disk; a message with a verdict is in the journal.

    Args:
        outbox: The folder for messages of a sandboxed attempt, whose living owner collects them. Empty: the inbox.

    Raises:
        UnicodeEncodeError: If the message is not UTF-8 text.
        OSError: If it cannot be written.
    """
    path = put(folder, name, message, outbox)
    deadline = time.monotonic() + patience
    while True:
        try:
            verdict = _ring(folder, name, deadline)
        except ConnectionRefusedError:
            verdict, deadline = None, min(deadline, time.monotonic() + REFUSED_FOR) if outbox else deadline
        if verdict is not None:
            if verdict[0] != CHECKING:
                break
            deadline = time.monotonic() + patience
            continue
        if not outbox and not os.path.exists(path):
            return TAKEN, ""
        if not outbox and not is_owned(folder):
            verdict = UNOWNED, ""
            break
        if time.monotonic() >= deadline:
            verdict = UNREACHABLE, ""
            break
        time.sleep(PAUSE)
    if verdict[0] not in (ACCEPTED, REFUSED):
        _sync(path)
    return verdict


def put(folder: str, name: str, message: dict[str, Any], outbox: str = "") -> str:
    """Put *message* into the inbox of the run in *folder*, or into *outbox*; return the path of its file."""
    data = _json({"id": name, **message}).encode()
    inbox = outbox or os.path.join(folder, "inbox")
    part, path = os.path.join(inbox, f".{name}.part"), os.path.join(inbox, f"{name}.json")
    if not os.path.isdir(inbox):
        os.makedirs(inbox, 0o700, exist_ok=True)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    os.rename(part, path)
    return path


def is_owned(folder: str) -> bool:
    """Whether a living process owns the run in *folder*."""
    if fcntl is None:
        return False
    try:
        fd = os.open(os.path.join(folder, "lock"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks, on which no run has an owner
        return False
    finally:
        os.close(fd)
    return False


def _ring(folder: str, name: str, deadline: float) -> tuple[str, str] | None:
    """The owner's verdict; None if its doorbell cannot be reached.

    Raises:
        ConnectionRefusedError: If its owner no longer listens.
    """
    try:
        path = os.readlink(os.path.join(folder, BELL))
        bell = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    except OSError:
        return None
    heard = b""
    try:
        bell.settimeout(max(0.1, deadline - time.monotonic()))
        bell.connect(path)
        bell.sendall(f"{name} {PLAIN}\n".encode())
        while part := bell.recv(65536):
            heard += part
    except ConnectionRefusedError:
        raise
    except (OSError, UnicodeEncodeError):
        return None
    finally:
        bell.close()
    status, answered, detail = heard.decode("utf-8", "replace").partition("\n")
    return (status, detail) if answered else None


def _json(value: Any) -> str:
    """Encode *value* like `json.dumps`, whose import would double the start time of a wrapper."""
    if isinstance(value, str):
        value.encode()  # half a surrogate pair is not text
        return _quoted(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{_json(name)}:{_json(one)}' for name, one in value.items())}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    import json  # a value that was given as JSON has already imported it

    return json.dumps(value)


def _sync(path: str) -> None:
    """Make the file at *path*, if it still exists, durable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Tokens that prove who sent a message to a run.

Each root run has a secret of 32 random bytes in `<run>/secret`, mode 0600. The token of an attempt is an HMAC of its
run, turn, number and epoch with that secret, so any later owner can check it and nothing is recorded. The signature of
an operator is an HMAC of the whole message. A process of the same user can read the file: only a sandbox prevents that.
"""

import errno
import hmac
import os
import secrets
from pathlib import Path

from coterie import files
from coterie.errors import JournalFailed

SECRET = "secret"
_SIZE = 32


class Tokens:
    """Makes and checks the tokens of the root run in *folder* and of its child runs.

    Raises:
        JournalFailed: If the secret cannot be read or made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._secret = _secret_of(folder)
        except OSError as error:
            raise JournalFailed(folder.name, f"{folder / SECRET}: {error.strerror or error}") from error

    def attempt(self, run: str, turn: str, attempt: int, epoch: int) -> str:
        """Return the token of an attempt of *run*, which may be a child run."""
        return self._sign("attempt", *(part.encode() for part in (run, turn, str(attempt), str(epoch))))

    def operator(self, message: bytes) -> str:
        """Return an operator's signature of *message*."""
        return self._sign("operator", message)

    @staticmethod
    def match(given: str, wanted: str) -> bool:
        """Whether *given* is *wanted*; how long that takes says nothing about where they differ."""
        return hmac.compare_digest(given.encode(), wanted.encode())

    def _sign(self, role: str, *parts: bytes) -> str:
        lengths = ",".join(str(len(part)) for part in parts)  # so that no two lists of parts read the same
        return hmac.digest(self._secret, f"{role} {lengths}\n".encode() + b"".join(parts), "sha256").hex()


def _secret_of(folder: Path) -> bytes:
    """Return the secret of the run in *folder*; make one if there is none, or none of the right size."""
    path = folder / SECRET
    part = folder / f".{SECRET}.{secrets.token_hex(4)}.part"
    while (found := _read(path)) is None:
        try:
            with open(files.open_fd(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(secrets.token_bytes(_SIZE))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(part, path)
            except FileExistsError:
                if _read(path) is None:  # else another process has just made it
                    os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    return found


def _read(path: Path) -> bytes | None:
    """Return what the file at *path* holds; None if it is missing, a link, a pipe, or of another size."""
    try:
        found = files.read(path, _SIZE)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.EOVERFLOW):
            return None
        raise
    return found if len(found) == _SIZE else None

"""Tokens that prove who sent a message to a run.

Each root run has a secret of 32 random bytes in `<run>/secret`, mode 0600; on a cluster, in the export. The token of an
attempt is an HMAC of its run, turn, number and epoch with that secret, so any later owner can check it without a
record. The signature of an operator is an HMAC of the whole message. A process of the same user can read the secret;
only a sandbox prevents that.
"""

import hmac
from pathlib import Path

from coterie.base import files
from coterie.errors import JournalFailed

SECRET = "secret"


class Tokens:
    """Makes and checks the tokens of the root run with that *secret*, and of its child runs."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def of(cls, folder: Path) -> "Tokens":
        """The tokens of the root run in *folder*.

        Raises:
            JournalFailed: If the secret cannot be read or made.
        """
        try:
            return cls(files.secret(folder / SECRET))
        except OSError as error:
            raise JournalFailed(folder.name, f"{folder / SECRET}: {error.strerror or error}") from error

    def attempt(self, run: str, turn: str, attempt: int, epoch: int) -> str:
        """Return the token of an attempt of *run*, which may be a child run."""
        return self._sign("attempt", run.encode(), turn.encode(), b"%d" % attempt, b"%d" % epoch)

    def operator(self, message: bytes) -> str:
        """Return an operator's signature of *message*."""
        return self._sign("operator", message)

    def node(self, message: bytes) -> str:
        """Return the signature of a cluster's node for the *message* of an attempt that it has checked and forwards."""
        return self._sign("node", message)

    @staticmethod
    def match(given: str, wanted: str) -> bool:
        """Whether *given* equals *wanted*, compared in constant time."""
        return hmac.compare_digest(given.encode(), wanted.encode())

    def _sign(self, role: str, *parts: bytes) -> str:
        lengths = ",".join(map(str, map(len, parts)))  # so that no two lists of parts have the same encoding
        return hmac.digest(self._secret, f"{role} {lengths}\n".encode() + b"".join(parts), "sha256").hex()

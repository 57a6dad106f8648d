"""The keys with which a machine proves to a cluster's programs who speaks: its own, and the public ones that it trusts.

They lie in one private file of the user, outside of every checkout: `coterie/cluster.key` in the folder of settings, or
the path in COTERIE_CLUSTER_KEY. The first command that needs a key makes the file. After `coterie cluster key new` a
machine has several keys: all of them sign, so runs that began before a change go on.

A signature is Ed25519 of `cryptography`: pure and deterministic, so a workflow can check one, and make one. Temporal's
sandbox for workflows, which ours run without, cannot import its compiled module.
"""

import base64
import binascii
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from coterie.base import files
from coterie.errors import ExtraMissing, UsageError
from coterie.execution.cluster.node_secrets import KEY_FILE, environment

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NAME = Path("coterie", "cluster.key")
SIZE = 32
"""Bytes of a key."""
_MOST = 1 << 20


class _Kept(Struct, forbid_unknown_fields=True):
    """What the file holds: the private keys of this machine, the newest first, and the public keys of others."""

    own: Annotated[list[str], Meta(min_length=1)]
    trusted: list[str] = []


class SigningKey:
    """A private key, and the public one that belongs to it."""

    def __init__(self, seed: str) -> None:
        self._key = _private(seed)
        self.public = _text(self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> str:
        """The signature of *data*."""
        return _text(self._key.sign(data))


def is_signed(data: bytes, key: str, signature: str) -> bool:
    """Whether *signature* is that of *data* by the public *key*."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public(key).verify(_bytes(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


class KeyRing:
    """The keys in the file *path*, which is read anew when it has changed and made when it is missing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[tuple[int, ...], _Kept, tuple[SigningKey, ...]] | None = None

    @classmethod
    def of_user(cls) -> "KeyRing":
        """The keys of the user of this process."""
        return cls(key_file())

    @property
    def keys(self) -> tuple[SigningKey, ...]:
        """The keys of this machine, the newest first.

        Raises:
            UsageError: If the file cannot be read or made, or others can read it.
        """
        return self._found()[1]

    @property
    def trusted(self) -> tuple[str, ...]:
        """The public keys that it trusts, those of this machine first.

        Raises:
            UsageError: As for *keys*.
        """
        kept, own = self._found()
        return tuple(dict.fromkeys([*(key.public for key in own), *kept.trusted]))

    def renew(self) -> str:
        """Make a further key, which is the newest; return its public part."""
        kept, _ = self._found()
        self._write(_Kept([new := _seed(), *kept.own], kept.trusted))
        return SigningKey(new).public

    def trust(self, key: str) -> None:
        """Trust the public *key* from now on.

        Raises:
            UsageError: If it is no key.
        """
        try:
            _public(key)
        except ValueError:
            raise UsageError(f"{key!r} is no public key: `coterie cluster key` shows those of a machine") from None
        kept, _ = self._found()
        if key not in self.trusted:
            self._write(_Kept(kept.own, [*kept.trusted, key]))

    def forget(self, key: str) -> None:
        """Trust *key* no longer; one of this machine is deleted.

        Raises:
            UsageError: If it is not known, or the only key of this machine.
        """
        kept, own = self._found()
        if key not in self.trusted:
            raise UsageError(f"{key!r} is not among the keys in {self.path}: `coterie cluster key` lists them")
        left = [seed for seed, one in zip(kept.own, own, strict=True) if one.public != key]
        if not left:
            raise UsageError("it is the only key of this machine: `coterie cluster key new` makes another one first")
        self._write(_Kept(left, [one for one in kept.trusted if one != key]))

    def _found(self) -> tuple[_Kept, tuple[SigningKey, ...]]:
        try:
            state = self.path.stat() if self.path.exists() else None
            version = (state.st_ino, state.st_mtime_ns, state.st_size) if state is not None else ()
            if self._read is not None and self._read[0] == version:
                return self._read[1:]
            if state is None:
                files.make_folder(self.path.parent)
                data = files.write_once(self.path, lambda: _data(_Kept([_seed()])), _MOST, bool)
            elif state.st_mode & 0o077:
                raise UsageError(f"others can read {self.path}, which holds a cluster's key: chmod 600 {self.path}")
            else:
                data = files.read(self.path, _MOST, follow=True)
            kept = msgspec.json.decode(data, type=_Kept)
            own = tuple(SigningKey(seed) for seed in kept.own)
        except OSError as error:
            hint = "COTERIE_CLUSTER_KEY=PATH names another file"
            raise UsageError(f"{self.path}: the cluster's key: {error.strerror or error}; {hint}") from error
        except ValueError as error:
            raise UsageError(
                f"{self.path} holds no key of a cluster ({error}): move it away, or copy it anew"
            ) from None
        self._read = (version, kept, own)
        return kept, own

    def _write(self, kept: _Kept) -> None:
        part = self.path.with_name(f".{self.path.name}.{os.urandom(4).hex()}")
        files.write(part, _data(kept))
        os.replace(part, self.path.resolve())


def key_file() -> Path:
    """The file with the keys of the user of this process; it may not exist.

    Raises:
        UsageError: If the user has no home.
    """
    env = environment()
    if given := env.get(KEY_FILE):
        return Path(given).absolute()
    try:
        return Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / NAME
    except RuntimeError as error:
        raise UsageError(f"where is the cluster's key? {error}; {KEY_FILE}=PATH says it") from None


def _data(kept: _Kept) -> bytes:
    return msgspec.json.format(msgspec.json.encode(kept)) + b"\n"


def _seed() -> str:
    return _text(os.urandom(SIZE))


def _text(data: bytes) -> str:
    """*data* as base64 without padding, which is a word to shells and no option of a command."""
    return base64.b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from None


def _private(seed: str) -> "Ed25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as missing:
        raise ExtraMissing("cluster", "cryptography", "a cluster") from missing
    return Ed25519PrivateKey.from_private_bytes(_bytes(seed))


@cache
def _public(key: str) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(_bytes(key))

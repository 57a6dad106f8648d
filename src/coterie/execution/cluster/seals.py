"""What a cluster's programs say to each other through Temporal's server, with the proof of who says it.

Everyone who reaches the server can send what we send, and answer what we ask. So a value travels *sealed*: with a
signature, by each key of the machine that says it, of the value and of what it is about: its purpose, and the run, the
workflow's execution and the activity that it belongs to. A copy proves nothing elsewhere.
"""

import secrets
from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Struct

from coterie.errors import NotSigned
from coterie.execution.cluster.keys import KeyRing, is_signed
from coterie.execution.cluster.values import from_json, to_json

_MOST_SEALS = 16
"""Signatures of a value that are looked at."""


class Sealed(Struct, frozen=True):
    """A value, and its signatures by public key.

    Signed is the JSON of the value as `to_json` writes it, however the server and the export have written it meanwhile.
    """

    value: Any
    seals: dict[str, str]


class Charter(Struct, frozen=True, kw_only=True):
    """What a submission says of a run: the public keys by which its workflows, nodes and operators sign.

    Attributes:
        nonce: Tells it from other submissions of the run.
    """

    run: str
    keys: tuple[str, ...]
    nonce: str


def seal(value: Any, ring: KeyRing, *about: str) -> Sealed:
    """*value*, which is *about* that, sealed with the keys of this machine."""
    text = _signed(to_json(value), about)
    return Sealed(value, {key.public: key.sign(text) for key in ring.keys})


def unseal(sealed: Sealed, trusted: Collection[str], kind: Any, *about: str) -> Any:
    """The value in *sealed*, of the type *kind*.

    Raises:
        NotSigned: If none of the *trusted* keys has signed it as about that, or it is no such value.
    """
    text, known = _signed(to_json(sealed.value), about), [key for key in sealed.seals if key in trusted][:_MOST_SEALS]
    if not any(is_signed(text, key, sealed.seals[key]) for key in known):
        raise NotSigned(about, tuple(sealed.seals), is_known=bool(known))
    return peek(sealed, kind)


def peek(sealed: Sealed, kind: Any) -> Any:
    """The value in *sealed*, without a check of its signatures.

    Raises:
        NotSigned: If it is none of the type *kind*.
    """
    return read(to_json(sealed.value), kind)


def read(data: bytes, kind: Any = Sealed) -> Any:
    """The value of the type *kind* in *data*, which anyone may have written.

    Raises:
        NotSigned: If there is none.
    """
    try:
        return from_json(data, kind)
    except (ValueError, RecursionError):
        raise NotSigned(()) from None


def new_charter(run: str, ring: KeyRing) -> Sealed:
    """The charter of a new submission of *run* from this machine."""
    charter = Charter(run=run, keys=ring.trusted, nonce=secrets.token_hex(8))
    return seal(from_json(to_json(charter), Any), ring, "charter")


def read_charter(sealed: Sealed, run: str, trusted: Collection[str] = ()) -> Charter:
    """The charter of *run* in *sealed*, signed by one of the *trusted* keys; without any, by one that it names.

    Raises:
        NotSigned: If it is not, or it is another run's.
    """
    said: Charter = peek(sealed, Charter)
    charter: Charter = unseal(sealed, trusted or said.keys, Charter, "charter")
    if charter.run != run:
        raise NotSigned(("charter",), is_known=True)
    return charter


def _signed(data: bytes, about: tuple[str, ...]) -> bytes:
    """The bytes that a signature covers; no two pairs of a value and what it is about have the same."""
    return b"coterie cluster 1\n" + msgspec.json.encode(about) + b"\n" + data

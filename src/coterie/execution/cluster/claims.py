"""Keep long texts out of a workflow's history: they lie in the export, and payloads refer to them by hash.

The references, hashes and rows are those of journals: a text that a turn returns, that a record holds and that a prompt
repeats is stored once.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from coterie.history.journal.codec import LIMIT, REFERENCE, map_texts
from coterie.history.journal.export import Export

LARGEST = 1 << 16
"""Bytes of a payload without its long texts that the history takes."""
_ENCODING = "encoding"
_CLAIM = b"coterie/claim"
_JSON = b"json/"
_QUOTED = b'"' + REFERENCE.encode()
_KEPT = 256
"""Texts that were written or read last and are not fetched again."""
_KEPT_BYTES = 1 << 20
"""Longer ones are fetched each time."""


class TextClaims(PayloadCodec):
    """Puts texts above 1 kB in JSON into *export*, and any other payload that is large as a whole."""

    def __init__(self, export: Export) -> None:
        self._export = export
        self._texts: dict[str, bytes] = {}

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """What goes into the history."""
        return [await self._encoded(one) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads as they were."""
        return [await self._decoded(one) for one in payloads]

    async def _encoded(self, payload: Payload) -> Payload:
        kind, data = payload.metadata.get(_ENCODING, b""), payload.data
        if kind.startswith(_JSON) and (len(data) > LIMIT or _QUOTED in data):
            value, texts = _value(data), dict[str, bytes]()
            if value is not data:

                def refer(text: str) -> str:
                    if len(text) <= LIMIT // 4 and not text.startswith(REFERENCE):
                        return text
                    raw = text.encode()
                    if len(raw) <= LIMIT and not text.startswith(REFERENCE):
                        return text
                    texts[digest := hashlib.sha256(raw).hexdigest()] = raw
                    return REFERENCE + digest

                data = msgspec.json.encode(map_texts(value, refer))
                for digest, raw in texts.items():
                    await self._put(digest, raw)
        if len(data) > (LARGEST if kind.startswith(_JSON) else LIMIT):
            digest = hashlib.sha256(data).hexdigest()
            await self._put(digest, data)
            return Payload(metadata={**payload.metadata, _ENCODING: _CLAIM, "kept": kind}, data=digest.encode())
        return Payload(metadata=payload.metadata, data=data) if data is not payload.data else payload

    async def _decoded(self, payload: Payload) -> Payload:
        metadata, data = dict(payload.metadata), payload.data
        if metadata.get(_ENCODING) == _CLAIM:
            metadata[_ENCODING] = metadata.pop("kept")
            data = await self._get(data.decode())
        if metadata.get(_ENCODING, b"").startswith(_JSON) and _QUOTED in data:
            value = msgspec.json.decode(data)
            texts = {text: text for text in _texts(value) if text.startswith(REFERENCE)}
            for text in texts:
                texts[text] = (await self._get(text.removeprefix(REFERENCE))).decode()
            data = msgspec.json.encode(map_texts(value, lambda text: texts.get(text, text)))
        return Payload(metadata=metadata, data=data) if data is not payload.data else payload

    async def _put(self, digest: str, data: bytes) -> None:
        if digest not in self._texts:
            await self._export.put_blob(data)
            self._keep(digest, data)

    async def _get(self, digest: str) -> bytes:
        if (found := self._texts.get(digest)) is None:
            self._keep(digest, found := await self._export.blob(digest))
        return found

    def _keep(self, digest: str, data: bytes) -> None:
        if len(data) <= _KEPT_BYTES:
            self._texts[digest] = data
            if len(self._texts) > _KEPT:
                del self._texts[next(iter(self._texts))]


def _value(data: bytes) -> Any:
    """*data*, which is JSON, as a value; itself if its texts cannot be written as UTF-8, as half a surrogate pair."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data


def _texts(value: Any) -> Iterator[str]:
    """Every text in *value*, which JSON held, keys not."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)

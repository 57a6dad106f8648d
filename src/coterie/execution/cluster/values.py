"""How values are written that a cluster's programs give each other: as the JSON that journals have."""

import json
import operator
from typing import Any

import msgspec


def to_json(value: Any) -> bytes:
    """*value* as JSON."""
    try:
        return msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:  # half a surrogate pair, which UTF-8 cannot carry
        return json.dumps(msgspec.to_builtins(value, enc_hook=str)).encode()


def from_json(data: bytes, kind: Any) -> Any:
    """The value of the type *kind* that *data*, JSON, holds."""
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=operator.call)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data), kind, dec_hook=operator.call)

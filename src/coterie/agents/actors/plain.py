"""Convert payloads to JSON for the journal; agents can pass any object to each other."""

import json
from typing import Any

import msgspec

from coterie.errors import error_line


def plain(value: Any, what: str) -> Any:
    """A copy of *value* in JSON's types; *what* names it in the error.

    Raises:
        ValueError: If it cannot be written as JSON.
    """
    try:
        copied = msgspec.to_builtins(value, str_keys=True)
        try:
            if b"null" in msgspec.json.encode(copied):  # NaN is also written so, and would be read as None
                json.dumps(copied, allow_nan=False)
        except UnicodeEncodeError:  # half a surrogate pair, which a journal escapes, except in a key
            json.loads(json.dumps(copied), object_hook=lambda table: [key.encode() for key in table])
    except Exception as error:  # from the object, which may be of any class
        raise ValueError(f"{what} cannot be written as JSON: {error_line(error)}") from None
    return copied


def written(value: Any, what: str) -> bytes:
    """*value* as JSON, half a surrogate pair escaped; *what* names it in the error.

    Raises:
        ValueError: If it cannot be written as JSON.
    """
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        copied = plain(value, what)
    try:
        return msgspec.json.encode(copied)
    except UnicodeEncodeError:
        return json.dumps(copied).encode()

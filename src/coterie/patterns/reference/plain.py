"""Values as a journal stores them: JSON, copied, so that later changes do not affect them."""

import hashlib
from typing import Any

import msgspec

from coterie.errors import PatternRefused


def plain(value: Any, what: str) -> Any:
    """A JSON copy of *value*; *what* names it in errors.

    Raises:
        PatternRefused: If it cannot be written as JSON.
    """
    try:
        return _decode(_encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PatternRefused(f"{what} cannot be written down as JSON: {error}") from None


def plain_object(value: Any, what: str) -> dict[str, Any]:
    """As `plain`, for a dictionary.

    Raises:
        PatternRefused: If it is not a dictionary, or cannot be written as JSON.
    """
    made = plain(value, what)
    if not isinstance(made, dict):
        raise PatternRefused(f"{what} must be a dictionary, not {type(value).__name__}")
    return made


image = msgspec.json.Encoder(order="deterministic").encode
"""Encode a plain value so that equal values have equal bytes."""


def digest(*values: Any) -> str:
    """A stable SHA-256 of plain *values*, in hex."""
    return hashlib.sha256(image(values)).hexdigest()


def _as_jsonable(value: Any) -> Any:
    """Encode what JSON lacks: pydantic's models, rows included."""
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def text_of(output: dict[str, Any]) -> str:
    """*output* as one text: its `text`, or all of it as JSON."""
    text = output.get("text")
    return text if isinstance(text, str) else msgspec.json.encode(output).decode()


_encode = msgspec.json.Encoder(enc_hook=_as_jsonable).encode
_decode = msgspec.json.Decoder().decode

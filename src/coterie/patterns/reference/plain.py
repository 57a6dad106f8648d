"""Values as a journal keeps them: JSON, copied, so that nobody changes what others hold."""

import hashlib
from typing import Any

import msgspec

from coterie.errors import PatternRefused


def plain(value: Any, what: str) -> Any:
    """A copy of *value* made of what JSON has; *what* it is, for the error.

    Raises:
        PatternRefused: If it cannot be written as JSON.
    """
    try:
        return _decode(_encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PatternRefused(f"{what} cannot be written down as JSON: {error}") from None


def plain_object(value: Any, what: str) -> dict[str, Any]:
    """As `plain`, of a dictionary.

    Raises:
        PatternRefused: If it is none, or cannot be written as JSON.
    """
    made = plain(value, what)
    if not isinstance(made, dict):
        raise PatternRefused(f"{what} must be a dictionary, not {type(value).__name__}")
    return made


def digest(*values: Any) -> str:
    """A stable SHA-256 of plain *values*, in hex."""
    return hashlib.sha256(image(values)).hexdigest()


def image(value: Any) -> bytes:
    """Plain *value* as bytes that are the same whenever the value is."""
    return _image(value)


def _told(value: Any) -> Any:
    """What JSON does not know by itself: pydantic's models, rows among them."""
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no JSON value")


def text_of(output: dict[str, Any]) -> str:
    """*output* as one text: what it says under `text`, or else all of it as JSON."""
    text = output.get("text")
    return text if isinstance(text, str) else msgspec.json.encode(output).decode()


_encode = msgspec.json.Encoder(enc_hook=_told).encode
_image = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder().decode

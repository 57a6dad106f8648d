"""The one way in which tools of every kind give a result to a model: bounded, redacted, and marked where it is cut.

Imports pydantic-ai: load it late.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import ToolReturn
from pydantic_ai.messages import BinaryContent, is_multi_modal_content, tool_return_ta
from pydantic_ai.tools import ToolDefinition

from coterie.agents.backends.models.workfiles import RESULT
from coterie.agents.backends.secrets import Secrets

MEDIA = 10 << 20
"""The largest total of images and other media in a result, in bytes."""
_NAME = 64
_BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
    "audio/wav": (b"RIFF",),
    "audio/mpeg": (b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"),
    "application/pdf": (b"%PDF-",),
}
"""How media of the types begin that models read; a provider refuses the whole conversation with any other."""


def given(result: Any, secrets: Secrets) -> Any:
    """The *result* of a tool as the model gets it.

    Raises:
        ValueError, TypeError: If it is not data.
    """
    if isinstance(result, ToolReturn):
        content = given(result.content, secrets) if result.content else result.content
        if isinstance(content, dict):
            content = json.dumps(content, ensure_ascii=False)
        return replace(result, return_value=given(result.return_value, secrets), content=content)
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    media = [one for one in parts if is_multi_modal_content(one)]
    plain = [one for one in parts if not is_multi_modal_content(one)]
    data = secrets.hide_in(tool_return_ta.dump_python(plain, mode="json", by_alias=True))
    texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in data]
    notes: list[str] = []
    if (size := sum(map(len, texts))) > RESULT:
        data = [cut(" ".join(texts), size)]
    room = MEDIA
    kept: list[Any] = []
    for one in media:
        if isinstance(one, BinaryContent):
            room -= len(one.data)
            if room < 0 or not _is_readable(one):
                notes.append(f"({len(one.data):,} bytes of {one.media_type[:_NAME]!r} are left out: {_why(room)})")
                continue
        kept.append(one)
    whole = [*data, *notes, *kept]
    return whole[0] if len(whole) == 1 and not isinstance(result, (list, tuple)) else whole


def cut(text: str, size: int = 0) -> str:
    """*text*, or its beginning and a note if it is too long for a prompt; *size*: its length as the model reads it."""
    if len(text) <= RESULT:
        return text
    return f"{text[:RESULT]}\n(these are {RESULT:,} of {size or len(text):,} characters: ask for less)"


def unusable(tool: ToolDefinition, profile: Mapping[str, Any]) -> str:
    """Why a model cannot be offered *tool*, which a foreign server describes; empty if it can."""
    if not (0 < len(tool.name) <= _NAME and tool.name.replace("-", "_").isidentifier() and tool.name.isascii()):
        return f"a name has at most {_NAME} letters, digits, '_' and '-'"
    try:
        size = len(json.dumps(tool.parameters_json_schema)) + len(tool.description or "")
        if size > RESULT:
            return f"its description and schema have {size:,} characters, of at most {RESULT:,}"
        if tool.parameters_json_schema.get("type") != "object":
            return "its schema does not describe an object"
        _check(tool.parameters_json_schema)
        if (transformer := profile.get("json_schema_transformer")) is not None:
            transformer(tool.parameters_json_schema, strict=None).walk()
    except Exception as error:  # the library expects a schema, and may fail in any way on another value
        return f"its schema cannot be read: {type(error).__name__}: {error}"[:RESULT]
    return ""


def _check(schema: Any) -> None:
    """Check that *schema* has the shape of a schema, at every depth.

    Raises:
        TypeError: If it has not.
    """
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        raise TypeError(f"{str(schema)[:_NAME]!r} is not a schema")
    for name in ("properties", "$defs", "definitions", "patternProperties"):
        if not isinstance(inner := schema.get(name, {}), dict):
            raise TypeError(f"{name!r} is not an object")
        for one in inner.values():
            _check(one)
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if not isinstance(several := schema.get(name, []), list):
            raise TypeError(f"{name!r} is not a list")
        for one in several:
            _check(one)
    for name in ("items", "additionalProperties", "not"):
        if name in schema:
            _check(schema[name])


def _is_readable(one: BinaryContent) -> bool:
    beginnings: Sequence[bytes] = _BEGINNINGS.get(one.media_type, ())
    return one.data.startswith(tuple(beginnings)) if beginnings else False


def _why(room: int) -> str:
    return f"a result has at most {MEDIA:,} bytes of media" if room < 0 else "it is no image, sound or PDF of that type"

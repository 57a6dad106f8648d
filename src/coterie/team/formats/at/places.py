"""Suggest the right place for a misplaced field."""

import json
from typing import Any

from coterie.team.formats.at.language import ATTRIBUTES, LANGUAGE
from coterie.team.options.agents import BY_KEY

_LONGEST = 40
"""Characters of a value that a hint repeats."""


def right_place(name: str, value: Any) -> str:
    """A line that sets the field *name* to *value* in the right place; empty if there is none."""
    dashed = name.replace("_", "-")
    shown = json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= _LONGEST else "…"
    if dashed in BY_KEY:
        return f"write extensions {{ coterie {{ {dashed}: {shown} }} }} in the agent"
    if (found := next((one for one in ATTRIBUTES if one.name == dashed), None)) is not None:
        return f"write it at an arrow: NAME -> NAME [{found.shape.split(' | ')[0]}]"
    blocks = (block for block in LANGUAGE if block.executed and any(field.name == dashed for field in block.fields))
    if (block := next(blocks, None)) is not None:
        named = " NAME" if block.named else ""
        return f"write {block.name}{named} {{ {dashed}: {shown} }}"
    return ""

"""Escape what could deceive the person who reads a text, or control the terminal that shows it."""

import json

_HARMFUL = (
    *(*range(32), *range(127, 160)),  # control characters
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),  # without width
    *(*range(0x180B, 0x1810), *range(0x200B, 0x2010), *range(0x2060, 0x2066), 0xFEFF),  # without width
    *(*range(0x2028, 0x202F), *range(0x2066, 0x2070)),  # line separators, and the direction of writing
    *range(0xFE00, 0xFE0F),  # variants, but for that of emoji
    *(*range(0xFFF0, 0xFFFC), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B)),  # formats
    *range(0xE0000, 0xE1000),  # tags, further variants, and what Unicode keeps free to be as invisible
)
_ESCAPES = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    for code in _HARMFUL
    if chr(code) not in "\n\t"
}


def printable(text: str) -> str:
    """Escape all of *text* that could control the terminal which shows it, or that nothing shows."""
    return text.translate(_ESCAPES)


def printable_json(text: str) -> str:
    """The same for *text*, which is JSON and stays it."""
    found = {*text}.difference("\n\t")
    return text.translate({ord(one): json.dumps(one)[1:-1] for one in found if ord(one) in _ESCAPES})

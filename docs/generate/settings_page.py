"""Generate `docs/reference/settings.md` from the settings.

python docs/generate/settings_page.py > docs/reference/settings.md
"""

import inspect
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from coterie.team.formats.settings.keys import SECTIONS, Key, keys

HEAD = """\
# Settings

<!-- Written by `python docs/generate/settings_page.py`; a test keeps it fresh. -->

The settings of a loop are in `autoloops.toml` in its folder (`autoloops.conf` if there is none), as TOML:
`event_loop.max_iterations = 100`, or as tables. A file that is not TOML is read as lines of `key = value`, with a
warning. Later layers win: the defaults, the user's file (`~/.config/autoloop/config.toml`, or what `AUTOLOOP_CONFIG`
names), the project's file, the user's override of the preset (`~/.config/autoloop/overrides/<preset>.toml`), the
repository's (`.autoloop/overrides/<preset>.toml`), the user's file for the project (`coterie config path` shows all),
the command line (`--set key=value`). `coterie config show` prints the values and their origins.

A list may be a text, `a,b`. A duration is `90s`, `15m`, `1h30m`, or milliseconds. Settings marked *fixed* are read when
a run starts; all others are read again at every iteration. Of those marked *protects* a running loop takes only a
stricter value, unless [a person changed it](../loop-folder.md#while-it-runs).
"""
_TYPES = {
    "ms": "milliseconds",
    "flag": "true or false",
    "whole": "whole number",
    "list": "list of texts",
    "commands": "list of commands",
}


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for section, members in groupby(keys().values(), key=lambda key: key.section):
        yield f"## {section}\n"
        yield f"{inspect.cleandoc(SECTIONS[section].__doc__ or '')}\n"
        yield "| key | type | default | meaning |\n|---|---|---|---|"
        yield from (_row(key) for key in members)
        yield ""


def _row(key: Key) -> str:
    what = key.meaning.what.replace("|", "\\|") + (" *Fixed.*" if key.meaning.fixed else "")
    what += " *Protects.*" if key.meaning.protects is not None else ""
    type_ = " or ".join(f"`{choice}`" for choice in key.meaning.choices if choice) or _TYPES.get(key.type, key.type)
    return f"| `{key.name}` | {type_} | {_default(key)} | {what} |"


def _default(key: Key) -> str:
    value: Any = key.default
    if value is None:
        return "unset"
    if key.type in ("ms", "duration"):
        value = int(value * 1000)
    if isinstance(value, tuple):
        return "`[]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else '`""`'


if __name__ == "__main__":
    print(page(), end="")

"""The objectives of a wave: a markdown list, one branch an item."""

import re

_ITEM = re.compile(r"(?:[-*]|[0-9]+\.)\s+(\S.*)")
_SHOWN = 60


class NoObjectives(ValueError):
    """A payload is not a list of objectives; the message gives the reason."""


def objectives(payload: str, most: int) -> tuple[str, ...]:
    """The items of *payload*, a bulleted or numbered list of 1 to *most* distinct objectives.

    Raises:
        NoObjectives: If it is anything else.
    """
    found: list[str] = []
    for line in payload.splitlines():
        text = line.strip()
        if not text:
            continue
        item = _ITEM.fullmatch(text)
        if item is None:
            raise NoObjectives(f"write one objective per line, as '- …' or '1. …', not {text[:_SHOWN]!r}")
        found.append(item[1].strip())
    if not found:
        raise NoObjectives("a wave needs a list of objectives, one per line: '- …'")
    if len(found) > most:
        raise NoObjectives(f"a wave has at most {most} branches (parallel.max_branches), but the list has {len(found)}")
    if twice := next((one for at, one in enumerate(found) if one in found[:at]), None):
        raise NoObjectives(f"two objectives are the same: {twice[:_SHOWN]!r}")
    return tuple(found)

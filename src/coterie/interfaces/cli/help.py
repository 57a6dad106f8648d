"""The help text of a command."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import wrap

from coterie.interfaces.cli.named_command import NamedCommand
from coterie.interfaces.cli.parameters import HELP

_LEFT = 32
"""Columns of the longest name that has its meaning beside it, with its indent."""


def help_text(command: NamedCommand, words: Sequence[str]) -> str:
    """Return the help for *command*; what *words* name decides which options come first."""
    width = max(52, min(80, shutil.get_terminal_size().columns)) - 2
    first = _fitting(words)
    options = sorted((one for one in command.parameters if one.options), key=lambda one: one.group != first)
    rows = {
        "Arguments": [(one.declared.text, one.declared.help) for one in command.parameters if not one.options],
        "Options": [
            *((one.declared.text, one.declared.help) for one in options),
            (", ".join(HELP), "Show this message and exit."),
        ],
        "Commands": list(command.summaries()),
    }
    lines = wrap(f"Usage: {command.usage}", width, subsequent_indent="  ")
    for paragraph in command.about.split("\n\n"):
        lines += ["", *wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")]
    for title, found in rows.items():
        lines += ["", f"{title}:", *_table(found, width)] if found else []
    return "\n".join(lines)


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Yield the lines of *rows*, names with their meanings."""
    left = min(_LEFT, max(len(name) + 2 for name, _ in rows))
    for name, about in rows:
        begin = f"  {name}"
        if len(begin) > left:
            yield begin
            begin = ""
        for line in wrap(about, width - left - 2):
            yield f"{begin:{left}}  {line}"
            begin = ""


def _fitting(words: Sequence[str]) -> str | None:
    """The option group for the target that *words* name, if it has one; None puts the options in their order."""
    target = next((word for word in words if not word.startswith("-")), "")
    if not target:
        return None
    from coterie.interfaces.cli.team_file import is_loop, is_preset

    with suppress(Exception):  # a missing target is no reason to show no help
        if is_loop(Path(target)) or is_preset(target):
            return "loop"
    return "system" if Path(target).name in ("topology.yaml", "topology.yml") else None

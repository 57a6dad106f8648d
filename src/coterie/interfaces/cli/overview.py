"""What `coterie --help` prints: the commands in groups, without importing them."""

from coterie.interfaces.cli.commands import SECTIONS

HEAD = """\
Usage: coterie COMMAND [OPTIONS]

Run teams of AI agents that survive being killed.
"""
FOOT = """\
`coterie COMMAND -h` shows the options of a command.
"""


def overview() -> str:
    """Return the text: no line is longer than 80 characters."""
    parts = [HEAD]
    for title, commands in SECTIONS.items():
        lines = (f"  {name:13} {about.rstrip('.')}\n" for name, (_, about) in commands.items())
        parts.append(f"{title}:\n{''.join(lines)}")
    return "\n".join([*parts, FOOT])

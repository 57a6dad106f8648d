"""Generate `docs/reference/commands.md` from the commands.

python docs/generate/command_page.py > docs/reference/commands.md
"""

from collections.abc import Iterator

from coterie.interfaces.cli.commands import COMMANDS, GROUPS, SHORT_FORMS
from coterie.interfaces.cli.named_command import NamedCommand, find_command

HEAD = """\
# Commands

<!-- Written by `python docs/generate/command_page.py`; a test keeps it fresh. -->

The exit status of every command gives the outcome: 0 completed, 1 failed or invalid, 2 usage or a missing file,
3 stopped by a limit, 4 waiting for a human, 130 interrupted. Results go to standard output; errors, warnings and
progress to standard error. With `--json` a command prints its result as JSON; if it cannot, it prints
`{"error", "exit"}`, for a file with errors `{"file", "valid", "diagnostics"}`. Options can precede or follow the
arguments. `coterie validate`, `check`, `graph`, `fmt` and `diff` are short for `coterie topology validate` and so on.
"""


def page() -> str:
    """Return the page."""
    names = []
    for name, (place, _) in COMMANDS.items():
        names += [[name]] * bool(place and name not in SHORT_FORMS)
        names += [[name, below] for below in GROUPS.get(name, ())]
    return "\n".join([HEAD, *(line for words in names for line in _section(find_command(words)[0]))])


def _section(command: NamedCommand) -> Iterator[str]:
    yield f"## {command.name}\n"
    yield f"```\n{command.usage}\n```\n"
    yield f"{command.about}\n"
    yield "| argument or option | meaning |\n|---|---|"
    yield from (f"| {_code(one.declared.text)} | {_cell(one.declared.help)} |" for one in command.parameters)
    yield ""


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")

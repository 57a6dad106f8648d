"""Generate `docs/reference/commands.md` from the commands.

python docs/generate/command_page.py > docs/reference/commands.md
"""

import inspect
from collections.abc import Iterator
from typing import Any

from coterie.cli.app import SHORT_FORMS, command

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
    whole = command()
    for name in SHORT_FORMS:
        del whole.commands[name]
    return "\n".join([HEAD, *_sections(whole, "coterie")])


def _sections(found: Any, name: str) -> Iterator[str]:
    """Yield a section for each command at or below *found*."""
    below = getattr(found, "commands", None)
    if below is not None and found.invoke_without_command and found.params:
        yield from _section(found, name)
    if below is not None:
        for word, each in below.items():
            yield from _sections(each, f"{name} {word}")
    else:
        yield from _section(found, name)


def _section(found: Any, name: str) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"```\n{' '.join([name, *map(_usage, _arguments(found)), '[OPTIONS]'])}\n```\n"
    yield f"{inspect.cleandoc(found.help)}\n"
    yield "| argument or option | meaning |\n|---|---|"
    yield from (f"| {_code(_words(param))} | {_cell(param.help)} |" for param in found.params)
    yield ""


def _arguments(found: Any) -> list[Any]:
    return [param for param in found.params if param.param_type_name == "argument"]


def _usage(argument: Any) -> str:
    word = argument.metavar + (" …" if argument.nargs == -1 and "]" not in argument.metavar else "")
    return word if argument.required else f"[{word}]"


def _words(param: Any) -> str:
    """Return the name of an argument, or the names and the value of an option."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = " / ".join([", ".join(sorted(param.opts, key=len)), *param.secondary_opts])
    return names if param.is_flag else f"{names} {param.metavar}"


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")

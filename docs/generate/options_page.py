"""Generate `docs/reference/options.md` from the table of options.

python docs/generate/options_page.py > docs/reference/options.md
"""

from collections.abc import Iterator

from coterie.team.options.agents import BY_KEY, READERS, Option, Scope
from coterie.team.options.values import Unfit

HEAD = """\
# Options of agents

<!-- Written by `python docs/generate/options_page.py`; a test keeps it fresh. -->

The keys of `extensions { coterie { … } }` in an `.at` file. In YAML and in Python an option has underscores,
`stall_after`; a loop has it as the setting in the last column, and a role as the same name after `backend_`. A duration
is `90s`, `5m` or `1h`, or a number of seconds; in loops it is in milliseconds.

In a topology an option is that of all its agents. A key that only some backends read is a warning in an agent with
another one.

## extensions.coterie

| option | value | default | meaning | where | read by | in a loop |
|---|---|---|---|---|---|---|"""
_PLACES = {
    Scope.AGENT: "agent",
    Scope.TOPOLOGY: "topology",
    Scope.PROCESS: "action, gate",
    Scope.HUMAN: "human",
}


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *(_row(key, option) for key, option in BY_KEY.items()), ""])


def _row(key: str, option: Option) -> str:
    where = ", ".join(place for scope, place in _PLACES.items() if option.scope >= scope) or "topology"
    readers = ", ".join(f"`{name}`" for name in sorted(READERS.get(key, ())))
    loop = f"`{option.in_settings}`" if option.in_settings else ""
    about = option.about.replace("|", "\\|")
    return f"| `{key}` | {', '.join(_value(option))} | {_default(option)} | {about} | {where} | {readers} | {loop} |"


def _value(option: Option) -> Iterator[str]:
    if option.kind.choices:
        yield " or ".join(f"`{choice}`" for choice in option.kind.choices)
    elif option.kind.form == "list":
        yield "a list of texts"
    else:
        try:
            option.kind.read(object())
        except Unfit as unfit:
            yield unfit.wanted
    if option.kind.least == 0:
        yield "or `0`"


def _default(option: Option) -> str:
    """What counts if none is given, where that is so in every notation: a time limit has one in loops only."""
    if option.default is None or option.default in ((), "") or option.scope is Scope.HUMAN:
        return ""
    if isinstance(option.default, bool):
        return f"`{str(option.default).lower()}`"
    return f"`{option.default / 60:g}m`" if option.kind.form == "seconds" else f"`{option.default}`"


if __name__ == "__main__":
    print(page(), end="")

"""A command as the command line names it: what its parser, help, completion and reference page are made from."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import getdoc
from typing import NamedTuple

from coterie.interfaces.cli.commands import COMMANDS, GROUPS, load
from coterie.interfaces.cli.parameters import Arg, Behind, Command, Declaration, Opt, declarations


class NamedCommand(NamedTuple):
    """A command, or a group of commands, as the command line names it.

    Attributes:
        name: `coterie runs`.
        about: Its help text.
        function: None of a mere group.
        below: The function of each command below it.
    """

    name: str
    about: str
    function: Command | None = None
    parameters: tuple[Declaration, ...] = ()
    below: Mapping[str, str] = {}

    @property
    def options(self) -> Mapping[str, Declaration]:
        """The parameter of each word that names one."""
        return {word: one for one in self.parameters for word in one.options}

    @property
    def usage(self) -> str:
        """The words to type."""
        below = ("[COMMAND]" if self.parameters else "COMMAND") if self.below else ""
        arguments = [one.usage for one in self.parameters if isinstance(one.declared, Arg)]
        required = [one.example for one in self.parameters if one.options and one.is_required]
        behind = [one.usage for one in self.parameters if isinstance(one.declared, Behind)]
        return " ".join(filter(None, [self.name, below, *arguments, *required, "[OPTIONS]", *behind]))

    def summaries(self) -> Iterator[tuple[str, str]]:
        """The commands below it, each with what it does; those of a group are loaded."""
        for name, place in self.below.items():
            yield name, COMMANDS[name][1] if self is TOP else str(getdoc(load(place))).partition("\n")[0]


_VERSION = Declaration("version", bool, Opt("--version", "Print the version and exit."), False)
TOP = NamedCommand("coterie", "", None, (_VERSION,), {name: place for name, (place, _) in COMMANDS.items()})
"""All of the command line."""


def find_command(words: Sequence[str]) -> tuple[NamedCommand, Sequence[str]]:
    """Return the command that *words* begin with, `TOP` if none, and the words after its name."""
    first, second = (*words, "", "")[:2]
    if first not in COMMANDS:
        return TOP, words
    (place, about), below, count = COMMANDS[first], GROUPS.get(first, {}), 1
    if second in below:
        place, below, count = below[second], {}, 2
    function = load(place) if place else None
    parameters = tuple(declarations(function)) if function else ()
    name, about = " ".join(["coterie", *words[:count]]), getdoc(function) or about if function else about
    return NamedCommand(name, about, function, parameters, below), words[count:]

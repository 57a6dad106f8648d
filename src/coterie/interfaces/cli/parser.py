"""The parser of command lines: argparse, made from the parameters of a command.

argparse finds out which word belongs to which parameter; values and messages are ours.
"""

import re
from argparse import SUPPRESS, ArgumentError, ArgumentParser, HelpFormatter
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from coterie.interfaces.cli import usage
from coterie.interfaces.cli.named_command import NamedCommand
from coterie.interfaces.cli.output import say
from coterie.interfaces.cli.parameters import HELP, Arg, Behind, Declaration

_MARK = "\0"
"""Begins a word that is no option even if a dash follows; no argument of a process contains this character."""
_OPTION = re.compile("-[-A-Za-z]")
"""How an option begins; a list and a negative number begin with a dash, too."""


class _Parser(ArgumentParser):
    """The parser of a command."""

    def __init__(self, command: NamedCommand, words: Sequence[str]) -> None:
        narrow = partial(HelpFormatter, width=80)  # by default each option asks for the size of the terminal
        super().__init__(
            usage="", formatter_class=narrow, allow_abbrev=False, exit_on_error=False, argument_default=SUPPRESS
        )
        self._command, self._words = command, words
        for one in command.parameters:
            if isinstance(one.declared, Arg):
                self.add_argument(one.name, nargs="*" if one.is_list else "?")
            elif one.is_flag:
                for word, value in one.options.items():
                    self.add_argument(word, dest=one.name, action="store_const", const=value)
            elif one.options:
                self.add_argument(*one.options, dest=one.name, action="append" if one.is_list else "store")

    def print_help(self, file: Any = None) -> None:
        """Print our help."""
        from coterie.interfaces.cli.help import help_text

        say(help_text(self._command, self._words))


def parse(command: NamedCommand, words: Sequence[str]) -> dict[str, Any]:
    """Return the values of the parameters that *words* give, by name.

    Raises:
        UsageError: If they are invalid.
        SystemExit: If they ask for help, which was printed.
    """
    rest = deque(words)
    before = list(_guarded(command, rest))
    behind = [one.name for one in command.parameters if isinstance(one.declared, Behind)]
    if not behind:
        before += [_MARK + word for word in rest]
    try:
        found, left = _Parser(command, words).parse_known_intermixed_args(before)
    except ArgumentError as error:
        option = command.options[str(error.argument_name).partition("/")[0]]
        raise usage.unusable_option(command, option) from None
    given = vars(found) | ({name: list(rest) for name in behind} if rest else {})
    if unknown := [word for word in left if _OPTION.match(word)]:
        raise usage.unknown_option(command, unknown[0].partition("=")[0])
    if left:
        raise usage.extra(command, [word.removeprefix(_MARK) for word in left])
    if absent := [one for one in command.parameters if one.is_required and one.name not in given]:
        raise usage.missing(command, absent[0])
    return {one.name: _given(command, one, given[one.name]) for one in command.parameters if one.name in given}


def _guarded(command: NamedCommand, rest: deque[str]) -> Iterator[str]:
    """Take the words before `--` from *rest*, in a form that argparse does not misread.

    It refuses a word after an option that begins with a dash, and takes some arguments for options.
    """
    options, is_begun = command.options, any(one.declared.names_options for one in command.parameters)
    takes_options = any(one.declared.takes_options for one in command.parameters)
    while rest and (word := rest.popleft()) != "--":
        option = options.get(word)
        is_value = option.declared.is_value if option is not None else None
        if option is None or option.is_flag:
            is_word = not _OPTION.match(word) or (is_begun and word.partition("=")[0] not in {*options, *HELP})
            is_begun = is_begun or (takes_options and not word.startswith("-"))
            yield _MARK + word if is_word else word
        elif rest and (is_value is None or (not rest[0].startswith("-") and is_value(rest[0]))):
            yield f"{word}={rest.popleft()}"
        else:
            yield word if is_value is None else f"{word}="


def _given(command: NamedCommand, one: Declaration, found: Any) -> Any:
    """Return the value of a parameter from *found*: its words, or the value of a flag."""
    if one.is_flag:
        return found
    return [_value(command, one, word) for word in found] if one.is_list else _value(command, one, found)


def _value(command: NamedCommand, one: Declaration, found: Any) -> Any:
    word = "--" if found == [] else found.removeprefix(_MARK)  # before Python 3.13 argparse drops `--` as a value
    if isinstance(one.declared, Arg) and _OPTION.match(found):  # with a blank, which argparse takes for a word
        raise usage.unknown_option(command, word.partition("=")[0])
    try:
        return one.value(word)
    except ValueError as error:
        raise usage.invalid(command, one, word, error) from None

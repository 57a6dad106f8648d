"""Regular expressions that Python's own `re` matches in linear time, for where RE2 is not installed.

`re` goes back and tries again where a text can be matched in several ways. An expression is accepted if at each choice
the next character decides: the branches, and one more repetition or what follows it, begin with different characters.
One repetition of single characters may overlap with what follows, if that is of bounded length: it is then tried at
each place once. What `re` and RE2 understand differently is refused.
"""

import re
import warnings
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

_MOST = 1000
"""The largest number of repetitions in RE2."""
_ASCII = 128
_BEYOND = 1 << _ASCII
"""All characters beyond ASCII, which are not distinguished."""
_END = 1 << _ASCII + 1
"""The end of the text, as what may follow."""
_ANY = (1 << _ASCII + 1) - 1
_OTHERWISE = re.compile(r"\\[uUNZ]|\{,|\(\?#|\(\?P?=|\[\[:|\(\?[a-zA-Z-]*[):]")
"""Parts of an expression that RE2 reads otherwise or not at all; `(?:` is the same."""
_SPACES = [(_constants.LITERAL, ord(char)) for char in "\t\n\f\r "]
_OF_CATEGORY = {
    category: sum(1 << n for n in range(_ASCII) if re.fullmatch(text, chr(n), re.ASCII))
    for category, text in (
        (_constants.CATEGORY_DIGIT, r"\d"),
        (_constants.CATEGORY_SPACE, r"\s"),
        (_constants.CATEGORY_WORD, r"\w"),
    )
}
_OF_CATEGORY |= {
    getattr(_constants, str(one).replace("CATEGORY_", "CATEGORY_NOT_")): _ANY & ~mask
    for one, mask in [*_OF_CATEGORY.items()]
}


def compiled(expression: str, *, bounded: bool = False) -> "re.Pattern[str] | str":
    """The compiled *expression*; a text: why it is not accepted.

    Args:
        bounded: Accept only what matches texts of bounded length, as a search begins at each place.
    """
    if any(found[0] != "(?:" for found in _OTHERWISE.finditer(expression)):
        return "it has a part that only RE2 can read"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = _parser.parse(expression, re.ASCII)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        return str(error)
    try:
        _Check().sequence(tree, _END)
    except _Ambiguous as error:
        return str(error)
    if bounded and tree.getwidth()[1] > _MOST:
        return "a text of any length can match it"
    return _compiler.compile(tree, re.ASCII)  # type: ignore[no-any-return]


class _Ambiguous(Exception):
    """Why an expression may take longer than linear time."""


class _Check:
    """Walks an expression from its end; each method returns the characters with which a match can begin."""

    def __init__(self) -> None:
        self._is_bounded = True
        """Whether all after the present place is of bounded length."""
        self._depth = 0
        self._overlaps = False

    def sequence(self, items: Any, follow: int) -> int:
        """The first characters of *items*, which are followed by one of *follow*."""
        for n in range(len(items) - 1, -1, -1):
            op, argument = items[n]
            if (op, argument) == (_constants.AT, _constants.AT_END):
                items[n] = (op, _constants.AT_END_STRING)  # for RE2, `$` is not before a last line break
            elif op is _constants.IN:
                argument = _spaces_of_re2(argument)
                items[n] = (op, argument)  # not in place: `re` has one list for each `\S`
            follow = self._item(op, argument, follow)
        return follow

    def _item(self, op: Any, argument: Any, follow: int) -> int:
        if (chars := _chars(op, argument)) is not None:
            return chars
        match op:
            case _constants.AT:
                return follow
            case _constants.SUBPATTERN if not argument[1] and not argument[2]:
                return self.sequence(argument[3], follow)
            case _constants.BRANCH:
                return self._branch(argument[1], follow)
            case _constants.MAX_REPEAT | _constants.MIN_REPEAT:
                least, most, body = argument
                return self._repeat(least, most, body, follow)
        raise _Ambiguous(f"{str(op).lower().replace('_', ' ')} is not supported")

    def _branch(self, ways: Any, follow: int) -> int:
        first, bounded = 0, self._is_bounded
        for way in ways:
            self._is_bounded, before = bounded, self._is_bounded
            found = self.sequence(way, follow)
            self._is_bounded &= before
            if first & found:
                raise _Ambiguous("two alternatives begin with the same character")
            first |= found
        return first

    def _repeat(self, least: int, most: Any, body: Any, follow: int) -> int:
        endless = most is _constants.MAXREPEAT
        if not endless and most > _MOST:
            raise _Ambiguous(f"something is repeated more than {_MOST} times")
        if body.getwidth()[0] == 0:
            raise _Ambiguous("it repeats what can be empty")
        self._depth += 1
        first = _first(body) if most != 1 else 0
        bounded, self._is_bounded = self._is_bounded, False
        first |= self.sequence(body, first | follow)
        self._is_bounded = bounded
        self._depth -= 1
        if least != most and first & follow:
            is_single = len(body) == 1 and _chars(*body[0]) is not None
            if self._overlaps or self._depth or not is_single or not bounded:
                raise _Ambiguous("a repetition and what follows it begin with the same character")
            self._overlaps = True
        self._is_bounded = bounded and not endless
        return first | (0 if least else follow)


def _first(items: Any) -> int:
    """The characters with which a match of *items* can begin, without those of what follows; nothing is checked."""
    found = 0
    for op, argument in items:
        match op:
            case _constants.AT:
                continue
            case _constants.SUBPATTERN:
                within, least = _first(argument[3]), argument[3].getwidth()[0]
            case _constants.BRANCH:
                within, least = 0, min(way.getwidth()[0] for way in argument[1])
                for way in argument[1]:
                    within |= _first(way)
            case _constants.MAX_REPEAT | _constants.MIN_REPEAT:
                within, least = _first(argument[2]), argument[0] * argument[2].getwidth()[0]
            case _:
                within, least = _chars(op, argument) or 0, 1
        found |= within
        if least:
            break
    return found


def _spaces_of_re2(members: list[Any]) -> list[Any]:
    r"""The *members* of a set without `\s` and `\S`, which for RE2 leave out the vertical tab."""
    not_space = (_constants.CATEGORY, _constants.CATEGORY_NOT_SPACE)
    if members == [not_space]:
        return [(_constants.NEGATE, None), *_SPACES]
    if not_space in members:
        raise _Ambiguous("a set with \\S and other members is not supported")
    space = (_constants.CATEGORY, _constants.CATEGORY_SPACE)
    return [each for one in members for each in (_SPACES if one == space else [one])]


def _chars(op: Any, argument: Any) -> int | None:
    """The characters that an item of one character matches; None: it is another item."""
    match op:
        case _constants.LITERAL:
            return 1 << argument if argument < _ASCII else _BEYOND
        case _constants.NOT_LITERAL:
            return _ANY & ~(1 << argument) if argument < _ASCII else _ANY
        case _constants.ANY:
            return _ANY & ~(1 << ord("\n"))
        case _constants.IN:
            negated = argument[0][0] is _constants.NEGATE
            found = 0
            for kind, value in argument[negated:]:
                found |= _range(*value) if kind is _constants.RANGE else _of_set(kind, value)
            return (_ANY & ~found) | (_BEYOND if negated else 0) if negated else found
    return None


def _range(low: int, high: int) -> int:
    return sum(1 << n for n in range(low, min(high + 1, _ASCII))) | (_BEYOND if high >= _ASCII else 0)


def _of_set(kind: Any, value: Any) -> int:
    return _OF_CATEGORY[value] if kind is _constants.CATEGORY else _chars(kind, value) or 0

"""Match calls of the built-in tools against the rules of a file.

A pattern for files is as in `.gitignore`: relative to the working directory, `*` within a name, `**` across folders,
and a folder includes everything in it. A pattern for programs is matched against the command line, where `*` is any
text.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from coterie.base import files
from coterie.team.options.secret_files import is_secret
from coterie.team.planning.permissions import CHANGING, Permissions, Rule, read_rules
from coterie.team.topology.expressions import compiled

STATE_FOLDERS = (".coterie", ".autoloop")
"""The folders of runs, closed to every tool, since an agent must not act for its run."""

_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]/]*\]|\{[^{}]*\}|.", re.DOTALL)
_WORDS = 1000
"""The largest number of words of a command; a longer command is refused."""


class Refused(Exception):
    """A tool refuses a call; the message for the model says why."""


class Rules:
    """Decides on the calls of an agent's tools.

    Args:
        root: The real path of the working directory.
        closed: A folder that no tool may use, besides the user's state.
        team: The files of the team, and folders of such files, which no tool may change.
    """

    def __init__(
        self, permissions: Permissions, root: str, closed: Path | None = None, team: Sequence[Path] = ()
    ) -> None:
        self._permissions, self._root = permissions, root
        shut = filter(None, (closed, files.user_state()))
        self._closed = tuple(os.path.join(os.path.realpath(one), "") for one in shut)
        self._team = [os.path.join(os.path.realpath(path), "").lower() for path in team]
        self._allow = read_rules(permissions.allow)
        self._deny = read_rules(permissions.deny, forbid=True)
        self._ask = read_rules(permissions.ask, forbid=True)

    def check_file(self, tool: str, *paths: str) -> None:
        """Check that *tool* may use the file at *paths*, relative to the root: its given and its real path.

        Raises:
            Refused: If it may not.
        """
        self._check(tool, lambda rule: any(self._is_file(rule, path) is not False for path in paths))
        for path in paths:
            self._check_closed(tool, path)
            if tool in CHANGING and ".git" in path.lower().split("/"):
                raise Refused(f"{path!r} belongs to git, whose files must not be changed by tools")
            place = os.path.join(os.path.realpath(os.path.join(self._root, path)), "").lower()
            if tool in CHANGING and any(place.startswith(one) for one in self._team):
                raise Refused(f"{path!r} is a file that the team is read from, which must not be changed by tools")
        if self._permissions.needs_approval(tool):
            rules = [rule for rule in self._allow if rule.covers(tool)]
            if not all(any(self._is_file(rule, path) for rule in rules) for path in paths):
                raise Refused(f"{tool} on {paths[-1]!r} requires approval, which cannot be requested")

    def check_command(self, argv: Sequence[str]) -> None:
        """Check that the program *argv* may run.

        A forbidding rule is also matched against the words within the command, since `env`, `sh -c` and many others run
        their arguments. A command that names a file that must not be read is also refused.

        Raises:
            Refused: If it may not.
        """
        words = list(islice(_words(argv), _WORDS + 1))
        if len(words) > _WORDS:
            raise Refused(f"the command has more than {_WORDS} words: put it in a file")
        quoted = [shlex.quote(word) for word in words]
        tails = [" ".join([shlex.quote(os.path.basename(word)), *quoted[n:]]) for n, word in enumerate(words, 1)]
        lines = [shlex.join(argv), " ".join(argv), *tails]
        self._check("Bash", lambda rule: any(_is_command(rule, line) is not False for line in lines))
        for word in {*words, *(word.rpartition("=")[2] for word in words)}:
            path = os.path.relpath(os.path.realpath(os.path.join(self._root, word)), self._root)
            self._check_closed("Read", path)
            for rule in (*self._deny, *self._ask):
                if rule.pattern and rule.covers("Read") and self._is_file(rule, path) is not False:
                    raise Refused(f"the rule {rule.text!r} of the team's file forbids the use of {word!r}")
        if self._permissions.needs_approval("Bash"):
            rules = [rule for rule in self._allow if rule.covers("Bash")]
            line = shlex.join(argv)
            if not any(not rule.pattern or _is_command(rule, line) for rule in rules):
                known = ", ".join(rule.text for rule in rules)
                raise Refused(f"no rule of the team's file allows `{line}`; it allows {known}")

    def _check_closed(self, tool: str, path: str) -> None:
        """Check that *path* is neither state of runs nor a file that usually has secrets, unless a rule names it."""
        names = path.lower().split("/")
        inside = os.path.join(self._root, path, "").startswith(self._closed)
        if inside or any(name in names for name in STATE_FOLDERS):
            raise Refused(f"{path!r} belongs to the state of runs, which is closed to tools")
        naming = (rule for rule in self._allow if rule.pattern and rule.covers(tool))
        if is_secret(path) and not any(self._is_file(rule, path) for rule in naming):
            raise Refused(f"{path!r} usually contains secrets: no rule in 'allow' of the team's file names it")

    def _check(self, tool: str, applies: Callable[[Rule], bool]) -> None:
        for rules, verb in ((self._deny, "forbids"), (self._ask, "requires approval for")):
            for rule in rules:
                if rule.covers(tool, forbids=True) and (not rule.pattern or applies(rule)):
                    why = "" if verb == "forbids" else ", which cannot be requested"
                    raise Refused(f"the rule {rule.text!r} of the team's file {verb} this call{why}")

    def _is_file(self, rule: Rule, path: str) -> bool | None:
        """Whether *path*, relative to the root, matches *rule*; None if that cannot be compiled."""
        if not rule.pattern:
            return True
        expressions, absolute = _expressions_of(rule.pattern)
        found = [_matches(expression, path) for expression in expressions]
        found += [_matches(expression, os.path.join(self._root, path).lstrip("/")) for expression in absolute]
        return True if True in found else None if None in found else False


@lru_cache(maxsize=1000)
def _expressions_of(pattern: str) -> tuple[list[str], list[str]]:
    """The expressions for paths from the working directory, and for those from the root of the machine."""
    pattern = os.path.expanduser(pattern)
    anchored = "/" in pattern.rstrip("/")
    expressions = [path_expression(pattern.removeprefix("./").removeprefix("/"), anchored=anchored)]
    if not pattern.startswith("/"):
        return expressions, []
    places = {pattern.lstrip("/"), os.path.realpath(pattern).lstrip("/")}
    return expressions, [path_expression(place, anchored=True) for place in places]


def path_expression(pattern: str, *, anchored: bool) -> str:
    """A regular expression for paths that match *pattern*, or are in a folder that does, in any folder unless
    *anchored*.
    """
    return f"(?is){'' if anchored else '(?:.*/)?'}{glob_expression(pattern.rstrip('/'))}(?:/.*)?"


def glob_expression(pattern: str) -> str:
    """Convert *pattern* to a regular expression: `*`, `**`, `?`, `[…]` and `{a,b}` are special."""
    return "".join(map(_part, _GLOB.findall(pattern)))


def _part(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if len(part) > 2 and part[0] == "[":
        negated, inner = ("^/", part[2:-1]) if part[1] == "!" else ("", part[1:-1])
        escaped = re.sub(r"[\\^\[\]]", lambda found: "\\" + found[0], inner)
        return f"[{negated}{escaped}]"
    if len(part) > 1 and part[0] == "{":
        return f"(?:{'|'.join(glob_expression(each) for each in part[1:-1].split(','))})"
    return re.escape(part)


def _is_command(rule: Rule, line: str) -> bool | None:
    """Whether the command *line* matches *rule*; `git *` and `git:*` also match `git` alone."""
    pattern = re.sub(r"(:| )\*$", "", rule.pattern)
    rest = r"(?: .*)?" if pattern != rule.pattern else ""
    words = (".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", pattern))
    return _matches(f"(?s){''.join(words)}{rest}", line)


def _words(argv: Iterable[str]) -> Iterator[str]:
    """The words of *argv*, and those within each of them."""
    for word in argv:
        yield word
        lexer = shlex.shlex(word, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            within = list(lexer)
        except ValueError:  # an unclosed quote
            within = word.split()
        if within != [word]:
            yield from within


def _matches(expression: str, text: str) -> bool | None:
    """Whether all of *text* matches; None if the expression cannot be compiled."""
    try:
        found: Any = compiled(expression)
        return found.fullmatch(text) is not None
    except ValueError:  # also a text that is not UTF-8
        return None

"""Split command lines of actions and gates into argv lists: no shell is used without `lang: bash`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from coterie.base import files
from coterie.base.diagnostics import Span, did_you_mean, error, warning
from coterie.team.planning.extension import Report

Argv = tuple[str, ...]

_LANGUAGES: dict[str, Argv] = {
    "bash": ("bash", "-c"),
    "python": ("{python}", "-c"),
    "node": ("node", "-e"),
}
_INTERPRETERS = frozenset({"{python}", "python", "python3", "bash", "sh", "node"})
_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1"})


def split(
    lines: Sequence[str], lang: str, folder: Path | None, owner: str, span: Span | None, report: Report
) -> tuple[Argv, ...]:
    """One argv list for each of *lines*: scripts of the language *lang*, or words as a shell would split them."""
    if lang in ("", "auto"):
        return tuple(argv for line in lines if (argv := _words(line, folder, owner, span, report)))
    interpreter = _LANGUAGES.get(lang)
    if interpreter is None:
        hint = did_you_mean(lang, _LANGUAGES) or f"write one of {', '.join(_LANGUAGES)}"
        report(error("unknown-language", f"{owner} is written in {lang!r}, which is not supported", span, hint))
        return ()
    return tuple((*interpreter, line) for line in lines)


def _words(line: str, folder: Path | None, owner: str, span: Span | None, report: Report) -> Argv:
    try:
        words = shlex.split(line)
    except ValueError as failure:
        message = f"{owner} has a command that cannot be split into words: {str(failure).lower()}"
        report(error("bad-command", message, span, f"the command is: {line}"))
        return ()
    for word in words:
        if word in _SHELL_WORDS:
            message = f"{owner} passes {word!r} to its command as an argument: no shell interprets it"
            report(warning("shell-syntax", message, span, "write lang: bash, or list the commands separately"))
            break
    return located(words, folder)


def located(argv: Sequence[str], folder: Path | None) -> Argv:
    """Resolve the program of *argv*, or its interpreter's script, in the topology's folder if it is there.

    The folder is written as `{here}`, so that a plan does not depend on its file's location.
    """
    words = list(argv)
    place = 1 if len(words) > 1 and words[0] in _INTERPRETERS else 0
    if folder is not None and words and not words[place].startswith(("-", "{", "/")):
        path = files.inside(folder, words[place])
        if path is not None and files.is_file(path):
            words[place] = "{here}/" + words[place].removeprefix("./")
    return tuple(words)

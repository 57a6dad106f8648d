"""Hints for callers from Python, in place of hints about command-line options and entries of files."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic
from coterie.errors import TopologyError, UsageError

_Words = str | Callable[[re.Match[str]], str]

_OPTIONS: tuple[tuple[str, _Words], ...] = (
    (
        r"(?:give it with )?--input '?(\w+):?=('?\[\"…\"\]'?|…)'?",
        lambda found: f'pass {{"{found[1]}": {found[2].strip(chr(39))}}}',
    ),
    (r"run it with --set (\w+)=…", r'pass params={"\1": …}'),
    (
        r"(?s)choose a backend, or write one into the file.*",
        "configure one in the file, pass backend=…, or try it without a model: coterie.testing.rehearse",
    ),
    (r"add --rehearse to run without a backend", "coterie.testing.rehearse runs without a backend"),
    (r"--rehearse", "coterie.testing.rehearse"),
)
_FILES: tuple[tuple[str, _Words], ...] = (
    (r"configure one in the file", "configure one: agent(command=[…]) or agent(model=…, provider=…)"),
    (r"name another in the file \(.*?\)", "name another: agent(api_key=…)"),
    (r"write model: NAME, .*", 'write agent(model=…), agent(command=[…]) or agent(type="human"), or use a team'),
)


@contextmanager
def errors_for_python(*, built: bool = False) -> Iterator[None]:
    """Make errors name keywords and functions.

    Args:
        built: Whether the team was built by functions, not read from a file.
    """
    try:
        yield
    except TopologyError as error:
        raise TopologyError(for_python(error.diagnostics, built=built), error.text) from None
    except UsageError as error:
        if type(error) is not UsageError:
            raise
        raise UsageError(_reworded(str(error), _OPTIONS)) from None


def for_python(diagnostics: tuple[Diagnostic, ...], *, built: bool) -> list[Diagnostic]:
    """*diagnostics* with hints that name keywords and functions; see `errors_for_python`."""
    words = _OPTIONS + (_FILES if built else ())
    return [replace(one, hint=_reworded(one.hint, words)) for one in diagnostics]


def _reworded(text: str, words: tuple[tuple[str, _Words], ...]) -> str:
    for found, instead in words:
        text = re.sub(found, instead, text)
    return text

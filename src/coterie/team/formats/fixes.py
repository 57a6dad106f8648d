"""Rewrite a file in place: format it, or apply the fixes of its diagnostics."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from coterie.base.diagnostics import Diagnostic, Fix
from coterie.team.formats.reader import changed
from coterie.team.formats.source import Source

_ROUNDS = 20

Examine = Callable[[Source], Iterable[Diagnostic]]


class FixedSource(Struct, frozen=True):
    """A text with its fixes applied.

    Attributes:
        source: The result.
        fixes: The applied fixes, in order.
    """

    source: Source
    fixes: tuple[Fix, ...]


def apply_fixes(source: Source, examine: Examine, folder: Path | None = None) -> FixedSource:
    """Apply the fixes that *examine* offers for *source* until none is left.

    A round of fixes that would increase the number of errors is not applied.

    Args:
        folder: The base of relative paths in the file.
    """
    done: tuple[Fix, ...] = ()
    found = _own(source, examine)
    for _ in range(_ROUNDS):
        fixes = list(_apart(one.fix for one in found if one.fix is not None))
        if not fixes:
            break
        after = changed(source, _applied(source.text, fixes), folder)
        left = _own(after, examine)
        if _errors(left) > _errors(found):
            break
        source, found = after, left
        done += tuple(fixes)
    return FixedSource(source, done)


def files_below(path: Path) -> list[Path]:
    """The `.at` files in the folder *path*, recursively and without hidden ones; a file yields itself."""
    if not path.is_dir():
        return [path]
    found = (each for each in path.rglob("*.at") if each.is_file())
    return sorted(each for each in found if not any(part.startswith(".") for part in each.relative_to(path).parts))


def _own(source: Source, examine: Examine) -> list[Diagnostic]:
    """The diagnostics of the file itself, without those of files it names."""
    return [one for one in examine(source) if one.file == source.file]


def _errors(found: Iterable[Diagnostic]) -> int:
    return sum(one.is_error for one in found)


def _apart(fixes: Iterable[Fix]) -> Iterator[Fix]:
    """The *fixes* that do not overlap, in text order."""
    end = -1
    for fix in sorted(fixes, key=lambda fix: (fix.span.offset, fix.span.length)):
        if fix.span.offset > end:
            yield fix
            end = fix.span.offset + fix.span.length


def _applied(text: str, fixes: Iterable[Fix]) -> str:
    for fix in reversed(list(fixes)):
        text = text[: fix.span.offset] + fix.text + text[fix.span.offset + fix.span.length :]
    return text

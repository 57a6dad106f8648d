"""The texts of a loop: files of its folder, and the placeholders in them."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from coterie.base import files
from coterie.base.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.team.formats import bounds
from coterie.team.formats.settings import Origin
from coterie.team.formats.settings.layers import as_span

Report = Callable[[Diagnostic], None]

ATTEMPT = "TOOL_PATH"
"""The placeholder for the path of an attempt's command, which only the attempt can fill."""

_PLACEHOLDER = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")
_STATE = re.compile(r"(?<![\w.-])(?:\./)?\.autoloop(?![\w-])")


class TextLocation(Struct, frozen=True):
    """Where a text is named, for diagnostics."""

    file: str
    span: Span | None = None
    text: str = ""

    def locate(self, found: Diagnostic) -> Diagnostic:
        """Add this location to *found*."""
        return replace(found, file=self.file, span=self.span, text=self.text)


def place_of(origin: Origin) -> TextLocation:
    """The location of a setting's value."""
    span = as_span(origin)
    try:
        text = bounds.read_bytes(Path(origin.file)).decode() if span is not None else ""
        return TextLocation(origin.file, span, text)
    except (OSError, ValueError):  # it may have been removed meanwhile
        return TextLocation(origin.file)


def fill(text: str, values: Mapping[str, str], owner: str, place: TextLocation, report: Report) -> str:
    """Replace the placeholders in *text*, such as `{{STATE_DIR}}`; unknown ones are reported and kept.

    Args:
        values: Their values; the placeholder of an attempt's command is kept.
        owner: The owner for messages.
    """
    known = (*values, ATTEMPT)
    unknown = dict.fromkeys(name for name in _PLACEHOLDER.findall(text) if name not in known)
    for name in unknown:
        hint = did_you_mean(name, known) or f"known placeholders: {', '.join(f'{{{{{each}}}}}' for each in known)}"
        message = f"{owner} has an unknown placeholder: {{{{{name}}}}}"
        report(place.locate(error("unknown-placeholder", message, hint=hint)))
    if _STATE.search(text):
        message = f"{owner} refers to .autoloop, but the state folder may be elsewhere"
        report(place.locate(warning("raw-state-path", message, hint="write {{STATE_DIR}} and {{TOOL_PATH}}")))
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def read(folder: Path, name: str, what: str, place: TextLocation | None, report: Report) -> str:
    """The text of the file *name* in *folder*.

    Args:
        what: Its description for messages: `the review's prompt`.
        place: Where it is named; None: it is not named and may be missing.
    """
    path, where = files.inside(folder, name), place or TextLocation("")
    if path is None:
        message = f"the file of {what} is outside the loop's folder: {name!r}"
        report(where.locate(error("outside-folder", message, hint="move the file into the folder")))
        return ""
    try:
        return bounds.read_text(path)
    except FileNotFoundError:
        if place is not None:
            message = f"the file of {what} does not exist: {name!r}"
            report(where.locate(warning("no-such-text", message, hint="paths are relative to the loop's folder")))
    except OSError as failure:
        message = f"the file of {what} cannot be read: {name!r}: {failure.strerror or failure}"
        report(where.locate(error("unreadable-file", message)))
    return ""


def joined(parts: Iterable[str]) -> str:
    """The non-blank *parts*, joined by a blank line."""
    return "\n\n".join(stripped for part in parts if (stripped := part.strip("\n")).strip())

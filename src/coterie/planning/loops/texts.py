"""The texts of a loop: files of its folder, and the placeholders in them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from coterie import bounds
from coterie.diagnostics import Diagnostic, Span, did_you_mean, error, warning
from coterie.planning.files import inside
from coterie.settings.layers import Origin, as_span

Report = Callable[[Diagnostic], None]

ATTEMPT = "TOOL_PATH"
"""The placeholder that only an attempt can fill: the path of its own command."""

_PLACEHOLDER = re.compile(r"\{\{([A-Z][A-Z0-9_]*)\}\}")
_STATE = re.compile(r"(?<![\w.-])(?:\./)?\.autoloop(?![\w-])")


@dataclass(frozen=True, slots=True)
class TextLocation:
    """Where a text is named, for what is to be said of it."""

    file: str
    span: Span | None = None
    text: str = ""

    def told(self, found: Diagnostic) -> Diagnostic:
        """*found* here."""
        return replace(found, file=self.file, span=self.span, text=self.text)


def place_of(origin: Origin) -> TextLocation:
    """Where a setting got its value."""
    span = as_span(origin)
    try:
        return TextLocation(origin.file, span, _text(origin.file) if span is not None else "")
    except (OSError, ValueError):  # it was there a moment ago
        return TextLocation(origin.file)


def _text(file: str) -> str:
    return bounds.read_bytes(Path(file)).decode()


def fill(text: str, values: Mapping[str, str], owner: str, place: TextLocation, report: Report) -> str:
    """*text* with its placeholders, `{{STATE_DIR}}`, replaced; one that there is not is reported and stays.

    Args:
        values: What they stand for; that of an attempt's own command stays for the attempt.
        owner: Whose text it is, in words.
    """
    known = (*values, ATTEMPT)
    unknown = dict.fromkeys(name for name in _PLACEHOLDER.findall(text) if name not in known)
    for name in unknown:
        hint = did_you_mean(name, known) or f"there are {', '.join(f'{{{{{each}}}}}' for each in known)}"
        message = f"{owner} has a placeholder that there is not: {{{{{name}}}}}"
        report(place.told(error("unknown-placeholder", message, hint=hint)))
    if _STATE.search(text):
        message = f"{owner} names .autoloop, and the state may lie elsewhere"
        report(place.told(warning("raw-state-path", message, hint="write {{STATE_DIR}} and {{TOOL_PATH}}")))
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def read(folder: Path, name: str, what: str, place: TextLocation | None, report: Report) -> str:
    """The text of the file *name* in *folder*.

    Args:
        what: What it is, in words: `the review's prompt`.
        place: Where it is named; None: nobody names it, and it need not be there.
    """
    path = inside(folder, name)
    if path is None:
        reason, hint = "lies outside the loop's folder", "put the file into the folder"
        report(
            (place or TextLocation("")).told(
                error("outside-folder", f"the file of {what} {reason}: {name!r}", hint=hint)
            )
        )
        return ""
    try:
        return bounds.read_bytes(path).decode("utf-8-sig")
    except FileNotFoundError:
        if place is None:
            return ""
        message = f"the file of {what} is not there: {name!r}"
        report(place.told(warning("no-such-text", message, hint="paths begin at the loop's folder")))
    except UnicodeDecodeError:
        _unreadable(what, name, "it is not UTF-8 text", place, report)
    except OSError as failure:
        _unreadable(what, name, failure.strerror or str(failure), place, report)
    except ValueError as failure:
        _unreadable(what, name, str(failure), place, report)
    return ""


def _unreadable(what: str, name: str, reason: str, place: TextLocation | None, report: Report) -> None:
    message = f"the file of {what} cannot be read: {name!r}: {reason}"
    report((place or TextLocation("")).told(error("unreadable-file", message)))


def joined(parts: Iterable[str]) -> str:
    """The *parts* that say something, a blank line between them."""
    return "\n\n".join(stripped for part in parts if (stripped := part.strip("\n")).strip())

"""A TOML file: its values, their spans, and reports of invalid ones."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Fix, Span, error, warning
from coterie.team.formats import bounds
from coterie.team.formats.toml_text import Path as KeyPath
from coterie.team.formats.toml_text import key_spans, load

Report = Callable[[Diagnostic], None]


class TomlDocument:
    """A TOML file, or *text* in its place; faults go to *report* with the file's name.

    Attributes:
        values: Its values; empty if it does not exist or is not TOML.
        ok: Whether it was readable or does not exist.
    """

    def __init__(self, path: Path, file: str, report: Report, text: str | None = None) -> None:
        self.file = file
        self._report = report
        self.values: dict[str, Any] = {}
        self.ok = True
        self.text = ""
        self._spans: dict[KeyPath, Span] = {}
        try:
            self.text = bounds.read_text(path) if text is None else text
            if text is None:
                bounds.check_obeyed(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as failure:
            self._refuse(error("unreadable-file", f"{file!r} cannot be read: {failure.strerror or failure}"))
            return
        self.values, wrong = load(self.text)
        if wrong is not None:
            self._refuse(wrong)
            return
        self._spans = key_spans(self.text)

    def _refuse(self, found: Diagnostic) -> None:
        self.ok = False
        self._report(replace(found, file=self.file, text=self.text))

    def span(self, *path: str | int) -> Span | None:
        """The span of *path*, of the first key in it, or of the inline table or list that contains it."""
        if path not in self._spans:
            for known, span in self._spans.items():
                if known[: len(path)] == path:
                    return span
        way: KeyPath = path
        while way and way not in self._spans:
            way = way[:-1]
        return self._spans.get(way)

    def error(self, code: str, message: str, span: Span | None, hint: str = "") -> None:
        """Report an error."""
        self._report(replace(error(code, message, span, hint), file=self.file, text=self.text))

    def warning(self, code: str, message: str, span: Span | None, hint: str = "", fix: Fix | None = None) -> None:
        """Report a warning."""
        self._report(replace(warning(code, message, span, hint, fix), file=self.file, text=self.text))

    def table(self, name: str) -> Mapping[str, Any]:
        """The table *name*; empty if missing or, with a report, not a table."""
        value = self.values.get(name, {})
        if isinstance(value, dict):
            return value
        self.error("bad-value", f"{name!r} must be a table, not {shown(value)}", self.span(name), f"write [{name}]")
        return {}


def shown(value: Any) -> str:
    """*value* as TOML, shortened."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."

"""Typed access to the entries of a table."""

from collections.abc import Iterable

from coterie.base.diagnostics import Span, did_you_mean, error
from coterie.team.formats.yaml.document import Leaf, Report, Sequence, Table, Value, plain, shown


class TableReader:
    """Reads a table; invalid entries are reported and treated as missing.

    Args:
        owner: The owner for messages, `agent 'writer'`.
        known: The valid entries; any other is reported.
    """

    def __init__(self, table: Table, owner: str, known: Iterable[str], report: Report) -> None:
        self.owner, self._entries, self._keys, self._report = owner, table.entries, table.keys, report
        known = tuple(known)
        for key, span in table.keys.items():
            if key not in known:
                hint = did_you_mean(key, known) or (f"known entries: {', '.join(known)}" if len(known) < 10 else "")
                report(error("unknown-entry", f"{owner} has no entry {key!r}", span, hint))

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def value(self, name: str) -> Value | None:
        """The entry *name*, of any type."""
        return self._entries.get(name)

    def span(self, name: str) -> Span | None:
        """The span of the entry *name*: its key, and its value if on the same line."""
        key, value = self._keys.get(name), self._entries.get(name)
        return entry_span(key, value) if key is not None and value is not None else None

    def text(self, name: str) -> str:
        """The text *name*; empty if missing."""
        value = self._entries.get(name)
        if value is None:
            return ""
        if isinstance(value, Leaf) and isinstance(value.value, str) and value.value.strip():
            return value.value
        hint = "write it in quotes" if isinstance(value, Leaf) and value.value is not None else ""
        self.wrong(name, value, "a text", hint)
        return ""

    def texts(self, name: str, hint: str = "") -> tuple[str, ...] | None:
        """The list of texts *name*; None if missing."""
        value = self._entries.get(name)
        if value is None:
            return None
        if not isinstance(value, Sequence):
            self.wrong(name, value, "a list of texts", hint)
            return None
        for item in value.items:
            if not isinstance(plain(item), str):
                message = f"{name!r} of {self.owner} must be a list of texts, but contains {shown(item)}"
                self._report(error("bad-value", message, item.span, hint))
                return None
        return tuple(plain(value))

    def count(self, name: str) -> int | None:
        """The whole number *name*, from 0."""
        value = self._entries.get(name)
        if value is None:
            return None
        found = plain(value)
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
        self.wrong(name, value, "a whole number from 0")
        return None

    def number(self, name: str, above: float = 0) -> float | None:
        """The number *name*, greater than *above*."""
        value = self._entries.get(name)
        if value is None:
            return None
        found = plain(value)
        if isinstance(found, int | float) and not isinstance(found, bool) and above < found < float("inf"):
            return float(found)
        self.wrong(name, value, f"a number above {above:g}")
        return None

    def table(self, name: str, hint: str = "") -> Table:
        """The table *name*; empty if missing."""
        value = self._entries.get(name)
        if isinstance(value, Table):
            return value
        if value is not None and not (isinstance(value, Leaf) and value.value is None):
            self.wrong(name, value, "a table", hint)
        return Table()

    def wrong(self, name: str, value: Value, wanted: str, hint: str = "") -> None:
        """Report that *value* is not *wanted*."""
        message = f"{name!r} of {self.owner} must be {wanted}, not {shown(value)}"
        self._report(error("bad-value", message, value.span, hint))


def entry_span(key: Span, value: Value) -> Span:
    """The span of an entry: its key, and its value if on the same line."""
    if isinstance(value, Leaf) and value.span.line == key.line and value.span.length:
        return Span(key.line, key.column, value.span.column + value.span.length - key.column, key.offset)
    return key

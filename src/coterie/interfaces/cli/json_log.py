"""Log lines for programs: one line of JSON for each event, with its time."""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from coterie.base.clock import SystemClock, iso_milliseconds
from coterie.base.escapes import printable_json

ACCESS = "coterie.access"
"""The logger of requests to gateways."""


class JsonLog(logging.Handler):
    """Writes events with *write*: notices of commands, and what Python's `logging` gets, as requests of gateways."""

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._line, self._clock = write, SystemClock()
        logging.getLogger().addHandler(self)
        logging.getLogger(ACCESS).setLevel(logging.INFO)

    def line(self, at: float, level: str, event: str, message: str, fields: dict[str, Any]) -> None:
        """Write one event of the time *at*, in Unix seconds."""
        found = {"time": iso_milliseconds(at), "level": level, "event": event} | fields | {"message": message}
        self._line(printable_json(msgspec.json.encode(found, enc_hook=str).decode()))

    def end(self) -> None:
        """Take nothing any more."""
        logging.getLogger().removeHandler(self)
        logging.getLogger(ACCESS).setLevel(logging.NOTSET)

    def notice(self, text: str) -> None:
        """Write what a command says to the people who operate it."""
        self.line(self._clock.now(), "warning" if text.startswith("coterie: ") else "info", "notice", text, {})

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of `logging`."""
        event = "http.request" if record.name == ACCESS else "log"
        fields = dict(getattr(record, "fields", {}) or {"logger": record.name})
        if record.exc_info:
            fields["exception"] = logging.Formatter().formatException(record.exc_info)
        self.line(record.created, record.levelname.lower(), event, record.getMessage(), fields)

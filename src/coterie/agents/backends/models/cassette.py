"""Record the answers of providers in a file and replay them: a team's tests need no key, no network and no money.

The file has one JSON object per line, appended as answers come: the request (method, the end of the path, body) and the
response (status, and body in the streamed pieces). No headers of requests and few of responses are kept, and the values
of secret-looking environment variables are redacted, so a cassette can be committed.
`coterie.agents.backends.models.transport` puts it between a client and the network.

vcrpy is not used: it patches the HTTP library of the whole process, joins the pieces of a stream into one body, and
would still need the matching, the redaction and the errors that are here, and this format to read older cassettes.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from coterie.agents.backends.models.redaction import redacted_events
from coterie.agents.backends.secrets import Secrets
from coterie.base import files
from coterie.errors import CoterieError, UsageError
from coterie.team.formats import bounds

VARIABLE = "COTERIE_CASSETTE"
"""The environment variable that names a cassette: `FILE`, or `MODE:FILE`."""

KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms")
"""The headers of a response that are kept, since they contain no secret."""

_SHOWN_CHARACTERS = 120


class Mode(Enum):
    """How a cassette handles requests."""

    RECORD = "record"
    """All requests are sent; the file is written anew."""
    REPLAY = "replay"
    """No request is sent; a request that is not in the file fails."""
    AUTO = "auto"
    """Requests that are not in the file are sent and added to it."""


class CassetteMiss(CoterieError):
    """A request is not on the cassette and must not be sent."""

    def __init__(self, file: Path, asked: str, difference: str) -> None:
        self.file, self.asked, self.difference = file, asked, difference
        super().__init__(
            f"{asked} is not on the cassette {file}: {difference}; record it again with `--cassette record:{file}`"
        )


class RecordedRequest(Struct, frozen=True):
    """A request: its method, the last two parts of its path, and its body as JSON, or as a text if it is not JSON."""

    method: str
    path: str
    body: Any

    @property
    def key(self) -> str:
        """The key of the request, equal for requests with the same responses."""
        return json.dumps([self.method, self.path, self.body], sort_keys=True)

    @property
    def address(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"


class RecordedResponse(Struct, frozen=True):
    """A response; *body* is a list of replayed pieces, one for each event of a stream."""

    status: int
    headers: dict[str, str]
    body: tuple[str, ...]


class Exchange(Struct, frozen=True):
    """A line of a cassette."""

    request: RecordedRequest
    response: RecordedResponse


class Cassette:
    """The recorded responses in a file, found by their requests.

    Equal requests get their responses in the recorded order; the last one repeats. Two requests are equal if method,
    the last two parts of the path, and the body as JSON are; addresses, headers and the order of keys do not matter.

    Args:
        file: Must exist with `Mode.REPLAY`.

    Raises:
        UsageError: If the file cannot be read or is not a cassette.
    """

    def __init__(self, file: Path, mode: Mode = Mode.REPLAY) -> None:
        self.file, self.mode = file, mode
        self._secrets = Secrets(os.environ)
        self._exchanges: dict[str, list[Exchange]] = {}
        self._played: dict[str, int] = {}
        self._started = False
        match mode:
            case Mode.RECORD:
                pass
            case Mode.AUTO | Mode.REPLAY:
                if mode is Mode.REPLAY or file.exists():
                    self._read()
            case _:
                assert_never(mode)

    @property
    def replays(self) -> bool:
        """Whether no request is sent."""
        return self.mode is Mode.REPLAY

    @classmethod
    def named(cls, text: str) -> "Cassette":
        """Open the cassette *text*: `FILE`, which is replayed, or `MODE:FILE`.

        Raises:
            UsageError: If the file cannot be read or is not a cassette.
        """
        mode, colon, file = text.partition(":")
        modes = {one.value: one for one in Mode}
        return cls(Path(file), modes[mode]) if colon and mode in modes else cls(Path(text))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Cassette | None":
        """Open the cassette in `COTERIE_CASSETTE`, if it is set."""
        text = environment.get(VARIABLE, "")
        return cls.named(text) if text else None

    def answer(self, method: str, path: str, body: bytes) -> RecordedResponse | None:
        """The recorded response to a request; None if the request must be sent.

        Raises:
            CassetteMiss: If it is not on the cassette and must not be sent.
        """
        request = self._request(method, path, body)
        exchanges = self._exchanges.get(request.key, []) if self.mode is not Mode.RECORD else []
        if exchanges:
            n = self._played[request.key] = self._played.get(request.key, 0) + 1
            return exchanges[min(n, len(exchanges)) - 1].response
        if self.mode is Mode.REPLAY:
            raise CassetteMiss(self.file, request.address, self._difference(request))
        return None

    def recorded(self, same: Callable[["Exchange"], bool]) -> "Exchange":
        """The next exchange, in the recorded order, of those that are the *same* as the wanted one.

        Raises:
            CassetteMiss: If there is none.
        """
        found = [one for exchanges in self._exchanges.values() for one in exchanges if same(one)]
        if not found:
            difference = "no recorded request has the same model and messages; pip install 'coterie[models]' says more"
            raise CassetteMiss(self.file, "this request", difference)
        n = self._played[found[0].request.key] = self._played.get(found[0].request.key, 0) + 1
        return found[min(n, len(found)) - 1]

    def record(self, method: str, path: str, body: bytes, status: int, headers: Mapping[str, str], said: bytes) -> None:
        """Record a response, and append it to the file."""
        text = said.decode("utf-8", "replace")
        streamed = "event-stream" in headers.get("content-type", "")
        response = RecordedResponse(
            status=status,
            headers={name: headers[name] for name in KEPT_HEADERS if name in headers},
            body=tuple(redacted_events(_events(text), self._secrets) if streamed else [self._secrets.hide(text)]),
        )
        exchange = Exchange(self._request(method, path, body), response)
        self._keep(exchange)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.mode is Mode.RECORD and not self._started
        self._started = True
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if fresh else os.O_APPEND)
        with open(files.open_fd(self.file, flags, follow=True, private=False), "a", encoding="utf-8") as file:
            file.write(json.dumps(msgspec.to_builtins(exchange), ensure_ascii=False) + "\n")

    def _keep(self, exchange: Exchange) -> None:
        self._exchanges.setdefault(exchange.request.key, []).append(exchange)

    def _read(self) -> None:
        try:
            lines = bounds.read_bytes(self.file, bounds.MAX_INPUT).decode().splitlines()
        except OSError as error:
            hint = f"record it with `--cassette record:{self.file}`"
            raise UsageError(f"the cassette {self.file} cannot be read ({error.strerror}): {hint}") from error
        for n, line in enumerate(lines, 1):
            try:
                self._keep(msgspec.convert(bounds.load_json(line), Exchange))
            except (ValueError, msgspec.ValidationError) as error:
                raise UsageError(f"{self.file}:{n}: this is not a line of a cassette; record it again") from error

    def _request(self, method: str, path: str, body: bytes) -> RecordedRequest:
        """The request as recorded, with secrets redacted."""
        text = self._secrets.hide(body.decode("utf-8", "replace"))
        content: Any = text
        with suppress(ValueError):
            content = json.loads(text)
        ending = "/".join(path.strip("/").split("/")[-2:])  # servers differ in the part before it
        return RecordedRequest(method, ending, content)

    def _difference(self, asked: RecordedRequest) -> str:
        """The first difference between *asked* and the most similar recorded request."""
        recorded = [exchange.request for same in self._exchanges.values() for exchange in same]
        near = [request for request in recorded if request.address == asked.address]
        if not near:
            return f"it has {', '.join(sorted({request.address for request in recorded})) or 'nothing'}"
        differences = min((list(_differences("", request.body, asked.body)) for request in near), key=len)
        return differences[0] if differences else "the difference is unknown"


def _events(text: str) -> list[str]:
    parts = text.replace("\r\n", "\n").split("\n\n")
    return [f"{part}\n\n" for part in parts if part]


def _differences(where: str, recorded: Any, asked: Any) -> Iterator[str]:
    """Describe each place in which two JSON values differ."""
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for name in dict.fromkeys([*recorded, *asked]):
            inner = f"{where}.{name}" if where else name
            if name not in asked:
                yield f"{inner} is in the recording and not in the request"
            elif name not in recorded:
                yield f"{inner} is in the request and not in the recording"
            else:
                yield from _differences(inner, recorded[name], asked[name])
    elif isinstance(recorded, list) and isinstance(asked, list):
        for n, (one, other) in enumerate(zip(recorded, asked, strict=False)):
            yield from _differences(f"{where}[{n}]", one, other)
        if len(recorded) != len(asked):
            yield f"{where} has {len(asked)} entries, recorded with {len(recorded)}"
    elif type(recorded) is not type(asked) or recorded != asked:
        was, now = _difference_between(recorded, asked)
        yield f"{where or 'the body'} is {now}, recorded as {was}"


def _difference_between(recorded: Any, asked: Any) -> tuple[str, str]:
    """Excerpts of both values, from shortly before their first difference."""
    was, now = (value if isinstance(value, str) else json.dumps(value) for value in (recorded, asked))
    common = next((n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    start = max(0, common - _SHOWN_CHARACTERS // 3)
    cut = [
        ("…" if start else "")
        + text[start : start + _SHOWN_CHARACTERS]
        + ("…" if text[start + _SHOWN_CHARACTERS :] else "")
        for text in (was, now)
    ]
    return repr(cut[0]), repr(cut[1])

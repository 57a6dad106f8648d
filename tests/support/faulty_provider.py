"""A provider of models that ends its answers anywhere and in any way, and keeps its own accounts of what it did.

Both dialects: an answer may be cut off within or between its events, by an end in good order or a broken connection;
end by length, by a filter, with an error, by a pause or without any mark; be empty or blank; have calls of tools with
the same id, or none; and come in pieces that divide characters.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fake_models import Dialect, Say, Send, anthropic, as_event, openai

Event = tuple[str, dict[str, Any] | None]

DIALECTS: dict[str, Dialect] = {"anthropic": anthropic, "openai": openai}
TOOL = "note"
TOKENS = (100, 20)
STOPS = {
    "anthropic": {
        "length": "max_tokens",
        "filter": "refusal",
        "pause": "pause_turn",
        "window": "model_context_window_exceeded",
    },
    "openai": {"length": "length", "filter": "content_filter", "aborted": "abort"},
}
"""How an answer may end besides `whole`, `unmarked` and `error`, in the words of each provider."""


@dataclass(frozen=True)
class Faulty:
    """One answer.

    Attributes:
        calls: Calls of the tool `note`.
        ending: `whole`, `unmarked` (no event says why it ends), `error` (an error takes the place of its end), or one
            of `STOPS`.
        events: Send so many events only; None: all.
        torn: Send half of the next one, too, if the end is still to come.
        broken: Break the connection off after that, if there is more to send.
        ids: The ids of its calls: `own`, `same` (so is the id of the answer) or `none`.
        reports: Whether it says what it used.
        size: As in `Send`.
    """

    text: str = ""
    calls: int = 0
    ending: str = "whole"
    events: int | None = None
    torn: bool = False
    broken: bool = False
    ids: str = "own"
    reports: bool = True
    size: int = 0


class FaultyProvider:
    """Gives the answers of *script*, one after the other, the last repeating; give it to `FakeModels(choose=…)`.

    Attributes:
        answers: Those that were given, each with whether a client may act on it.
        tokens: What it said that its answers used: tokens read and written.
    """

    def __init__(self, api: str, script: Sequence[Faulty]) -> None:
        self.api, self._script = api, script
        self.answers: list[tuple[Faulty, bool]] = []
        self.tokens = [0, 0]

    def __call__(self, body: dict[str, Any]) -> Send:
        """The answer to a request."""
        answer = self._script[min(len(self.answers), len(self._script) - 1)]
        events = list(self._events(answer, body))
        sent = events[: answer.events]
        is_marked = any(_is_end(data) for _, data in sent)
        more = b"".join(as_event(*event) for event in events[len(sent) :])
        half = as_event(*events[len(sent)]) if answer.torn and more and not is_marked else b""
        half = half[: len(half) // 2]
        is_broken = answer.broken and bool(more)
        self._count(sent, len(self.answers))
        self.answers.append((answer, is_marked and not half and not is_broken))
        content = b"".join(as_event(*event) for event in sent) + half
        return Send(content, size=answer.size, missing=len(more) - len(half) if is_broken else 0)

    def _events(self, answer: Faulty, body: dict[str, Any]) -> Iterator[Event]:
        """All events of *answer*."""
        calls = [(TOOL, {"text": f"{len(self.answers)}.{n}"}) for n in range(answer.calls)]
        say = Say(answer.text, calls=calls, stop=STOPS[self.api].get(answer.ending, ""), tokens=TOKENS)
        for name, data in DIALECTS[self.api](say, body):
            if not answer.reports and data is not None and "usage" in data and "choices" in data:
                continue  # in the other dialect, every answer says so
            if _is_end(data) and answer.ending in ("unmarked", "error"):
                if answer.ending == "error":
                    error = {"type": "odd_error", "message": "no"}
                    yield ("error" if name else ""), {"type": "error", "error": error}
                    return
                continue
            yield name, _with_ids(data, answer.ids, len(self.answers))

    def _count(self, sent: Sequence[Event], number: int) -> None:
        read, written = 0, 0
        for _, data in sent:
            said = (data or {}).get("message", data or {}).get("usage") or {}
            read = said.get("input_tokens", said.get("prompt_tokens", read))
            written = said.get("output_tokens", said.get("completion_tokens", written))
        self.tokens[0] += read
        self.tokens[1] += written


def message_id(ids: str, number: int) -> str:
    """The id of answer *number*; one that is given again means the same answer."""
    return "msg" if ids == "same" else f"msg_{number}"


def _is_end(data: dict[str, Any] | None) -> bool:
    """Whether an event with *data* says why the answer ends."""
    if data is None:
        return False
    return any(choice["finish_reason"] for choice in data.get("choices") or ()) or "stop_reason" in data.get(
        "delta", {}
    )


def _with_ids(data: dict[str, Any] | None, ids: str, number: int) -> dict[str, Any] | None:
    """*data* with the ids of answer *number*."""
    if data is None:
        return data
    changed: dict[str, Any] = json.loads(json.dumps(data))
    if "message" in changed:
        changed["message"]["id"] = message_id(ids, number)
    blocks = [changed.get("content_block", {})]
    for choice in changed.get("choices") or ():
        blocks += choice["delta"].get("tool_calls", ())
    for block in blocks:
        if "id" in block:
            block["id"] = {"own": f"{number}_{block['id']}", "same": "call", "none": ""}[ids]
    return changed

"""One attempt with a model on a cassette, without the library that calls models.

A request is found by its model and its messages alone: the texts, the calls of tools and their results. Python
functions are called as the model was recorded to call them. Built-in tools and MCP servers need the library.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pkgutil import resolve_name
from typing import Any

from coterie.backends.base import Answer, Failure, OnEvent, Request, Result, Text, Tool, Used
from coterie.backends.classify import classify
from coterie.backends.models.cassette import Cassette, CassetteMiss, Exchange
from coterie.backends.models.key import TURN_KEY
from coterie.backends.models.outputs import TOOL
from coterie.backends.models.threads import in_thread
from coterie.backends.models.usage import TokenCounts, usage_of
from coterie.backends.secrets import Secrets
from coterie.journal.records import Usage
from coterie.planning.providers import Chosen

Said = tuple[str, str]
"""A part of a conversation: who said it (`user`, `assistant`), or `call` and `result` of a tool, and its text."""


class RecordedConversation:
    """An attempt with the recorded model of *chosen*, from the prompt to the answer; as `Conversation`."""

    def __init__(
        self, request: Request, chosen: Chosen, cassette: Cassette, secrets: Secrets, on_event: OnEvent
    ) -> None:
        self._request, self._chosen, self._cassette = request, chosen, cassette
        self.hide, self._on_event = secrets.hide, on_event
        self._tokens = TokenCounts()
        self._said: list[Said] = [(role, text) for role, text in request.history if role != "system"]
        self._said.append(("user", request.latest))
        self._texts: list[str] = []

    @property
    def used(self) -> Usage:
        """Its usage so far."""
        return usage_of(self._tokens, self._request.agent.options)

    @property
    def said(self) -> str:
        """The text of the model so far, with secrets redacted."""
        return self.hide("\n\n".join(filter(None, self._texts)))

    def steer(self, text: str) -> bool:
        """Whether *text* is given to the model: never, since its answers are recorded."""
        return False

    async def hold(self) -> Result:
        """Play the conversation to its end; an expected error is a `Failure`."""
        TURN_KEY.set(self._request.key or f"{self._request.run}/{self._request.turn}")
        while True:
            try:
                response = self._cassette.recorded(self._same).response
            except CassetteMiss as miss:
                return Failure(kind="not_found", reason=str(miss))
            body = "".join(response.body)
            if response.status != 200:
                kind = classify(f"{response.status} {body}") or "failed"
                return Failure(kind=kind, reason=f"{self._chosen.provider} answered {response.status}: {body[:600]}")
            await asyncio.sleep(0)
            text, calls, stop = _read(body, self._tokens)
            self._texts.append(text)
            self._on_event(Text(text=self.hide(text), channel="answer"))
            self._on_event(Used(usage=self.used))
            outputs = next((json.loads(given) for name, given in calls if name == TOOL), None)
            if outputs is None and calls:
                self._said.append(("assistant", text))
                for name, given in calls:
                    self._said += [("call", _call(name, json.loads(given))), ("result", await self._use(name, given))]
                continue
            if stop in ("max_tokens", "length", "refusal", "content_filter"):
                return Failure(kind="failed", reason=f"the recorded answer ended early: {stop}", usage=self.used)
            text = next((text for text in reversed(self._texts) if text), "")
            return Answer(text=self.hide(text), outputs=outputs, usage=self.used)

    async def _use(self, name: str, given: str) -> str:
        """The result of the Python function that is called *name*, as the model gets it."""
        here, path = self._request.here, self._request.agent.options.get("python_tools", {}).get(name, "")
        if here is not None and str(here) not in sys.path:
            sys.path.append(str(here))
        self._on_event(Tool(name=name, detail=self.hide(given)[:200]))
        try:
            call = partial(resolve_name(path), **json.loads(given))
            found = await (call() if inspect.iscoroutinefunction(call.func) else in_thread(call, name))
        except Exception as error:  # an error in the user's code becomes the tool's answer
            found = f"{type(error).__name__}: {error}"
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        self._on_event(Tool(name=name, state="finished", detail=self.hide(text)[:200]))
        return text

    def _same(self, exchange: Exchange) -> bool:
        """Whether *exchange* is about the same model and messages."""
        body = exchange.request.body
        known = isinstance(body, dict) and body.get("model") == self._chosen.model
        return known and _joined(_messages(body)) == _joined((who, self.hide(text)) for who, text in self._said)


def _joined(said: Iterator[Said]) -> list[Said]:
    """*said* without empty texts, and with those of the same speaker joined."""
    found: list[Said] = []
    for who, text in said:
        if found and found[-1][0] == who == "user":
            found[-1] = (who, f"{found[-1][1]}\n{text}")
        elif text:
            found.append((who, text))
    return found


def _call(name: str, arguments: Any) -> str:
    return json.dumps([name, arguments], sort_keys=True)


def _messages(body: Mapping[str, Any]) -> Iterator[Said]:
    """The messages of a request to Anthropic's or to OpenAI's API, without those of the system."""
    for message in body.get("messages", ()):
        role, content = message["role"], message.get("content") or ""
        if role in ("system", "developer"):
            continue
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match part:
                case {"type": "tool_use", "name": name, "input": given}:
                    yield "call", _call(name, given)
                case {"type": "tool_result", "content": str(text)}:
                    yield "result", text
                case {"type": "tool_result", "content": list(parts)}:
                    yield "result", "".join(one.get("text", "") for one in parts)
                case {"text": str(text)}:
                    yield "result" if role == "tool" else role, text
        for one in message.get("tool_calls") or ():
            yield "call", _call(one["function"]["name"], json.loads(one["function"]["arguments"]))


def _read(body: str, tokens: TokenCounts) -> tuple[str, list[tuple[str, str]], str]:
    """The text of a streamed answer of either API, the calls in it, and why it ended; *tokens* grow by its usage."""
    text, stop, calls = "", "", list[tuple[str, str]]()
    tokens.requests += 1
    for line in body.splitlines():
        event = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
        for used in (event.get("message", {}).get("usage"), event.get("usage")):
            for name, value in {**(used or {}), **((used or {}).get("prompt_tokens_details") or {})}.items():
                tokens.input_tokens += value if name in _READ else 0
                tokens.cache_read_tokens += value or 0 if name in ("cache_read_input_tokens", "cached_tokens") else 0
                written = name == "completion_tokens" or (name == "output_tokens" and event["type"] == "message_delta")
                tokens.output_tokens += value if written else 0
        if (block := event.get("content_block", {})).get("type") == "tool_use":
            calls.append((block["name"], ""))
        given = event.get("delta", {})
        text, stop = text + given.get("text", ""), given.get("stop_reason") or stop
        if part := given.get("partial_json"):
            calls[-1] = (calls[-1][0], calls[-1][1] + part)
        for choice in event.get("choices") or ():
            text, stop = text + (choice["delta"].get("content") or ""), choice.get("finish_reason") or stop
            for one in choice["delta"].get("tool_calls") or ():
                calls += [("", "")] if one["index"] == len(calls) else []
                name, before = calls[one["index"]]
                made = one["function"]
                calls[one["index"]] = (name + (made.get("name") or ""), before + (made.get("arguments") or ""))
    return text, [(name, given or "{}") for name, given in calls], stop


_READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "prompt_tokens")
"""The counts of a request's tokens, in both APIs."""

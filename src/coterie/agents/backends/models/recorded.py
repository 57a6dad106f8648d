"""One attempt with a model on a cassette, without the library that calls models.

A request is found only by its model and its messages: texts, tool calls and their results. Python functions are called
as in the recording. Built-in tools and MCP servers need the library.
"""

import asyncio
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pkgutil import resolve_name
from typing import Any

from coterie.agents.backends.base import Failure, OnEvent, Request, Result, Text, Tool, Used
from coterie.agents.backends.classify import classify
from coterie.agents.backends.models.attempt_rules import limit_reached, result_of, unfinished
from coterie.agents.backends.models.cassette import Cassette, CassetteMiss, Exchange
from coterie.agents.backends.models.key import TURN
from coterie.agents.backends.models.outputs import TOOL
from coterie.agents.backends.models.threads import in_thread
from coterie.agents.backends.models.usage import priced
from coterie.agents.backends.secrets import Secrets
from coterie.base.user_code import EndableCall, contained
from coterie.history.journal.records import NO_USAGE, Usage
from coterie.team.planning.providers import Chosen

Said = tuple[str, str]
"""A part of a conversation: its speaker (`user`, `assistant`), or `call` and `result` for a tool, and its text."""


class RecordedConversation:
    """An attempt with the recorded model of *chosen*, from the prompt to the answer, like `Conversation`."""

    def __init__(
        self, request: Request, chosen: Chosen, cassette: Cassette, secrets: Secrets, on_event: OnEvent
    ) -> None:
        self._request, self._chosen, self._cassette = request, chosen, cassette
        self.hide, self._on_event = secrets.hide, on_event
        self.used = NO_USAGE
        self._said: list[Said] = [(role, text) for role, text in request.messages if role != "system"]
        self._said.append(("user", request.latest))
        self._texts: list[str] = []

    @property
    def said(self) -> str:
        """The text of the model so far, with secrets redacted."""
        return self.hide("\n\n".join(filter(None, self._texts)))

    def steer(self, text: str) -> bool:
        """Return False: the model's answers are recorded."""
        return False

    async def hold(self) -> Result:
        """Play the conversation to its end; an expected error is a `Failure`."""
        TURN.set((self._request.key, self._request.attempt))
        provider, sent, stop = self._chosen.provider, 0, ""
        while True:
            if refused := await limit_reached(sent, self._request.agent.options, self._on_event):
                return refused
            sent += 1
            try:
                response = self._cassette.recorded(self._same).response
            except CassetteMiss as miss:
                return Failure(kind="not_found", reason=str(miss))
            body = "".join(response.body)
            if response.status != 200:
                kind = classify(f"{response.status} {body}") or "failed"
                return Failure(kind=kind, reason=f"{provider} answered {response.status}: {body[:600]}")
            await asyncio.sleep(0)
            if stop != "pause_turn":
                self._texts.append("")
            text, calls, stop, tokens = _read(body)
            self.used += priced(tokens, self._request.agent.options)
            self._texts[-1] += text
            self._on_event(Text(text=self.hide(text), channel="answer"))
            self._on_event(Used(usage=self.used))
            if stop == "pause_turn":
                self._said.append(("assistant", text))
                continue
            if cut := unfinished(stop, provider, "max-tokens"):
                return cut
            outputs = next((json.loads(given) for name, given in calls if name == TOOL), None)
            if outputs is None and calls:
                self._said.append(("assistant", text))
                for name, given in calls:
                    self._said += [("call", _call(name, json.loads(given))), ("result", await self._use(name, given))]
                continue
            return result_of([self.hide(text) for text in self._texts], outputs, self.used)

    async def _use(self, name: str, given: str) -> str:
        """Call the Python function *name*, and return the result for the model."""
        here, path = self._request.here, self._request.agent.options.get("python_tools", {}).get(name, "")
        if here is not None and str(here) not in sys.path:
            sys.path.append(str(here))
        id = f"call {len(self._said)}"
        self._on_event(Tool(id=id, name=name, detail=self.hide(given)[:200]))
        try:
            call = partial(resolve_name(path), **json.loads(given))
            with contained():
                found = await (EndableCall(call()) if inspect.iscoroutinefunction(call.func) else in_thread(call, name))
        except Exception as error:  # an error in the user's code becomes the tool's answer
            found = f"{type(error).__name__}: {error}"
        text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))
        self._on_event(Tool(id=id, name=name, state="finished", result=self.hide(text)[:200]))
        return text

    def _same(self, exchange: Exchange) -> bool:
        """Whether *exchange* is about the same model and messages."""
        body = exchange.request.body
        known = isinstance(body, dict) and body.get("model") == self._chosen.model
        return known and _joined(_messages(body)) == _joined((who, self.hide(text)) for who, text in self._said)


def _joined(said: Iterator[Said]) -> list[Said]:
    """*said* without empty texts, and with adjacent texts of the same speaker joined."""
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
    """The messages of a request to Anthropic's or OpenAI's API, without system messages."""
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


def _read(body: str) -> tuple[str, list[tuple[str, str]], str, Usage]:
    """The text of a streamed answer of either API, the calls in it, why it ended, and its tokens."""
    text, stop, calls, read, cached, written = "", "", list[tuple[str, str]](), 0, 0, 0
    for line in body.splitlines():
        event = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
        for used in (event.get("message", {}).get("usage"), event.get("usage")):
            for name, value in {**(used or {}), **((used or {}).get("prompt_tokens_details") or {})}.items():
                read += value if name in _READ else 0
                cached += value or 0 if name in ("cache_read_input_tokens", "cached_tokens") else 0
                is_written = name == "completion_tokens" or (
                    name == "output_tokens" and event["type"] == "message_delta"
                )
                written += value if is_written else 0
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
    tokens = Usage(input_tokens=read, output_tokens=written, cached_tokens=cached)
    return text, [(name, given or "{}") for name, given in calls], stop, tokens


_READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "prompt_tokens")
"""The names of token counts in both APIs."""

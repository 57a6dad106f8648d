"""A provider of models for real coding agents: it answers by what the prompt of the turn says.

A prompt holds lines `DO <tool>: <what>` and `SAY <text>`: the agent is made to use the tools, one after the other, and
then to write the text. `HOLD` keeps the first answer back until the client goes away or `Provider.go` is set, and
`HOLD AFTER <n>` only once *n* tools were used; `REFUSE <n>` answers the first *n* requests with 429 and the seconds to
wait: 2, or those of `REFUSE <n> FOR <seconds>`.
"""

import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_models import FakeModels, Refuse, Reply, Say

_STEP = re.compile(
    r"\b(DO (?P<tool>\w+): (?P<what>[^\n\"]+)|SAY (?P<text>[^\n\"]+)|(?P<hold>HOLD)( AFTER (?P<after>\d+))?"
    r"|REFUSE (?P<n>\d+)( FOR (?P<wait>\d+))?)"
)
_NAMES = {"bash": ("Bash", "bash"), "write": ("Write", "write")}


class Provider:
    """Chooses the answers; give it to `FakeModels(choose=…)`.

    Attributes:
        roles: The steps of each prompt that holds a phrase, in place of those in the prompt.
        prompts: The last user prompts that were answered, in order.
        held: Set when an answer is kept back.
    """

    models: FakeModels

    def __init__(self) -> None:
        self.roles: dict[str, str] = {}
        self.prompts: list[str] = []
        self.held, self.go = threading.Event(), threading.Event()
        self._refused = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        """The answer to a request."""
        texts, done = _said(body["messages"])
        roles = [steps for phrase, steps in self.roles.items() if any(phrase in text for text in texts)]
        # a session that goes on has the prompt twice
        steps = list({step[0]: step for text in roles or texts for step in _STEP.finditer(text)}.values())
        tools = {tool["name"]: tool for tool in body.get("tools") or ()}
        if not steps or not tools:  # a title, a summary: what agents ask beside their work
            return Say("ok")
        self.prompts.append(texts[-1])
        for step in steps:
            if step["n"] and self._refused < int(step["n"]):
                self._refused += 1
                return Refuse(429, "rate_limit_error", "slow down", {"retry-after": step["wait"] or "2"})
        if any(step["hold"] and done >= int(step["after"] or 0) for step in steps) and not self.held.is_set():
            return Say("I wait", hold=self._hold)
        deeds = [step for step in steps if step["tool"]]
        if done < len(deeds):
            return Say(calls=[_call(deeds[done], tools)])
        text = " ".join(step["text"] for step in steps if step["text"]) or "done"
        return Say(text)

    def models_of_pi(self) -> str:
        """The `models.json` with which pi asks this server."""
        model = {
            "id": "claude-sonnet-4-5",
            "name": "scripted",
            "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75},
        }
        provider = {
            "baseUrl": self.models.url,
            "apiKey": self.models.key,
            "api": "anthropic-messages",
            "models": [model],
        }
        return json.dumps({"providers": {"scripted": provider}})

    def _hold(self) -> None:
        self.held.set()
        self.go.wait(60)


def _said(messages: list[dict[str, Any]]) -> tuple[list[str], int]:
    """The texts of the user's messages, and how many results of tools there are."""
    texts, results = [], 0
    for message in messages:
        if message["role"] != "user":
            continue
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                texts.append(part["text"])
            results += part["type"] == "tool_result"
    return texts, results


def _call(step: "re.Match[str]", tools: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The call of the tool that *step* names, as the agent knows it."""
    name = next(name for name in _NAMES[step["tool"].lower()] if name in tools)
    if step["tool"].lower() == "bash":
        return name, {"command": step["what"], "description": "a step"}
    path, _, text = step["what"].partition(" = ")
    field = "file_path" if "file_path" in tools[name]["input_schema"]["properties"] else "path"
    return name, {field: path, "content": text}


@dataclass(frozen=True)
class RealAgents:
    """The programs, and the environment in which they ask the local server.

    Attributes:
        programs: Their paths, by name.
        home: Their home directory, which is empty.
    """

    programs: dict[str, Path]
    home: Path
    environment: dict[str, str]

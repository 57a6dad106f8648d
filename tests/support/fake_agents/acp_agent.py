"""A coding agent that speaks the Agent Client Protocol and does what the last word of its prompt says.

It imports the standard library only. Its messages have the form of those that real agents sent
(`tests/data/wire/acp_*.jsonl`). A mood that begins before the prompt is in `FAKE_MOOD`; that of every turn, whatever
its prompt says, may be in `FAKE_TURN`. Lines `RUN: COMMAND` of a prompt are run first, each as a tool.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

SESSION = "session-1"
MOOD = os.environ.get("FAKE_MOOD", "")
SECRET = os.environ.get("FAKE_API_KEY", "")
SERVED = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
"""What the client serves: nothing, so the agent works by its own tools, which its sandbox confines."""
OPTIONS = [
    {"kind": "allow_always", "name": "Always", "optionId": "option-1"},
    {"kind": "allow_once", "name": "Yes", "optionId": "option-2"},
    {"kind": "reject_once", "name": "No", "optionId": "option-3"},
]
ABOUT = {
    "protocolVersion": 1,
    "agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}},
    "agentInfo": {"name": "fake", "version": "0"},
    "authMethods": [{"id": "login", "name": "Login with fake", "description": "Run `fake login` in the terminal"}],
    "_meta": {"steering": {"supported": MOOD == "steered"}},
}
MODEL = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "small",
    "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
}
MODES = {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}, {"id": "plan"}]}


class Agent:
    """One session."""

    def __init__(self) -> None:
        self.lines: Iterator[str] = iter(sys.stdin.readline, "")
        self.ids = itertools.count()
        self.calls = itertools.count(1)
        self.session = SESSION
        self.set: list[str] = []
        self.spent = 0.0

    def send(self, message: dict[str, Any]) -> None:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def update(self, kind: str, /, **values: Any) -> None:
        params = {"sessionId": self.session, "update": {"sessionUpdate": kind, **values}}
        self.send({"method": "session/update", "params": params})

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, messageId="message-1")

    def use(self, cost: float) -> None:
        """Report the cost of the session, to which *cost* was added."""
        self.spent += cost
        self.update("usage_update", used=158, size=200_000, cost={"amount": self.spent, "currency": "USD"})

    def end(self, id: int, stop: str = "end_turn") -> None:
        usage = {"inputTokens": 6, "outputTokens": 5, "cachedReadTokens": 3, "cachedWriteTokens": 1, "totalTokens": 15}
        self.send({"id": id, "result": {"stopReason": stop, "usage": usage}})

    def fail(self, id: int, message: str, code: int = -32603, data: Any = None) -> None:
        self.send({"id": id, "error": {"code": code, "message": message, "data": data}})

    def ask(self, tool: dict[str, Any]) -> dict[str, Any]:
        """Ask for permission, and return the outcome."""
        id = next(self.ids)
        params = {"sessionId": self.session, "options": OPTIONS, "toolCall": tool}
        self.send({"id": id, "method": "session/request_permission", "params": params})
        for line in self.lines:
            message = json.loads(line)
            if message.get("id") == id and "method" not in message:
                outcome: dict[str, Any] = message["result"]["outcome"]
                return outcome
        raise EOFError

    def use_tool(self, detail: str, result: str, *, ask: bool = False) -> bool:
        """Call a tool; its second message says what it is about, as Claude's does."""
        name = f"call-{next(self.calls)}"
        meta = {"claudeCode": {"toolName": "Bash"}}
        call = {"toolCallId": name, "title": detail, "kind": "execute", "rawInput": {"command": detail}}
        head = {"toolCallId": name, "status": "pending", "title": "Bash", "kind": "execute", "rawInput": {}}
        self.update("tool_call", _meta=meta, **head)
        self.update("tool_call_update", _meta=meta, **call)
        if ask and self.ask(call).get("optionId") != "option-2":
            result, status = "the user refused", "failed"
        else:
            status = "completed"
        self.update("tool_call_update", _meta=meta, toolCallId=name, status=status, rawOutput=result)
        return status == "completed"

    def run(self, command: str) -> None:
        """Run *command* in a shell, in a group of its own."""
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.use_tool(command, done.stdout)

    def wait_for_cancel(self) -> None:
        for line in self.lines:
            if json.loads(line).get("method") == "session/cancel":
                return

    def prompt(self, id: int, mood: str) -> None:
        """One turn."""
        match mood:
            case "answers" | "wedged" | "refuses":
                self.say("an ")
                self.say("answer")
                self.use(0.25)
                self.end(id)
            case "forges":
                self.say("forged")
                self.end(id)
                self.say("an answer")
                self.end(id)
            case "slow":
                self.say("an ")
                while not os.path.exists("go"):
                    time.sleep(0.02)
                self.say("answer")
                self.end(id)
            case "streams":
                piece = "0123456789abcde\n" * 16
                for _ in range(2**20 // len(piece)):
                    self.say(piece)
                self.end(id)
            case "asks":
                commands = json.loads(os.environ.get("FAKE_ASKS", '["make test"]'))
                said = ["allowed" if self.use_tool(one, "passed", ask=True) else "denied" for one in commands]
                self.say(" ".join(said))
                self.end(id)
            case "asks-unannounced":  # the request alone says what the call is
                commands = json.loads(os.environ["FAKE_ASKS"])
                calls = [{"toolCallId": one, "kind": "execute", "rawInput": {"command": one}} for one in commands]
                self.say(" ".join(str(self.ask(call).get("optionId")) for call in calls))
                self.end(id)
            case "tool":
                self.say("let me look")
                self.use_tool("cat file", "its content")
                self.say("an answer")
                self.end(id)
            case "dies":
                self.say("half")
                print("something broke", file=sys.stderr, flush=True)
                os._exit(7)
            case "garbage":
                print('Welcome!\n{"half": \n[1, 2]\n"text"\n\n{}', flush=True)
                os.write(1, b"\xff\xfe\x00 binary\n")
                self.send({"method": "session/update", "params": [1]})
                self.send({"method": "session/update", "params": {"update": {"sessionUpdate": "news"}}})
                self.send({"method": "session/update", "params": {"update": None}})
                self.update("usage_update", used="many", size=None, cost=3)
                self.update("tool_call_update", toolCallId=["x"], content=7)
                self.send({"id": 77, "method": "fs/read_text_file", "params": {"path": "/etc/passwd"}})
                self.send({"id": ["x"], "result": {}})
                self.send({"id": 999, "error": "no"})
                self.say("an answer")
                self.end(id)
            case "ignores":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self.say("on it")
                while True:
                    time.sleep(600)
            case "exits":
                self.say("an answer")
                self.end(id)
                sys.exit(3)
            case "grandchild":
                subprocess.Popen(["sleep", "600"], start_new_session=True)
                self.say("an answer")
                self.end(id)
                sys.exit(0)
            case "late":
                self.say("an ")
                self.end(id)
                time.sleep(0.2)
                self.say("answer")
            case "limited":
                self.fail(id, "API Error: 429 rate limited, retry after 90 s", data={"errorKind": "rate_limit"})
            case "spent":
                limit = {"status": "rejected", "resetsAt": int(time.time()) + 3600, "rateLimitType": "five_hour"}
                self.update("usage_update", used=1, size=2, _meta={"_claude/rateLimit": limit})
                self.fail(id, "You've hit your limit", data={"errorKind": "rate_limit"})
            case "window":
                self.fail(id, "You've hit your weekly limit", data={"errorKind": "rate_limit"})
            case "unnamed":
                limit = {"status": "rejected", "resetsAt": int(time.time()) + 3600, "rateLimitType": "five_hour"}
                self.update("usage_update", used=1, size=2, _meta={"_claude/rateLimit": limit})
                self.fail(id, "Internal error")
            case "secret":
                self.say(f"the key is {SECRET[:5]}")
                self.use(0.1)
                self.say(f"{SECRET[5:]} indeed")
                self.use_tool(f"curl {'x' * 280} {SECRET}", f"{'y' * 290} {SECRET}")
                print(f"the log has {SECRET}", file=sys.stderr, flush=True)
                self.say(f"again {SECRET}")
                self.end(id)
            case "settings":
                self.say(" ".join(self.set))
                self.end(id)
            case "steered":
                self.say("working")
                message = json.loads(next(self.lines))
                self.send({"id": message["id"], "result": {"outcome": "injected"}})
                self.say(f" on {message['params']['prompt'][0]['text']}")
                self.end(id)
            case "queued":
                self.say("working")
                message = json.loads(next(self.lines))
                self.end(id)
                self.say(f" on {message['params']['prompt'][0]['text']}")
                self.end(message["id"])
            case "dropped":
                self.say("working")
                message = json.loads(next(self.lines))
                self.end(id)
                self.end(message["id"], "cancelled")
            case "fails":
                self.fail(id, "credit balance is too low")
            case "unauthorized":
                self.fail(id, "Authentication required", code=-32000)
            case "refusal" | "max_tokens" | "cancelled":
                self.say("I would rather not")
                self.end(id, mood)
            case _:
                self.say("on it")
                if mood == "spends":
                    self.use(0.25)
                self.wait_for_cancel()
                self.end(id, "cancelled")

    def open(self, message: dict[str, Any]) -> None:
        """Answer a request for a session."""
        id, method, params = message["id"], message["method"], message["params"]
        if MOOD == "refuses":
            self.fail(id, "no session for you")
            return
        if method != "session/new" and params["sessionId"] != SESSION:
            self.fail(id, "Resource not found", code=-32002)
            return
        if method == "session/load" and MOOD != "fresh":
            for piece in ("ear", "lier"):
                self.update("user_message_chunk", content={"type": "text", "text": piece})
            self.say("an earlier answer")
        if method != "session/new":
            self.use(0.75)
        session = {} if method == "session/load" else {"sessionId": self.session}
        if method == "session/new":
            self.session = session["sessionId"] = "session-2" if MOOD == "fresh" else SESSION
        self.send(
            {"id": id, "result": session | {"modes": MODES} | ({} if MOOD == "old" else {"configOptions": [MODEL]})}
        )

    def hear(self, message: dict[str, Any]) -> None:
        id, params = message.get("id", 0), message.get("params", {})
        match message.get("method"):
            case "initialize" if MOOD == "wedged":
                time.sleep(600)
            case "initialize" if params["clientCapabilities"] != SERVED:
                self.fail(id, "I would leave files and terminals to a client that serves none")
            case "initialize":
                about = dict(ABOUT)
                if MOOD in ("fresh", "loads"):
                    about["agentCapabilities"] = {"loadSession": True}
                if MOOD in ("queued", "dropped"):
                    about["agentCapabilities"] = {"_meta": {"claudeCode": {"promptQueueing": True}}}
                if MOOD == "future":
                    about["protocolVersion"] = 2
                self.send({"id": id, "result": about})
            case "session/new" | "session/load" | "session/resume":
                self.open(message)
            case "session/set_mode" if params["modeId"] not in ("default", "plan"):
                self.fail(id, "Internal error", data={"details": "Invalid Mode"})
            case "session/set_model" if MOOD == "old":
                self.fail(id, "Method not found", code=-32601)
            case "session/set_config_option" if params["value"] not in ("small", "large"):
                self.fail(id, "Internal error", data={"details": "Invalid value for config option model"})
            case "session/set_mode" | "session/set_config_option":
                self.set.append(params.get("modeId") or f"{params['configId']}={params['value']}")
                self.send({"id": id, "result": {}})
            case "session/prompt":
                text = params["prompt"][0]["text"]
                for found in (commands := re.findall(r"^RUN: (.*)$", text, re.MULTILINE)):
                    self.run(found)
                self.prompt(id, os.environ.get("FAKE_TURN") or ("answers" if commands else text.split()[-1]))


def main() -> None:
    agent = Agent()
    for line in agent.lines:
        agent.hear(json.loads(line))


main()

"""A coding agent that speaks pi's RPC protocol and does what the last word of its prompt says.

It imports the standard library only. Its messages have the form of those that pi sent (`tests/data/wire/pi_*.jsonl`).
A mood that begins before the prompt is in `FAKE_MOOD`; that of every turn, whatever its prompt says, may be in
`FAKE_TURN`. Lines `RUN: COMMAND` of a prompt are run first, each as the tool `bash` of pi runs it. As with pi,
guidance that was queued outlives an abort, and is gone in a new session; a session is kept in a file once the model
has answered, and a file that cannot be read becomes a new session in silence.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

MOOD = os.environ.get("FAKE_MOOD", "")
SECRET = os.environ.get("FAKE_API_KEY", "")
TOKENS = {"input": 6, "output": 5, "cacheRead": 3, "cacheWrite": 1, "total": 15}


class Agent:
    """A process of pi, with one session at a time."""

    def __init__(self) -> None:
        self.lines: Iterator[str] = iter(sys.stdin.readline, "")
        self.sessions, self.calls = 1, 0
        self.session = f"session-{os.getpid()}-1"
        self.messages: list[tuple[str, str]] = []
        self.queued: list[str] = []

    def send(self, kind: str, **values: Any) -> None:
        print(json.dumps({"type": kind, **values}, separators=(",", ":")), flush=True)

    def respond(self, command: dict[str, Any], **data: Any) -> None:
        self.send(
            "response", id=command["id"], command=command["type"], success=True, **({"data": data} if data else {})
        )

    def refuse(self, command: dict[str, Any], error: str) -> None:
        self.send("response", id=command["id"], command=command["type"], success=False, error=error)

    # -- a turn -------------------------------------------------------------------------------------------------------

    def message(self, role: str, text: str, **values: Any) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}] if text else [], **values}

    def user(self, text: str) -> None:
        self.messages.append(("user", text))
        for kind in ("message_start", "message_end"):
            self.send(kind, message=self.message("user", text))

    def begin(self) -> None:
        self.send("message_start", message=self.message("assistant", ""))

    def piece(self, text: str, kind: str = "text") -> None:
        self.send("message_update", assistantMessageEvent={"type": f"{kind}_delta", "contentIndex": 0, "delta": text})

    def end(self, text: str = "", stop: str = "stop", error: str = "") -> None:
        """End a message of the model."""
        self.messages.append(("assistant", text))
        self.keep()
        usage = {**TOKENS, "cost": {"total": 0.25}} if stop in ("stop", "length") else {}
        why = {"errorMessage": error} if error else {}
        self.send("message_end", message=self.message("assistant", text, usage=usage, stopReason=stop, **why))

    def say(self, *pieces: str) -> None:
        """A message of the model in *pieces*."""
        self.begin()
        for piece in pieces:
            self.piece(piece)
        self.end("".join(pieces))

    def use_tool(self, name: str, command: str, result: str, *, failed: bool = False) -> None:
        self.calls += 1
        call = {"toolCallId": f"call-{self.calls}", "toolName": name}
        self.send("tool_execution_start", **call, args={"command": command})
        self.send("tool_execution_update", **call, args={"command": command}, partialResult={"content": []})
        content = [{"type": "text", "text": result}]
        self.send("tool_execution_end", **call, result={"content": content}, isError=failed)

    def run(self, command: str) -> None:
        """Run *command* as pi does: by `bash`, in a group apart; what it leaves in the background is left."""
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.use_tool("bash", command, done.stdout, failed=done.returncode != 0)

    def until_aborted(self, *, takes_guidance: bool = True) -> None:
        """Listen until the turn is aborted."""
        for line in self.lines:
            command = json.loads(line)
            self.respond(command) if command["type"] != "abort" else None
            match command["type"]:
                case "steer":
                    self.queued.append(command["message"])
                    self.send("queue_update", steering=self.queued, followUp=[])
                    if takes_guidance:
                        self.take_guidance()
                        self.say(f" on {command['message']}")
                case "abort":
                    self.end("on it", "aborted", "This operation was aborted")
                    self.send("agent_end", messages=[])
                    self.respond(command)
                    return
        sys.exit(0)

    def take_guidance(self) -> None:
        while self.queued:
            self.user(self.queued.pop(0))

    def prompt(self, command: dict[str, Any]) -> None:
        text = command["message"]
        if text.startswith("/"):  # a command of an extension: handled, and no turn
            self.respond(command)
            return
        mood = os.environ.get("FAKE_TURN") or text.split()[-1]
        if mood == "refused":
            self.refuse(command, "No API key found for anthropic: invalid API key")
            return
        self.respond(command)
        self.send("agent_start")
        self.user(text)
        self.take_guidance()
        for found in re.findall(r"^RUN: (.*)$", text, re.MULTILINE):
            self.run(found)
        if self.play("answers" if "RUN: " in text else mood):
            self.send("agent_end", messages=[])
        if mood == "late":
            time.sleep(0.2)
            self.piece("answer")
            self.end("an answer")
        if mood in ("exits", "grandchild"):
            sys.exit(3 if mood == "exits" else 0)

    def play(self, mood: str) -> bool:
        """Answer in *mood*; whether the turn is still to end."""
        match mood:
            case "answers" | "refuses" | "cancels" | "leaks" | "exits" | "wedged":
                self.say("an ", "answer")
            case "remembers":
                self.say(" | ".join(text for _, text in self.messages))
            case "forges":
                self.say("forged")
                self.send("agent_end", messages=[])
                self.say("an answer")
            case "slow":
                self.begin()
                self.piece("an ")
                while not os.path.exists("go"):
                    time.sleep(0.02)
                self.piece("answer")
                self.end("an answer")
            case "streams":
                piece = "0123456789abcde\n" * 16
                self.say(*[piece] * (2**20 // len(piece)))
            case "tool":
                self.say("let me look")
                self.use_tool("Bash", "cat file", "its content")
                self.say("an answer")
            case "dies":
                self.begin()
                self.piece("half")
                print("something broke", file=sys.stderr, flush=True)
                os._exit(7)
            case "garbage":
                print('Welcome!\n{"half": \n[1, 2]\n"text"\n\n{}', flush=True)
                os.write(1, b"\xff\xfe\x00 binary\n")
                self.send("news")
                self.send("message_end")
                self.send("message_update", assistantMessageEvent=[1])
                self.send("message_start", message={"role": ["x"], "content": 7})
                self.send("message_end", message={"role": "assistant", "content": 7, "usage": "many"})
                self.send("tool_execution_end", toolCallId=["x"], result=3)
                self.send("response", id=["x"], command=7)
                self.send("extension_ui_request", id="dialog-1", method="confirm", title="Sure?")
                if json.loads(next(self.lines)) != {
                    "type": "extension_ui_response",
                    "id": "dialog-1",
                    "cancelled": True,
                }:
                    sys.exit("the dialog was not cancelled")
                self.say("an answer")
            case "ignores":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                self.begin()
                self.piece("on it")
                while True:
                    time.sleep(600)
            case "grandchild":
                subprocess.Popen(["sleep", "600"], start_new_session=True)
                self.say("an answer")
            case "late":
                self.begin()
                self.piece("an ")
            case "limited":
                self.fail("429 rate limited, retry after 90 s")
                self.send("auto_retry_start", attempt=1, maxAttempts=3, delayMs=600_000, errorMessage="429")
                for line in self.lines:
                    command = json.loads(line)
                    if command["type"] == "get_session_stats":
                        self.statistics(command)
                    else:
                        self.respond(command)
                    if command["type"] == "abort_retry":
                        self.send("auto_retry_end", success=False, attempt=1, finalError="Retry cancelled")
                        return False
                sys.exit(0)
            case "spent":
                self.fail(f"You've hit your usage limit|{int(time.time()) + 3600}")
                return False
            case "breaks":
                self.fail(os.environ["FAKE_ERROR"])
                return False
            case "empty":
                self.begin()
                self.send("message_end", message=self.message("assistant", "", usage={"output": 0}, stopReason="stop"))
            case "overflow":
                self.fail("prompt is too long")
                self.send("compaction_start", reason="overflow")
                self.send("compaction_end", reason="overflow", aborted=False, willRetry=True, result={})
                self.send("agent_start")
                self.say("an answer")
            case "length":
                self.begin()
                self.end("an answ", "length")
            case "secret":
                self.begin()
                self.piece(f"the key is {SECRET[:5]}")
                self.piece(f"{SECRET[5:]} indeed")
                self.end("said")
                self.use_tool("bash", f"curl {'x' * 280} {SECRET}", f"{'y' * 290} {SECRET}")
                print(f"the log has {SECRET}", file=sys.stderr, flush=True)
                self.say(f"again {SECRET}")
            case "fails":
                self.fail("402 credit balance is too low")
                return False
            case _:
                if mood == "spends":
                    self.say("a message")
                self.begin()
                self.piece("on it")
                self.until_aborted(takes_guidance=mood != "busy")
                return False
        return True

    def fail(self, error: str) -> None:
        self.begin()
        self.end("", "error", error)
        self.send("agent_end", messages=[])

    # -- a session ----------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Write the session to its file."""
        if "--session-dir" in sys.argv:
            folder = Path(sys.argv[sys.argv.index("--session-dir") + 1])
            folder.mkdir(exist_ok=True)
            (folder / f"now_{self.session}.jsonl").write_text(json.dumps(self.messages))

    def switch(self, command: dict[str, Any]) -> None:
        path = Path(command["sessionPath"])
        if MOOD == "keeps":
            self.refuse(command, "no such session")
            return
        self.session, self.messages, self.queued = f"{self.session}-anew", [], []
        with suppress(ValueError):
            self.messages = [(role, text) for role, text in json.loads(path.read_text())]
            self.session = path.stem.partition("_")[2]
        self.respond(command, cancelled=False)

    def statistics(self, command: dict[str, Any]) -> None:
        context = {"tokens": 158, "contextWindow": 200_000, "percent": 0.08}
        roles = [role for role, _ in self.messages]
        answers = roles.count("assistant")
        self.respond(
            command,
            sessionId=self.session,
            userMessages=roles.count("user"),
            tokens={name: count * answers for name, count in TOKENS.items()},
            cost=0.25 * answers,
            contextUsage=context,
        )

    def state(self, command: dict[str, Any]) -> None:
        if MOOD == "wedged":
            return
        if MOOD == "refuses":
            self.refuse(command, "no session for you")
            return
        counts = {"messageCount": len(self.messages), "pendingMessageCount": len(self.queued)}
        self.respond(command, sessionId=self.session, isStreaming=False, **counts)

    def renew(self, command: dict[str, Any]) -> None:
        if MOOD == "stays":
            self.refuse(command, "no new session")
        elif MOOD == "cancels":
            self.respond(command, cancelled=True)
        elif MOOD != "stuck":
            if MOOD == "echoes":  # the end of the earlier turn comes late
                self.send("agent_start")
                self.say("an echo")
                self.send("agent_end", messages=[])
                self.send("auto_retry_start", attempt=1)
            self.messages, self.sessions = [], self.sessions + 1
            self.session = f"session-{os.getpid()}-{self.sessions}"
            if "--session-dir" not in sys.argv:  # as pi 0.74 does even with --no-session
                open(f"session-{self.sessions}.jsonl", "w").close()
            if MOOD != "leaks":
                self.queued = []
            self.respond(command, cancelled=False)

    def main(self) -> None:
        for line in self.lines:
            command = json.loads(line)
            match command["type"]:
                case "get_state":
                    self.state(command)
                case "new_session":
                    self.renew(command)
                case "switch_session":
                    self.switch(command)
                case "get_session_stats":
                    self.statistics(command)
                case "prompt":
                    self.prompt(command)
                case "steer":
                    self.queued.append(command["message"])
                    self.respond(command)
                case "abort":
                    self.respond(command)
                case other:
                    self.send("response", command=other, success=False, error=f"Unknown command: {other}")


Agent().main()

"""A `claude` that speaks the control protocol of the Claude Agent SDK and does what the last word of its prompt says.

It imports the standard library only. Its messages have the form of those that the real program sends. A mood that
begins before the prompt is in `FAKE_MOOD`; that of every turn, whatever its prompt says, may be in `FAKE_TURN`. Lines
`RUN: COMMAND` of a prompt are run first, each as a tool.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

MODEL = "claude-sonnet-4-5"
MOOD = os.environ.get("FAKE_MOOD", "")
SECRET = os.environ.get("FAKE_API_KEY", "")
SESSION = "session-1"
SPENT = {"inputTokens": 6, "outputTokens": 5, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 1}
"""The usage of a message, as the totals have it."""
BEGUN = {"input_tokens": 6, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 3, "output_tokens": 1}


def send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


class Agent:
    """One conversation."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.messages = self.spent = 0
        self.taken: list[str] = []
        self.hooks: list[str] = []

    def heard(self) -> Iterator[dict[str, Any]]:
        """What the SDK says; its handshake is answered."""
        for line in iter(sys.stdin.readline, ""):
            message = json.loads(line)
            request = message.get("request", {})
            if request.get("subtype") != "initialize":
                yield message
            elif MOOD == "wedged":
                time.sleep(600)
            elif MOOD in ("refuses", "unauthorized"):
                error = "no session for you" if MOOD == "refuses" else "Not logged in"
                answer = {"subtype": "error", "request_id": message["request_id"], "error": error}
                send({"type": "control_response", "response": answer})
            else:
                hooks = (request.get("hooks") or {}).get("PreToolUse", ())
                self.hooks = [id for matcher in hooks for id in matcher["hookCallbackIds"]]
                self.answer(message, {"commands": [], "output_style": "default"})

    def answer(self, request: dict[str, Any], response: dict[str, Any]) -> None:
        answer = {"subtype": "success", "request_id": request["request_id"], "response": response}
        send({"type": "control_response", "response": answer})

    def ask(self, heard: Iterator[dict[str, Any]], **request: Any) -> dict[str, Any]:
        """Ask the SDK, and return its answer."""
        send({"type": "control_request", "request_id": "ask-1", "request": request})
        for message in heard:
            if message["type"] == "control_response":
                answer: dict[str, Any] = message["response"]["response"]
                return answer
            self.answer(message, {})  # an interruption
        raise EOFError

    def send(self, type: str, **values: Any) -> None:
        send({"type": type, "session_id": self.session, "uuid": "u", "parent_tool_use_id": None, **values})

    def begin(self) -> dict[str, Any]:
        """Begin a message of the model."""
        self.messages += 1
        message = {"id": f"msg_{self.messages}", "type": "message", "role": "assistant", "model": MODEL}
        taken = {"user_message_uuid": self.taken[-1], "user_message_uuids": self.taken} if self.taken else {}
        begun = {"type": "message_start", "message": message | {"content": [], "usage": BEGUN}}
        self.send("stream_event", event=begun, **taken)
        return message

    def write(self, text: str, kind: str = "text") -> None:
        """Write a piece of a message."""
        event = {"type": "content_block_delta", "index": 0, "delta": {"type": f"{kind}_delta", kind: text}}
        self.send("stream_event", event=event)

    def end(self, message: dict[str, Any], *content: dict[str, Any]) -> None:
        """End a message."""
        self.send("assistant", message=message | {"content": list(content), "usage": BEGUN})
        event = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
        self.send("stream_event", event=event)
        self.send("stream_event", event={"type": "message_stop"})
        self.spent += 1

    def say(self, *pieces: str, kind: str = "text") -> None:
        """A whole message."""
        message = self.begin()
        for piece in pieces:
            self.write(piece, kind)
        signed = {"signature": "c2ln"} if kind == "thinking" else {}
        self.end(message, {"type": kind, kind: "".join(pieces)} | signed)

    def call(self, command: str) -> dict[str, Any]:
        """Call a tool."""
        given = {"command": command}
        self.end(self.begin(), {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": given})
        return {"tool_name": "Bash", "input": given, "tool_use_id": "toolu_1"}

    def run(self, command: str) -> None:
        """Run *command* in a shell, in a group of its own."""
        self.call(command)
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.gave(done.stdout, failed=done.returncode != 0)

    def gave(self, content: str, *, failed: bool = False) -> None:
        """The result of the tool."""
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": failed}
        self.send("user", message={"role": "user", "content": [block]})

    def result(self, text: str | None, subtype: str = "success", **values: Any) -> None:
        """The end of a turn, with the totals of the session."""
        totals = {name: self.spent * count for name, count in SPENT.items()}
        self.send(
            "result",
            **{
                "subtype": subtype,
                "is_error": subtype != "success",
                "duration_ms": 1,
                "duration_api_ms": 1,
                "num_turns": self.messages,
                "total_cost_usd": 0.25 * self.spent,
                "usage": {},
                "modelUsage": {MODEL: totals | {"contextWindow": 200_000}},
                "result": text,
                "user_message_uuids": self.taken,
                "terminal_reason": "completed",
                **values,
            },
        )
        self.taken = []

    def fail(self, error: str, status: int | None, text: str) -> None:
        """The end of a turn by an error of the provider."""
        synthetic = {"id": "e", "role": "assistant", "model": "<synthetic>", "usage": {}}
        self.send("assistant", message=synthetic | {"content": [{"type": "text", "text": text}]}, error=error)
        self.result(text, is_error=True, api_error_status=status)


def prompt(agent: Agent, heard: Iterator[dict[str, Any]], mood: str) -> None:
    """One turn."""
    match mood:
        case "answers":
            agent.say("an ", "answer")
            agent.result("an answer")
        case "forges":
            agent.say("forged")
            agent.result("forged")
            agent.say("an answer")
            agent.result("an answer")
        case "forging":
            agent.say("forged")
            agent.call("cat file")
            agent.result("forged", total_cost_usd=float("nan"))
        case "thinks":
            agent.say("hm", kind="thinking")
            agent.say("an answer")
            agent.result("an answer")
        case "slow":
            message = agent.begin()
            agent.write("an ")
            while not os.path.exists("go"):
                time.sleep(0.02)
            agent.write("answer")
            agent.end(message, {"type": "text", "text": "an answer"})
            agent.result("an answer")
        case "streams":
            pieces = ["0123456789abcde\n" * 16] * (2**20 // 256)
            agent.say(*pieces)
            agent.result("".join(pieces))
        case "asks":
            told = agent.ask(heard, subtype="can_use_tool", **agent.call("make test"))
            said = "allowed" if told["behavior"] == "allow" else "denied"
            agent.gave(told.get("message", "passed"), failed=said == "denied")
            agent.say(said)
            agent.result(said)
        case "forbidden" | "unreadable":
            call = agent.call("rm -rf /" if mood == "forbidden" else "$CMD x")
            call["tool_input"] = call.pop("input")
            told = agent.ask(heard, subtype="hook_callback", callback_id=agent.hooks[0], input=call)
            said = told.get("hookSpecificOutput", {}).get("permissionDecisionReason", "done")
            agent.gave(said, failed=True)
            agent.result(said)
        case "tool":
            agent.say("let me look")
            agent.call("cat file")
            agent.gave("its content")
            agent.say("an answer")
            agent.result("an answer")
        case "dies":
            agent.write("half")
            print("something broke", file=sys.stderr, flush=True)
            os._exit(7)
        case "garbage":
            print('Welcome!\n{"half": \n[1, 2]\n"text"\n\n{}', flush=True)
            os.write(1, b"\xff\xfe\x00 binary\n")
            agent.send("assistant", message={"content": "no list"})
            agent.send("assistant", message=7)
            agent.send("stream_event", event=None)
            agent.send("rate_limit_event", rate_limit_info="soon")
            agent.send("news")
            for broken in ({"response": "none"}, {"response": {"request_id": ["x"]}}):
                send({"type": "control_response"} | broken)
            for broken in ({"request": 7}, {"request_id": ["x"], "request": {"subtype": "can_use_tool"}}):
                send({"type": "control_request"} | broken)
            send({"type": "control_cancel_request", "request_id": ["x"]})
            agent.say("an answer")
            agent.result("an answer")
        case "ignores":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            agent.write("on it")
            while True:
                time.sleep(600)
        case "exits":
            agent.say("an answer")
            agent.result("an answer")
            sys.exit(3)
        case "grandchild":
            subprocess.Popen(["sleep", "600"], start_new_session=True)
            agent.say("an answer")
            agent.result("an answer")
            sys.exit(0)
        case "late":
            message = agent.begin()
            agent.write("an ")
            agent.result("an answer")
            time.sleep(0.2)
            agent.write("answer")
            agent.end(message, {"type": "text", "text": "an answer"})
        case "limited":
            agent.fail("rate_limit", 429, "API Error: Request rejected (429), retry after 90 s")
        case "spent":
            info = {"status": "rejected", "resetsAt": int(time.time()) + 3600, "rateLimitType": "five_hour"}
            agent.send("rate_limit_event", rate_limit_info=info)
            agent.fail("rate_limit", 429, "You've hit your 5-hour limit")
        case "retries":
            retry = {"attempt": 1, "max_retries": 0, "retry_delay_ms": 3_863_355, "error_status": 429}
            send({"type": "system", "subtype": "api_retry", "error": "rate_limit", **retry})
            time.sleep(600)
        case "secret":
            agent.say(f"the key is {SECRET[:5]}", f"{SECRET[5:]} indeed")
            agent.call(f"curl {'x' * 280} {SECRET}")
            agent.gave(f"{'y' * 290} {SECRET}")
            print(f"the log has {SECRET}", file=sys.stderr, flush=True)
            agent.say(f"again {SECRET}")
            agent.result(f"again {SECRET}")
        case "fails":
            agent.fail("billing_error", 400, "Credit balance is too low")
        case "unknown":
            agent.fail("authentication_failed", 401, "Invalid API key")
        case "endless":
            agent.result(None, "error_max_turns", errors=["Reached maximum number of turns (3)"])
        case "delegates":
            agent.end(agent.begin(), {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {"prompt": "help"}})
            call = {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"file_path": "a.txt"}}
            for n, block in enumerate(({"type": "text", "text": "a sub-agent speaks"}, call)):
                message = {"id": f"sub_{n}", "role": "assistant", "model": MODEL, "content": [block], "usage": BEGUN}
                agent.send("assistant", message=message, parent_tool_use_id="toolu_1")
            agent.gave("it helped")
            agent.say("an answer")
            send({"type": "system", "subtype": "unknown"})
            agent.result("", modelUsage={})
        case "guided":
            agent.say("working")
            guidance = next(heard)
            agent.taken.append(guidance["uuid"])
            agent.result(guidance["message"]["content"])
        case "shows":
            found = {"argv": sys.argv[1:], "env": dict(os.environ), "leads": os.getsid(0) == os.getpid()}
            agent.say(json.dumps(found))
            agent.result("shown")
        case _:
            if mood == "spends":
                agent.say("a message")
            agent.write("on it")
            for message in heard:
                if message.get("request", {}).get("subtype") == "interrupt":
                    agent.answer(message, {})
                    values = {"errors": ["[ede_diagnostic]"], "terminal_reason": "aborted_streaming"}
                    agent.result(None, "error_during_execution", **values)
                    return
                if message.get("type") == "user":  # taken up, as the next message says
                    agent.taken.append(message["uuid"])
                    agent.begin()


def main() -> None:
    wanted = next((word.partition("=")[2] for word in sys.argv if word.startswith("--resume=")), "")
    if wanted not in ("", SESSION):
        print(f"No conversation found with session ID: {wanted}", file=sys.stderr)
        sys.exit(1)
    agent = Agent(SESSION)
    if wanted:
        agent.spent = 3  # messages of an earlier process
    heard = agent.heard()
    for message in heard:
        if message.get("type") == "user" and not message["message"]["content"].endswith("nothing"):
            agent.taken.append(message["uuid"])
            agent.send("system", subtype="init", tools=["Bash"], model=MODEL, cwd=os.getcwd())
            text = message["message"]["content"]
            for found in (commands := re.findall(r"^RUN: (.*)$", text, re.MULTILINE)):
                agent.run(found)
            if text.endswith("recite"):
                agent.say(text)
                agent.result(text)
                continue
            prompt(agent, heard, os.environ.get("FAKE_TURN") or ("answers" if commands else text.split()[-1]))


main()

"""A model server for one machine that is right in the end, and unreliable on the way. Standard library only.

It speaks like OpenAI's chat completions, so any agent with `provider: openai` and its address can use it. Three
characters answer a question such as "Is 91 a prime number?": two sides and a judge. Each first misbehaves as its list
in `MOODS` says, one entry for each request, and then answers.

    python server.py [PORT]
"""

import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT = 8765
SLOW = 30.0
"""How long a slow answer takes, in seconds: longer than any agent here waits."""
MOODS = {
    "proponent": ["too many requests"],
    "opponent": ["slow", "unavailable"],
    "judge": ["not JSON", "empty", "no verdict"],
}


class Server(ThreadingHTTPServer):
    """The server; `serve_forever` runs it."""

    daemon_threads = True

    def __init__(self, port: int = PORT) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def mood(self, who: str) -> str:
        """How the next request of *who* is treated; empty: well."""
        with self._lock:
            self._asked[who] += 1
            return dict(enumerate(MOODS[who], 1)).get(self._asked[who], "")


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = "\n".join(text_of(message["content"]) for message in body["messages"])
        who = next(name for name in ("judge", "opponent", "proponent") if f"You are the {name}" in prompt)
        mood = self.server.mood(who)
        print(f"{who}: {mood or 'answered'}", file=sys.stderr, flush=True)
        match mood:
            case "too many requests":
                self._send(429, error("slow down", "rate_limit_error"), {"retry-after": "1"})
            case "unavailable":
                self._send(503, error("the model is loading", "server_error"))
            case "slow":
                time.sleep(SLOW)
            case "not JSON":
                self._send(200, b"data: {not JSON\n\n", {"content-type": "text/event-stream"})
            case _:
                text = {"empty": "", "no verdict": "Both sides have a point."}.get(mood, answer(who, prompt))
                events = [f"data: {event}\n\n" for event in (*map(json.dumps, chunks(text, body["model"])), "[DONE]")]
                self._send(200, "".join(events).encode(), {"content-type": "text/event-stream"})

    def _send(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            for name, value in ({"content-length": str(len(content))} | (headers or {})).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has gone

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: `do_POST` does."""


def text_of(content: str | list[dict[str, Any]]) -> str:
    """The text of a message, which may come in parts."""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def error(message: str, kind: str) -> bytes:
    """The body of a refusal."""
    return json.dumps({"error": {"message": message, "type": kind}}).encode()


def chunks(text: str, model: str) -> Iterator[dict[str, Any]]:
    """A streamed answer."""
    head = {"id": "chat", "object": "chat.completion.chunk", "created": 0, "model": model}
    for delta, end in (({"role": "assistant", "content": text}, None), ({}, "stop")):
        yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
    words = len(text.split())
    yield head | {
        "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": words, "total_tokens": 100 + words},
    }


def answer(who: str, prompt: str) -> str:
    """What *who* says about the first number of the prompt that is asked about."""
    n = int(re.findall(r"Is (\d+) a prime", prompt)[-1])
    divisor = next((d for d in range(2, n) if n % d == 0), None)
    product = f"{n} = {divisor} × {n // divisor}" if divisor else f"no number up to {int(n**0.5)} divides {n}"
    match who:
        case "judge":
            verdict, conclusion = ("opponent", "No") if divisor else ("proponent", "Yes")
            return (
                f"SUMMARY: one side looked, one calculated.\nVERDICT: {verdict}\nCONCLUSION: {conclusion}: {product}."
            )
        case "opponent" if "You are right" in prompt:
            return "Then we agree.\nagreement: 1"
        case "opponent":
            return f"I calculated: {product}.\nagreement: {0 if divisor else 1}"
        case _ if product in prompt:
            return f"{'You are right' if divisor else 'So it is'}: {product}.\nagreement: 1"
        case _:
            return f"{n} looks like a prime number: it is odd, and not a square."


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    try:
        served = Server(port)
    except OSError as error:
        raise SystemExit(f"cannot listen at port {port}: {error.strerror}") from None
    print(f"listening at {served.url}", file=sys.stderr, flush=True)
    try:
        served.serve_forever()
    except KeyboardInterrupt:
        served.server_close()

"""A tiny server of tools that speaks the Model Context Protocol over its standard input and output.

`LISTED` and `RESULT` are the list of tools, and the result of every call, of a server that lies.

`python mcp_server.py [FOLDER]` writes its pid into FOLDER and, told to by `SLEEPER`, starts a process that outlives it.
"""

import base64
import json
import os
import subprocess
import sys
import time
from typing import Any

TOOLS = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "required": ["a", "b"],
        },
    },
    {"name": "whose", "description": "Whose turn it is.", "inputSchema": {"type": "object", "properties": {}}},
    {"name": "break", "description": "Fail.", "inputSchema": {"type": "object", "properties": {}}},
]


def described(name: str, **schema: Any) -> dict[str, Any]:
    """A tool with a schema that may be none."""
    return {"name": name, "description": "", "inputSchema": {"type": "object"} | schema}


LISTS: dict[str, Any] = {
    "no list": 5,
    "no tools": [{"nothing": 1}],
    "no schemas": [*TOOLS, described("a", properties=5), described("b", required=[1]), described("c", type="array")],
    "odd tools": [
        *TOOLS,
        described("deep", properties={"a": {"anyOf": [{"items": 7}]}}),
        described("long", title="x" * 100_000),
        described("sp ace"),
        described("n" * 100),
    ],
}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a tool gives; `MOOD` says how the server misbehaves meanwhile."""
    if forged := os.environ.get("RESULT"):
        return dict(json.loads(forged))
    match os.environ.get("MOOD"):
        case "dies":
            os._exit(3)
        case "hangs":
            time.sleep(600)
        case "noisy":
            print('calling {"jsonrpc": \x1b[31m1', flush=True)
        case "leaks":
            return {"content": [{"type": "text", "text": f"it is {os.environ['PASSWORD']}"}]}
        case "fails with a secret":
            return {"content": [{"type": "text", "text": os.environ["PASSWORD"]}], "isError": True}
        case "no base64":
            return {"content": [{"type": "image", "data": "a", "mimeType": "image/png"}]}
        case "no image":
            data = base64.b64encode(b"no image").decode()
            return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
        case "of no type":
            data = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
            return {"content": [{"type": "image", "data": data, "mimeType": "image/x-" + "y" * 1000}]}
        case "no result":
            return {"content": 5}
        case "huge":
            return {"content": [{"type": "text", "text": "x" * 1_000_000}, {"type": "text", "text": "y"}]}
    if name == "break":
        return {"content": [{"type": "text", "text": "it is broken"}], "isError": True}
    if name == "whose":
        text = " ".join(os.environ.get(key, "-") for key in ("COTERIE_KEY", "COTERIE_ATTEMPT", "FLAVOUR", "HIDDEN"))
    else:
        text = str(arguments["a"] + arguments["b"])
    return {"content": [{"type": "text", "text": text}]}


def answer(method: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None when the method is not known."""
    match method:
        case "initialize":
            return {
                "protocolVersion": given["protocolVersion"],
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": "tiny", "version": "1"},
            }
        case "tools/list":
            if "LISTED" in os.environ:
                return {"tools": json.loads(os.environ["LISTED"])}
            return {"tools": LISTS.get(os.environ.get("MOOD", ""), TOOLS)}
        case "tools/call":
            return call(given["name"], given.get("arguments", {}))
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    """Answer line by line until nobody asks any more."""
    if len(sys.argv) > 1:
        with open(os.path.join(sys.argv[1], "pid-server"), "w") as file:
            file.write(str(os.getpid()))
    if os.environ.get("SLEEPER"):
        sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(sys.argv[1], "pid-sleeper"), "w") as file:
            file.write(str(sleeper.pid))
    print("the tiny server is up", file=sys.stderr, flush=True)
    if os.environ.get("MOOD") == "floods":
        for _ in range(100):
            print("E" * 100_000, file=sys.stderr)
        print(os.environ["PASSWORD"], file=sys.stderr, flush=True)
    if os.environ.get("MOOD") == "noisy":
        print("the tiny server is up", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        if asked["method"] == "tools/call":
            message = {"level": "warning", "data": "it is called"}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": message}), flush=True)
        result = answer(asked["method"], asked.get("params", {}))
        said: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        said |= {"result": result} if result is not None else {"error": {"code": -32601, "message": "not known"}}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()

"""An MCP server with two tools, `pay` and `pay_once`, that note what they pay in the file `ledger`."""

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"euros": {"type": "integer"}}, "required": ["euros"]}
TOOLS = [{"name": name, "description": "Pay.", "inputSchema": SCHEMA} for name in ("pay", "pay_once")]


def pay(euros: int) -> dict[str, Any]:
    """Note it, and say so."""
    with open("ledger", "a", encoding="utf-8") as ledger:
        ledger.write(f"pays {euros}\n")
    return {"content": [{"type": "text", "text": f"paid {euros}"}]}


def answer(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    match method:
        case "initialize":
            served = {"capabilities": {"tools": {}}, "serverInfo": {"name": "bank", "version": "1"}}
            return {"protocolVersion": given["protocolVersion"], **served}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return pay(given["arguments"]["euros"])
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)

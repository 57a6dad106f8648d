"""Extend requests: always as a copy, never the caller's messages."""

from typing import Any


def with_system(request: dict[str, Any], text: str) -> dict[str, Any]:
    """*request* with *text* at the end of its system message, which is created if missing."""
    messages = list(request.get("messages", ()))
    if messages and messages[0].get("role") == "system":
        messages[0] = {**messages[0], "content": f"{messages[0].get('content', '')}\n\n{text}"}
    else:
        messages.insert(0, {"role": "system", "content": text})
    return {**request, "messages": messages}

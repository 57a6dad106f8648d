"""The OpenAPI 3.1 document of a gateway, and the page of Swagger UI, whose files are served from this package."""

import gzip
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from coterie.agents.actors.http.routes import GatewayRoute, Router
from coterie.team.topology.system.fields import AuthFields, GatewayConfig

OPENAPI = "/openapi.json"

FAILURES = {
    "400": "The body was cut off.",
    "401": "The client is not known.",
    "403": "A gateway without authentication is for this machine only.",
    "404": "There is no such agent.",
    "408": "The request did not arrive in time.",
    "413": "The body is too large.",
    "415": "The body is not JSON in UTF-8, or has a content encoding.",
    "422": "The request is not one that an agent can be given.",
    "500": "The gateway or its middleware failed, or the reply of the agent is no JSON.",
    "502": "The agent crashed, its worker was lost, or its turn failed.",
    "503": "The agent or the system is stopped, or the gateway has too many requests in hand.",
    "504": "The agent did not answer in time.",
}

_ASSETS = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}
_STREAMS = (
    "With `Accept: text/event-stream` the reply comes in pieces, as server-sent events. "
    "A client that was cut off sends the id of its last event as `Last-Event-ID` to continue."
)
_START = """window.addEventListener("load", () => SwaggerUIBundle({
  url: document.body.dataset.url, dom_id: "#ui", validatorUrl: null,
}));
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{base}/swagger-ui.css">
<script src="{base}/swagger-ui-bundle.js"></script>
<script src="{base}/start.js"></script>
</head>
<body data-url="{url}"><div id="ui"></div></body>
</html>
"""
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
"""The Content-Security-Policy of the page, which loads nothing from elsewhere."""


def document(name: str, config: GatewayConfig, router: Router) -> dict[str, Any]:
    """The OpenAPI document of the gateway *name*."""
    secured = isinstance(config.auth, AuthFields)
    paths: dict[str, Any] = {}
    for route in router.routes:
        paths.setdefault(route.path, {}).setdefault(route.method.lower(), _operation(route, config, secured))
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": name, "version": "1"},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }
    if secured:
        described["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"bearer": []}]
    return described


_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "kind": {"type": "string"}},
    "required": ["error"],
}


def _operation(route: GatewayRoute, config: GatewayConfig, secured: bool) -> dict[str, Any]:
    agent = route.agent or "the agent {name}"
    verbs = {"call": f"Ask {agent}", "cast": f"Send a message to {agent}", "state": f"The state of {agent}"}
    words = [word.strip("{}") for word in route.path.split("/") if word]
    operation: dict[str, Any] = {
        "operationId": "_".join((route.method.lower(), *words)),
        "summary": verbs[route.mode],
        "tags": [route.agent or "agents"],
        **({"description": _STREAMS} if route.mode == "call" else {}),
        "responses": _responses(route, secured),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.parameters
    ]
    if parameters:
        operation["parameters"] = parameters
    if route.mode != "state" and route.method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
        operation["requestBody"] = {
            "description": f"The payload, at most {config.max_body} bytes.",
            "content": {
                "application/json": {"schema": {"type": "object", "propertyNames": {"not": {"const": "__op__"}}}}
            },
        }
    return operation


def _responses(route: GatewayRoute, secured: bool) -> dict[str, Any]:
    empty = route.method == "HEAD"
    match route.mode:
        case "cast":
            good = {"202": {"description": "The message is in the mailbox.", "content": _json({"type": "object"})}}
        case "call":
            events = {"text/event-stream": {"schema": {"type": "string"}}}
            good = {"200": {"description": "The payload of the reply.", "content": _json({}) | events}}
        case _:
            good = {"200": {"description": "What it last stored.", "content": _json({"type": "object"})}}
    failures = {
        status: {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})}
        for status, text in FAILURES.items()
        if status != ("403" if secured else "401")
    }
    responses = good | failures
    return {status: {"description": one["description"]} for status, one in responses.items()} if empty else responses


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def page(name: str, path: str) -> str:
    """The page of Swagger UI at *path*."""
    return _PAGE.format(title=escape(name), base=escape(path.rstrip("/")), url=OPENAPI)


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """A file of the page, compressed by gzip, and its media type; None if there is no such file."""
    if name == "start.js":
        return gzip.compress(_START.encode()), _ASSETS["swagger-ui-bundle.js"]
    kind = _ASSETS.get(name)
    if kind is None:
        return None
    return (files("coterie.agents.actors.http") / "swagger" / f"{name}.gz").read_bytes(), kind

"""Generate `docs/reference/topology-yaml.md`: its text is here, its tables come from the types of the fields.

python docs/generate/system_page.py > docs/reference/topology-yaml.md
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from coterie.team.formats.yaml.system.schema import file_schema

TEXT = """\
# topology.yaml

<!-- Written by `python docs/generate/system_page.py`; a test keeps it fresh. -->

A `topology.yaml` describes a supervised system: agents that answer messages, the [supervisors](../supervision.md) that
restart them, the transport between processes, and plugins. Coming from Civitas? [The differences](../from-civitas.md).

```yaml
supervision:
  name: root
  children:
    - agent: {{ name: greeter, type: myapp.agents.Greeter }}
```

`coterie run` runs the `topology.yaml` of the working directory until Ctrl-C or SIGTERM; `coterie run -t FILE PROMPT`
asks the agent that `entry` names, prints its answer and stops.

## A larger one

[`examples/shop`](../../examples/shop/topology.yaml) has three agents in Python, a model, a flow and a program under two
supervisors. `show` draws it; fields that differ from their defaults and have no place in the tree are listed below it:

```console
$ coterie topology show examples/shop/topology.yaml
{shown}
```

`graph` draws the same tree as a picture (`--format mermaid`, `dot` or `svg`; `--nested` with its teams).

## Check it

```console
$ coterie topology validate examples/shop/topology.yaml
{validated}
```

The exit status is 0, or 1 if there are errors; warnings do not count. Every finding has its line and column and, where
one is close, a suggestion; unknown keys are errors at every level. `--json` prints the findings as data. The
[list of findings](rules.md) marks those of systems.

`validate` never imports your code. `--import` does: it also reports classes that are missing or no agents, and plugins
that are not installed or have wrong settings. `coterie run` always looks, before it starts anything.

`coterie topology schema` prints a JSON Schema, so that an editor completes the file; begin it with
`# yaml-language-server: $schema=topology.schema.json`. `coterie topology lsp` reports findings in
[editors](../editors.md).

## Compare two

```console
$ sed 's/timeout: 10/timeout: 20/; s/ONE_FOR_ALL/rest_for_one/' examples/shop/topology.yaml > examples/shop/next.yaml
$ coterie topology diff examples/shop/topology.yaml examples/shop/next.yaml
{compared}
```

Effective values are compared: the case of a strategy, the order of keys, and a default that is written out are no
difference. The order of children is one, since they start in that order. The exit status is 0; with `--exit-code` it
is 1 if there is a difference. An unreadable or invalid file gives 2.

## The parts

Times are in seconds. An integer may be written for any number. `strategy` and `backoff` ignore case, nothing else does.
There is no substitution of environment variables: keep secrets out of the file, and let plugins and agents read them
from the environment. `validate` warns of values that look like secrets.

### Top level

| field | value | default | meaning |
|---|---|---|---|
| `transport` | a table | in process | How processes exchange messages. |
| `plugins` | a table | none | Models, tools, exporters, and the state store. |
| `supervision` | a table | required | The root supervisor. |
| `entry` | a name | none | The agent that answers for the whole system. |

### transport

With `zmq` and `nats` an agent with `process: NAME` runs in the [worker](../processes.md) of that name, and only there.
A field of a transport that is not in use is a warning, and so is `process:` under `in_process`, where every agent runs
in this process.

{transport}

### plugins

{plugins}

Each plugin has:

{plugin}

Names of a model provider: `anthropic`, `openai`, `litellm`; of an exporter: `console`, `otlp`; of a state store:
`in_memory`, `sqlite`. Installed packages register more.

### supervision, supervisor

`restart` and `shutdown` are for nested supervisors. A supervisor without children is an error, except a
`dynamic_supervisor`.

{supervisor}

### agent

Written `agent: {{name: …, type: …}}`, or flat: `{{name: …, type: …}}`. A name has letters, digits, `_`, `-` and `.`.
The class is a dotted path, `package.module.Class`. A name without a dot needs `Runtime.from_config(path,
agent_classes={{"Name": Class}})`, and `validate` notes it.

{agent}

### Teams, models and programs

These children are agents that answer each message with a turn: an attempt that is journalled, limited and retried like
a turn of any run. They have all fields of an agent but `type`, `config` and `handle_timeout`.

```yaml
- flow: {{ name: review, source: review.at }}
- loop: {{ name: fix, project: ./autocode }}
- pattern: {{ name: panel, type: debate, slots: {{ proponent: {{ model: sonnet }}, … }} }}
- model: {{ name: judge, model: anthropic/claude-sonnet-4-6, prompt: Be fair. }}
- command: {{ name: lint, argv: [ruff, check], timeout: 60 }}
```

{teams}

### dynamic_supervisor

It starts empty; agents add children with `self.spawn()`. This kind and the next three are written flat,
`{{type: dynamic_supervisor, name: …, config: …}}`.

{dynamic}

### http_gateway

See [The HTTP gateway](../gateway.md). Without `host` it binds to 127.0.0.1, or to 0.0.0.0 if it has
authentication: `auth`, or any `middleware`. A host that other machines can reach needs one of these, or `auth: none`.

{gateway}

A route:

{route}

Without routes, `POST /agents/{{name}}`, `POST /agents/{{name}}/cast` and `GET /agents/{{name}}/state` reach every
agent.

### topology_server

See [Looking into a running system](../management.md).

{server}

### eval_agent

See [Eval agents](../evaluation.md). Its fields are beside `name`, without `config:`.

{eval}
"""

SHOWN, VALIDATED, COMPARED = "topology show", "topology validate", "topology diff"


def page(output: dict[str, str]) -> str:
    """The page; *output* is what the commands of its examples print."""
    classes = file_schema()["$defs"]
    common = [name for name in classes["FlowFields"]["properties"] if name not in ("source",)]
    node = ("name", "restart", "shutdown")
    teams = {
        kind: _rows(classes[f"{kind.title()}Fields"], common)
        for kind in ("flow", "loop", "pattern", "model", "command")
    }
    return TEXT.format(
        shown=output[SHOWN],
        validated=output[VALIDATED],
        compared=output[COMPARED],
        transport=_table(_rows(classes["TransportFields"])),
        plugins=_table(_rows(classes["PluginsFields"])),
        plugin=_table(_rows(classes["PluginFields"])),
        supervisor=_table(_rows(classes["SupervisorFields"])),
        agent=_table(_rows(classes["AgentFields"])),
        teams=_table([f"| `{kind}` {row}" for kind, rows in teams.items() for row in rows], "| kind "),
        dynamic=_table([*_rows(classes["DynamicFields"], ("config", "type")), *_config(classes["DynamicConfig"])]),
        gateway=_table(
            [
                *_config(classes["GatewayConfig"], but=("docs",)),
                *_config(classes["DocsFields"], "config.docs"),
                *_config(classes["AuthFields"], "config.auth"),
            ]
        ),
        route=_table(_rows(classes["RouteFields"])),
        server=_table(list(_config(classes["TopologyServerConfig"]))),
        eval=_table(_rows(classes["EvalFields"], (*node, "type"))),
    )


def _table(rows: list[str], first: str = "") -> str:
    head = f"{first}| field | value | default | meaning |"
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows])


def _config(one: dict[str, Any], path: str = "config", but: Any = ()) -> Iterator[str]:
    yield from (row.replace("| `", f"| `{path}.", 1) for row in _rows(one, but))


def _rows(one: dict[str, Any], but: Any = ()) -> list[str]:
    return [
        f"| `{name}` | {_value(field)} | {_default(name, field, one)} | {_cell(field['description'])} |"
        for name, field in one["properties"].items()
        if name not in but
    ]


def _value(field: dict[str, Any]) -> str:
    """The values of *field* in words."""
    if "anyOf" in field:
        words = [_value(each) for each in field["anyOf"] if each.get("type") != "null"]
        return " or ".join(
            dict.fromkeys(word for word in words if word != "a text" or len(words) == 1 or "a list" in words)
        )
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "$ref" in field:
        return "a table"
    return {
        "string": "a text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "`true` or `false`",
        "array": "a list",
        "object": "a table",
    }[field["type"]]


def _default(name: str, field: dict[str, Any], one: dict[str, Any]) -> str:
    if name in one["required"]:
        return "required"
    default = field.get("default")
    if default is None or (isinstance(default, str | list | tuple | dict) and not default):
        return (
            "null" if default is None and any(each.get("type") == "null" for each in field.get("anyOf", ())) else "none"
        )
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def printed(page: str) -> dict[str, str]:
    """The outputs that *page* contains."""
    blocks = re.findall(r"\$ coterie (topology \w+) .*\n((?:(?!```|\$ ).*\n)*)", page)
    return {command: text.rstrip("\n") for command, text in blocks}


def outputs() -> dict[str, str]:
    """What the commands on the page print, run in the repository."""
    import contextlib
    import io
    import os
    from pathlib import Path

    from coterie.interfaces.cli import app

    found = {}
    os.chdir(Path(__file__).parents[2])
    file, other = "examples/shop/topology.yaml", Path("examples/shop/next.yaml")
    text = Path(file).read_text(encoding="utf-8")
    other.write_text(
        text.replace("timeout: 10", "timeout: 20").replace("ONE_FOR_ALL", "rest_for_one"), encoding="utf-8"
    )
    try:
        for command, files in ((SHOWN, [file]), (VALIDATED, [file]), (COMPARED, [file, str(other)])):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                app.main([*command.split(), *files])
            found[command] = out.getvalue().rstrip("\n")
    finally:
        other.unlink()
    return found


if __name__ == "__main__":
    print(page(outputs()), end="")

import pytest
from bundles import bundle
from planned import extension, found, planned, sayings, team

from coterie.team.planning.plan import to_json

BLOCKS = """
  providers { house { api-key: "${HOUSE_KEY}"  base-url: "http://house/v1/"  models: [zed] } }
  mcp-servers {
    files { type: stdio  command: "files-server"  args: ["."]  env { ROOT: "${HOME}" } }
    web { type: http  url: "http://web/mcp" }
  }
  extensions { coterie { backend: model  tools { count: "team.tools:count"  Read: "team.tools:read" } } }
"""


def test_fields_and_options_are_settings() -> None:
    """The agent's options come before its fields, those before what `defaults` says; names have underscores."""
    fields = (
        "model: sonnet  temperature: 0.2  max-tokens: 100  stop: [END]  seed: 0  thinking: high  max-turns: 7  "
        "extensions { coterie { options { max-tokens: 500  top_p: 0.5 } } }"
    )
    blocks = "  defaults { temperature: 1  top-k: 3 }\n  extensions { coterie { backend: model } }"

    assert planned(team("a -> b", blocks, a=fields, b="model: opus")).agents["a"].options == {
        "temperature": 0.2,
        "top_k": 3,
        "max_tokens": 500,
        "stop": ["END"],
        "seed": 0,
        "thinking": "high",
        "max_turns": 7,
        "top_p": 0.5,
    }


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("temperature: 3", "bad-value", "'temperature' in 'options' of agent 'a' must be a number from 0 to 2, not 3"),
        ("max-tokens: 0", "bad-value", "'max-tokens' in 'options' of agent 'a' must be a whole number above 0, not 0"),
        ("tempratur: 1", "unknown-key", "'tempratur' in 'options' of agent 'a' is not a model setting"),
    ],
)
def test_an_option_that_does_not_fit_is_told(options: str, code: str, message: str) -> None:
    """What another backend makes of options is its affair."""
    (said,) = found(extension(own=f"backend: model  provider: openai  options {{ {options} }}"))

    assert (said.code, said.message) == (code, message)
    assert found(extension(own=f"backend: scripted  options {{ {options} }}")) == []


def test_a_model_is_offered_what_it_names() -> None:
    """Of the topology's functions and of the servers; its own functions always; what is disallowed never."""
    agents = planned(
        team(
            "a -> b -> c -> d",
            BLOCKS,
            a="model: zed",
            b="model: zed  tools: [Read, mcp.files.*, mcp.web.get, mcp.web.put]",
            c='model: zed  mcp-servers: [web]  disallowed-tools: [count, "mcp.web.delete"]',
            d='model: zed  tools: []  extensions { coterie { tools: ["mine.tools:look_up"] } }',
        )
    ).agents

    assert {name: agent.options.get("python_tools") for name, agent in agents.items()} == {
        "a": {"count": "team.tools:count", "Read": "team.tools:read"},
        "b": {"Read": "team.tools:read"},
        "c": {"Read": "team.tools:read"},
        "d": {"look_up": "mine.tools:look_up"},
    }
    web = {"type": "http", "url": "http://web/mcp"}
    files = {"type": "stdio", "command": "files-server", "args": ["."], "env": {"ROOT": "${HOME}"}}
    assert {name: agent.options.get("mcp_servers") for name, agent in agents.items()} == {
        "a": None,
        "b": {"files": files, "web": web | {"only": ["get", "put"]}},
        "c": {"web": web | {"never": ["delete"]}},
        "d": None,
    }


def test_tools_that_nobody_provides_are_noted() -> None:
    """`run` prints it; where another backend answers, they may be its own."""
    agents = {"a": "model: sonnet  tools: [Read, WebFetch, Task]", "b": "model: opus"}
    (warned,) = found(team("a -> b", "  extensions { coterie { backend: model } }", **agents))

    assert found(team("a -> b", "  extensions { coterie { backend: scripted } }", **agents)) == []
    assert (warned.code, warned.severity.value) == ("no-such-tool", "warning")
    assert warned.message == "'WebFetch' and 'Task' of agent 'a' cannot be offered to a model: nothing provides them"
    assert 'tools { NAME: "module:function" }' in warned.hint


def test_a_misspelt_tool_is_recognized() -> None:
    """The built-in tools are written with a capital letter."""
    (warned,) = found(team("a -> b", MODEL, a="model: sonnet  tools: [Raed]", b="model: opus"))

    assert (warned.code, warned.hint) == ("no-such-tool", "did you mean 'Read'?")


def test_a_misspelt_tool_that_is_called_once_is_an_error() -> None:
    """It would be called again in silence."""
    once = "model: sonnet  tools: [Read, Bash]  permissions: unrestricted  extensions { coterie { once: [Bsh] } }"
    (refused,) = found(team("a -> b", MODEL, a=once, b="model: opus"))

    assert (refused.code, refused.severity.value) == ("no-such-tool", "error")
    assert "agent 'a' has no tool 'Bsh' to call once" in refused.message
    assert refused.hint == "did you mean 'Bash'?"
    assert found(team("a -> b", MODEL, a=once.replace("Bsh", "Bash"), b="model: opus")) == []


MODEL = "  extensions { coterie { backend: model } }"


@bundle(
    ("settings", "fields", "offered"),
    [
        ("", "tools: [Read, Grep, Glob, Write, Edit]", ["Read", "Grep", "Glob", "Write", "Edit"]),
        ("", "", None),
        ("", "tools: []", None),
        ('allow: ["Bash(git *)"]', "tools: [Bash, Read]", ["Read", "Bash"]),
        ("", "tools: [Bash, Read]  permissions: unrestricted", ["Read", "Bash"]),
        ('deny: ["Bash"]', "tools: [Bash, Read]  permissions: bypass", ["Read"]),
        ('deny: ["Read"]', "tools: [Read, Grep, Glob, Write, Edit]", ["Write"]),
        ('deny: ["Write(*)"]', "tools: [Read, Write, Edit]", ["Read"]),
        ('deny: ["Read(./secrets/**)"]', "tools: [Read]", ["Read"]),
        ('deny: ["*"]', "tools: [Read, Bash]", None),
        ('allow: ["Edit(docs/**)"]', "tools: [Read, Write]  permissions: plan", ["Read", "Write"]),
    ],
)
def test_built_in_tools_are_offered_to_models_that_name_them(
    settings: str, fields: str, offered: list[str] | None
) -> None:
    """What is forbidden is left out, and programs need a rule that allows them."""
    text = team("a -> b", f"  settings {{ {settings} }}\n{MODEL}", a=f"model: sonnet  {fields}", b="model: opus")

    assert planned(text).agents["a"].options.get("built_in_tools") == offered


@pytest.mark.parametrize(
    ("settings", "fields", "message"),
    [
        ("", "tools: [Bash]", "'Bash' of agent 'a' cannot be used: no rule allows it"),
        ('allow: ["Bash(git"]', "tools: [Bash]", "'Bash' of agent 'a' cannot be used: no rule allows it"),
        (
            "",
            "tools: [Read, Write, Edit]  permissions: supervised",
            "'Write' and 'Edit' of agent 'a' cannot be used: 'permissions: supervised' requires approval, "
            "which no model can request yet",
        ),
        (
            'allow: ["Read"]  ask: ["Read"]',
            "tools: [Glob]",
            "'Glob' of agent 'a' cannot be used: 'ask' of 'settings' requires approval, which no model can request yet",
        ),
    ],
)
def test_a_tool_that_could_never_be_used_is_warned_about(settings: str, fields: str, message: str) -> None:
    """And not offered: no backend can request approval."""
    text = team("a -> b", f"  settings {{ {settings} }}\n{MODEL}", a=f"model: sonnet  {fields}", b="model: opus")

    assert [(each.code, each.message) for each in found(text)] == [("no-such-tool", message)]


def test_functions_and_servers_obey_the_rules_that_forbid() -> None:
    """By their names; a rule about their arguments cannot be checked, so it forbids the whole tool."""
    rules = 'deny: ["count(secret)", "mcp__files__delete"]  ask: ["mcp.web.*"]'
    agents = planned(
        team(
            "a -> b",
            f"{BLOCKS}\n  settings {{ {rules} }}",
            a="model: zed  mcp-servers: [files, web]",
            b="model: zed",
        )
    ).agents

    assert agents["a"].options["python_tools"] == {"Read": "team.tools:read"}
    assert agents["a"].options["mcp_servers"]["files"]["never"] == ["delete"]
    assert agents["a"].options["mcp_servers"]["web"]["never"] == ["*"]


def test_a_model_needs_a_provider() -> None:
    """Told where the model stands, before anything runs."""
    assert sayings(team("a -> b", "  extensions { coterie { backend: model } }", b="model: opus"))[0] == (
        "error[no-provider] m: agent 'a' uses a model, but no provider configured for the model 'm'"
    )


def test_keys_of_the_agent_come_before_those_of_the_topology() -> None:
    """Whoever chose the backend: `--backend model` on a file that says how its models are reached."""
    default = 'provider: house  base-url: "http://all"  price-in: 1  price-out: 2'
    own = 'base-url: "http://own/v1/"  api-key: "${OWN_KEY}"  price-in: 0'
    options = planned(extension(own=own, default=default), backend="model").agents

    assert options["a"].options == {
        "provider": "house",
        "base_url": "http://own/v1",
        "api_key": "${OWN_KEY}",
        "price_in": 0.0,
        "price_out": 2.0,
    }
    assert options["b"].options == {
        "provider": "house",
        "base_url": "http://all",
        "price_in": 1.0,
        "price_out": 2.0,
    }


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("base-url: nowhere", "'base-url' of agent 'a' must be an address, not 'nowhere'"),
        ("price-in: -1", "'price-in' of agent 'a' must be a price, not '-1'"),
        ("tools: [look-up]", "'tools' of agent 'a' must be a list of functions, not a list"),
        ('tools { "look up": "a:b" }', "'tools' of agent 'a' must be a block of functions by name, not a block"),
    ],
)
def test_a_key_of_the_wrong_form_is_an_error(own: str, message: str) -> None:
    """It says what is wanted."""
    said = [each.message for each in found(extension(own=f"backend: model  provider: openai  {own}")) if each.is_error]

    assert message in said


def test_a_key_in_the_file_is_refused_and_never_shown() -> None:
    """Neither in the message nor beside the caret."""
    text = extension(own='backend: model  provider: openai  api-key: "sk-live-123"')
    (said,) = [each for each in found(text) if each.code == "key-in-file"]

    assert said.is_error
    assert "sk-live-123" not in said.render(text)
    assert "export it" in said.hint


def test_the_address_of_a_provider_has_no_slash_at_its_end() -> None:
    """A path is appended to it."""
    made = planned(team("a -> b", BLOCKS, a="model: zed", b="model: zed"))

    assert made.agents["a"].options["providers"]["house"]["base-url"] == "http://house/v1"


def test_keys_for_models_are_idle_elsewhere() -> None:
    """A warning in the agent's own extension; the topology's is for whoever it fits."""
    own = 'command: ["x"]  tools: ["a:b"]'

    assert [each.code for each in found(extension(own=own))] == ["idle-key"]
    assert found(extension(own='command: ["x"]', default='tools: ["a:b"]')) == []
    assert found(extension(own='provider: openai  base-url: "http://x"')) == []  # `run -b model` may choose it


def test_no_key_is_in_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds names of variables; their values stay in the environment."""
    monkeypatch.setenv("HOUSE_KEY", "key-of-the-house")
    text = to_json(planned(team("a -> b", BLOCKS, a="model: zed", b="model: zed"))).decode()

    assert "${HOUSE_KEY}" in text
    assert "key-of-the-house" not in text

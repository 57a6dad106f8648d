"""Coding agents in files and on the command line: their programs, permissions, sandbox and gates."""

from pathlib import Path

import pytest
from bundles import bundle
from loops import TWO, pair, plan, planned
from planned import extension, found, sayings, topology
from planned import planned as in_file

from coterie.patterns import agent, debate
from coterie.team.formats import read
from coterie.team.planning import plan as planning
from coterie.team.planning import plan_or_raise
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.loops import reread
from coterie.team.planning.plan import from_json, to_json

ASKS = {"attention": "ask", "attention_timeout": 90.0, "attention_policy": "park", "sandbox": "required"}
GATES = {"gates": [["a"], ["b", "c"]]}
ALL = "".join(
    f"backend.{name} = {value}\n"
    for name, value in (
        ("kind", '"claude-sdk"'),
        ("attention", '"ask"'),
        ("attention_timeout_ms", "90000"),
        ("attention_policy", '"park"'),
        ("sandbox", '"required"'),
    )
)


def test_the_settings_are_options_of_every_agent(tmp_path: Path) -> None:
    """A review falls back to them; what it sets itself replaces them one by one."""
    review = 'review.sandbox = "off"\nreview.attention_timeout_ms = 1000\n'
    made = plan(pair(tmp_path / "pair", ALL + review))

    assert made.agents["writer"].options == {"trust_all_tools": True, **ASKS}
    assert made.agents["@review"].options == {
        "trust_all_tools": True,
        **ASKS,
        "sandbox": "off",
        "attention_timeout": 1.0,
    }


def test_without_settings_there_are_no_options_for_them(tmp_path: Path) -> None:
    """The backends and the driver have the defaults."""
    assert plan(pair(tmp_path / "pair", "")).agents["writer"].options == {"trust_all_tools": True}


def test_a_role_overrides_each_of_them(tmp_path: Path) -> None:
    """Unset fields are those of the settings."""
    own = 'backend_sandbox = "auto"\nbackend_attention_policy = "fail"\nbackend_attention_timeout_ms = 5\n'
    topology = TWO.replace('id = "writer"\n', f'id = "writer"\n{own}')
    made = plan(pair(tmp_path / "pair", ALL, topology_toml=topology))

    changed = {"sandbox": "auto", "attention_policy": "fail", "attention_timeout": 0.005}
    assert made.agents["writer"].options == {"trust_all_tools": True, **ASKS, **changed}
    assert made.agents["reader"].options == {"trust_all_tools": True, **ASKS}


@pytest.mark.parametrize("field", ["sandbox", "attention", "attention_policy", "attention_timeout_ms"])
def test_a_wrong_value_of_a_role_is_an_error(tmp_path: Path, field: str) -> None:
    """With the valid ones."""
    topology = TWO.replace('id = "writer"\n', f'id = "writer"\nbackend_{field} = "maybe"\n')
    made, found = planned(pair(tmp_path / "pair", "", topology_toml=topology))

    assert made is None
    assert [each.code for each in found if each.is_error] == ["bad-value"]


@pytest.mark.parametrize(("kind", "options"), [("command", {"sandbox": "required"}), ("model", {}), ("scripted", {})])
def test_other_backends_get_the_options_that_they_read(tmp_path: Path, kind: str, options: dict[str, str]) -> None:
    """A program may run in a sandbox; nothing else asks, or has one."""
    settings = ALL.replace("claude-sdk", kind) + 'backend.model = "sonnet"\n'

    assert plan(pair(tmp_path / "pair", settings)).agents["writer"].options == options


@bundle("kind", ["claude-sdk", "acp", "pi", "command", "model"])
def test_gates_belong_to_every_role_and_to_no_review(tmp_path: Path, kind: str) -> None:
    """Whichever agent emits the completion."""
    settings = f'backend.kind = "{kind}"\nbackend.provider = ""\nbackend.command = "agent"\nbackend.model = "sonnet"\n'
    gates = 'event_loop.gates = [["make", "test"], ["tools/check", "--all"]]\n'
    made = plan(pair(tmp_path / "pair", settings + gates))

    for name in ("writer", "reader"):
        assert made.agents[name].options["gates"] == [["make", "test"], ["tools/check", "--all"]]
    assert "gates" not in made.agents["@review"].options
    assert from_json(to_json(made)) == made


def test_the_time_of_gates_goes_with_them(tmp_path: Path) -> None:
    """Without gates the setting means nothing."""
    time = 'event_loop.gate_timeout = "20m"\n'
    gated = plan(pair(tmp_path / "gated", time + 'event_loop.gates = [["make"]]\n'))
    free = plan(pair(tmp_path / "free", time))

    assert gated.agents["writer"].options["gate_timeout"] == 1200.0
    assert "gate_timeout" not in gated.agents["@review"].options | free.agents["writer"].options


@bundle("value", ['"make test"', '["make", "test"]', "[[]]", '[[""]]', '[["make", ["test"]]]', "1"])
def test_gates_are_a_list_of_commands(tmp_path: Path, value: str) -> None:
    """Anything else is an error: no shell splits a text into words."""
    made, found = planned(pair(tmp_path / "pair", f"event_loop.gates = {value}\n"))

    assert made is None
    assert next(each.message for each in found if each.is_error).startswith(
        'event_loop.gates must be a list of commands such as [["make", "test"]], not'
    )


def test_gates_can_be_given_on_the_command_line(tmp_path: Path) -> None:
    """As in the file."""
    made = plan(pair(tmp_path / "pair", ""), overrides=('event_loop.gates=[["make", "test"]]',))

    assert made.agents["writer"].options["gates"] == [["make", "test"]]


def test_gates_are_read_again_at_every_iteration(tmp_path: Path) -> None:
    """They are no setting of the start."""
    loop = pair(tmp_path / "pair", "")
    made = plan(loop)
    (loop / "autoloops.toml").write_text('event_loop.gates = [["make", "test"]]\n', encoding="utf-8")

    again, found = reread(made)

    assert [each for each in found if each.is_error] == []
    assert again is not None
    assert isinstance(again.coordination, LoopPlan)
    assert again.agents["reader"].options["gates"] == [["make", "test"]]


@bundle(
    ("own", "argv", "options"),
    [
        ("backend: claude-sdk", ("claude",), {}),
        ("backend: pi", ("pi",), {}),
        ('backend: pi command: ["./pi", "--thinking", "high"]', ("./pi", "--thinking", "high"), {}),
        ("backend: acp provider: kiro", ("kiro-cli", "acp"), {"provider": "kiro"}),
        (
            "backend: acp provider: claude-agent-acp",
            ("npx", "-y", "@agentclientprotocol/claude-agent-acp"),
            {"provider": "claude-agent-acp"},
        ),
        ('backend: acp command: ["agent", "--acp"]', ("agent", "--acp"), {"provider": "generic"}),
        ('backend: acp provider: mine command: ["agent"]', ("agent",), {"provider": "mine"}),
        ('backend: acp command: ["/opt/kiro-cli", "acp"]', ("/opt/kiro-cli", "acp"), {"provider": "kiro"}),
        (
            "backend: acp provider: kiro mode: coder trust-all-tools: false attention: ask attention-timeout: 2m "
            'attention-policy: park sandbox: required stall-after: 20m gates: [["make", "test"]] gate-timeout: 30s',
            ("kiro-cli", "acp"),
            {
                "provider": "kiro",
                "agent": "coder",
                "trust_all_tools": False,
                "attention": "ask",
                "attention_timeout": 120.0,
                "attention_policy": "park",
                "sandbox": "required",
                "stall_after": 1200.0,
                "gates": [["make", "test"]],
                "gate_timeout": 30.0,
            },
        ),
        ('command: ["x"] sandbox: auto gates: [["a"], ["b", "c"]]', ("x",), {"sandbox": "auto"} | GATES),
        ('command: ["x"] stall-after: 0', ("x",), {"stall_after": 0.0}),
    ],
)
def test_an_agent_of_a_file_is_a_coding_agent(own: str, argv: tuple[str, ...], options: dict[str, object]) -> None:
    """Its program is the backend's or the provider's own, unless the file names one."""
    agent = in_file(extension(own=own)).agents["a"]

    assert (agent.argv, agent.options) == (argv, options)
    assert agent.model == "m"


@bundle(
    ("flag", "backend", "argv"),
    [
        ("pi", "pi", ("pi",)),
        ("./bin/pi", "pi", ("./bin/pi",)),
        ("claude-sdk", "claude-sdk", ("claude",)),
        ("claude", "claude-sdk", ("claude",)),
        ("kiro", "acp", ("kiro-cli", "acp")),
        ("acp:kiro", "acp", ("kiro-cli", "acp")),
        ("acp:mine:agent", "acp", ("agent",)),
    ],
)
@bundle("default", ["", "backend: scripted", 'backend: acp command: ["other", "--x"]'])
def test_the_command_line_names_a_coding_agent_for_a_flow(
    flag: str, backend: str, argv: tuple[str, ...], default: str
) -> None:
    """As for a loop; the file's command is not its own."""
    agent = in_file(extension(default=default), backend=flag).agents["a"]

    assert (agent.backend, agent.argv) == (backend, argv)


def test_a_label_without_a_command_takes_the_command_of_the_file() -> None:
    """The command line names only the kind."""
    agent = in_file(extension(default='backend: acp command: ["agent", "--x"]'), backend="acp").agents["a"]

    assert (agent.backend, agent.argv) == ("acp", ("agent", "--x"))


def test_the_topology_sets_the_options_of_the_agents_that_read_them() -> None:
    """Its provider is a label for agents, if its backend is `acp`, and no provider of models."""
    keys = "attention: ask trust-all-tools: false sandbox: off"
    default = f'backend: acp provider: kiro {keys} gates: [["make"]]'
    text = extension(own="backend: model sandbox: auto", default=default).replace("model: m", "model: sonnet")
    (warned,) = found(text)
    made, _ = planning(topology(text))

    assert made is not None
    asks = {"attention": "ask", "trust_all_tools": False, "sandbox": "off", "gates": [["make"]]}
    assert made.agents["b"].options == {"provider": "kiro", **asks}
    assert made.agents["a"].options == {"gates": [["make"]]}
    assert (warned.code, warned.span is not None) == ("idle-key", True)


@bundle(
    ("own", "said"),
    [
        ("backend: acp", "error[no-command] acp: agent 'a' has backend 'acp', but no command"),
        (
            'command: ["x"] mode: coder',
            "warning[idle-key] coder: 'mode' of agent 'a' is for the backends acp, but its backend is 'command'",
        ),
        (
            "backend: pi attention: ask",
            "warning[idle-key] ask: 'attention' of agent 'a' is for the backends acp, claude-sdk, "
            "but its backend is 'pi'",
        ),
        (
            "backend: human gates: [[x]]",
            "warning[idle-key] [[x]]: 'gates' of agent 'a' is for the backends acp, claude-sdk, command, model, pi, "
            "but its backend is 'human'",
        ),
        (
            "backend: pi gates: [make]",
            "error[bad-value] [make]: 'gates' of agent 'a' must be a list of commands, each a list of words, "
            "not a list",
        ),
        (
            "backend: pi sandbox: maybe",
            "error[bad-value] maybe: 'sandbox' of agent 'a' must be one of auto, required, no-network, off, "
            "not 'maybe'",
        ),
        (
            'backend: pi options { stall_after: "20m" }',
            "error[bad-value] options: 'options' of agent 'a' must be a block without 'stall-after', not a block",
        ),
        (
            "backend: pi stall-after: never",
            "error[bad-value] never: 'stall-after' of agent 'a' must be a duration, not 'never'",
        ),
        (
            "backend: pi gate-timeout: 0",
            "error[bad-value] 0: 'gate-timeout' of agent 'a' must be a duration, not '0'",
        ),
        (
            "backend: acp provider: kiro trust-all-tools: often",
            "error[bad-value] often: 'trust-all-tools' of agent 'a' must be true or false, not 'often'",
        ),
    ],
)
def test_what_does_not_apply_is_reported_where_it_is(own: str, said: str) -> None:
    """An error if it is invalid, a warning if another backend reads it."""
    assert sayings(extension(own=own)) == [said]


def test_an_agent_of_a_pattern_file_is_a_coding_agent(tmp_path: Path) -> None:
    """Its model and its program are what the agent works with; a slot may set each of them."""
    file = tmp_path / "talk.pattern.yaml"
    file.write_text(
        """\
pattern:
  type: debate
  slots:
    proponent: builder
    opponent: {agent: builder, model: opus}
    mediator: {agent: builder, type: acp, provider: mine, command: [agent], mode: judge}
agents:
  builder:
    type: pi
    model: sonnet
    command: [./pi, --thinking, high]
    sandbox: required
    gates: [[make, test]]
""",
        encoding="utf-8",
    )
    source = read(file)
    assert source.topology is not None
    assert source.diagnostics == ()
    made, said = planning(source.topology)

    assert said == []
    assert made is not None
    shown = {name: (agent.backend, agent.model, agent.argv) for name, agent in made.agents.items()}
    assert shown == {
        "proponent": ("pi", "sonnet", ("./pi", "--thinking", "high")),
        "opponent": ("pi", "opus", ("./pi", "--thinking", "high")),
        "mediator": ("acp", "", ("agent",)),
    }
    assert made.agents["opponent"].options == {"sandbox": "required", "gates": [["make", "test"]]}
    assert made.agents["mediator"].options == {"provider": "mine", "agent": "judge"}


def test_a_coding_agent_in_python() -> None:
    """As in a pattern file."""
    builder = agent(type="claude-sdk", model="opus", attention="ask", gates=[["make", "test"]])
    made = plan_or_raise(debate(proponent=builder, opponent=builder, mediator=builder))

    assert made.agents["proponent"].backend == "claude-sdk"
    assert made.agents["proponent"].options == {"attention": "ask", "gates": [["make", "test"]]}


def test_permissions_of_an_agent_that_requests_none_are_warned_about(tmp_path: Path) -> None:
    """Pi would use every tool: only a sandbox holds it."""
    made, found = planned(pair(tmp_path / "pair", 'backend.kind = "pi"\nbackend.trust_all_tools = false\n'))

    assert made is not None
    assert [(each.code, each.message) for each in found if "writer" in each.message] == [
        (
            "idle-setting",
            "trust_all_tools = false of 'writer' has no effect: it is for the backends acp, claude-sdk, not 'pi'",
        )
    ]


@bundle(
    ("settings", "idle"),
    [
        ('backend.kind = "pi"\nbackend.on_interrupt = "resume"\n', False),
        ('backend.command = "program"\nbackend.on_interrupt = "adopt"\n', False),
        ('backend.command = "program"\nbackend.on_interrupt = "resume"\n', True),
        ('backend.kind = "pi"\nbackend.on_interrupt = "adopt"\n', True),
        ('backend.kind = "pi"\nbackend.on_interrupt = "ask"\n', False),
    ],
)
def test_a_policy_that_a_backend_does_not_have_is_warned_about(tmp_path: Path, settings: str, idle: bool) -> None:
    """Only coding agents have sessions, and only commands can be adopted."""
    made, found = planned(pair(tmp_path / "pair", settings))

    assert made is not None
    assert any("counts as 'retry'" in each.message for each in found) is idle


@pytest.mark.parametrize(
    ("backend", "said"), [("claude-sdk", []), ("pi", ["the backend 'pi' of agent 'a' does not enforce 'tools'"])]
)
def test_the_tools_of_an_agent_are_those_of_claude(backend: str, said: list[str]) -> None:
    """Other agents would use what they have, which is a warning."""
    text = extension(own=f"backend: {backend}").replace("agent a {", "agent a { tools: [Read]")

    assert [each.message for each in found(text) if each.code == "not-enforced"] == said

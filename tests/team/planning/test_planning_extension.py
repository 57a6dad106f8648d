from bundles import bundle
from planned import extension, found, planned, sayings, team

from coterie.team.options.agents import AGENT_KEYS
from coterie.team.planning.extension import read_extension


def test_every_key_is_read() -> None:
    """As the page on agents describes them."""
    own = (
        'command: ["{python}", "{here}/x.py", "--n", 3]  timeout: 90s  cwd: "sub"  env { A: " x " N: 3 F: true }'
        "  prompt-via: file  on-interrupt: adopt  options { depth: 2 }"
    )
    agent = planned(extension(own=own)).agents["a"]

    assert agent.argv == ("{python}", "{here}/x.py", "--n", "3")
    assert (agent.timeout, agent.cwd, agent.prompt_via, agent.on_interrupt) == (90.0, "sub", "file", "adopt")
    assert agent.env == {"A": " x ", "N": "3", "F": "true"}
    assert agent.options == {"depth": 2}


def test_a_line_for_a_shell_is_refused() -> None:
    """The hint shows the list."""
    text = extension(own='command: "python3 agent.py -v"')

    assert sayings(text)[0] == (
        'error[bad-value] "python3 agent.py -v": '
        "'command' of agent 'a' must be a list of words, not 'python3 agent.py -v'"
    )
    assert found(text)[0].hint == 'no shell is used: write command: ["python3", "agent.py", "-v"]'
    assert len(found(extension(own='backend: command command: "python3 agent.py -v"'))) == 1


@bundle(
    ("own", "message"),
    [
        ("command: []", "'command' of agent 'a' must be a list of words, not an empty list"),
        ("timeout: soon", "'timeout' of agent 'a' must be a duration, not 'soon'"),
        ("timeout: 0", "'timeout' of agent 'a' must be a duration, not '0'"),
        ("timeout: true", "'timeout' of agent 'a' must be a duration, not 'true'"),
        ("cwd: 3", "'cwd' of agent 'a' must be a text, not '3'"),
        ("env: x", "'env' of agent 'a' must be a block of names and texts, not 'x'"),
        ("env { A: [x] }", "'env' of agent 'a' must be a block of names and texts, not a block"),
        ("prompt-via: pipe", "'prompt-via' of agent 'a' must be one of stdin, file, not 'pipe'"),
        ("on-interrupt: retrry", "'on-interrupt' of agent 'a' must be one of retry, resume, adopt, ask, not 'retrry'"),
        ("options: x", "'options' of agent 'a' must be a block, not 'x'"),
        ("topology: 3", "'topology' of agent 'a' must be a text, not '3'"),
    ],
)
def test_a_value_of_the_wrong_form_is_an_error(own: str, message: str) -> None:
    """It says what is wanted and what was found."""
    said = found(extension(own=own))

    assert [(each.code, each.message) for each in said if each.is_error] == [("bad-value", message)]


@bundle(
    ("given", "seconds"),
    [(3, 3.0), (0.5, 0.5), ("30s", 30.0), ("250ms", 0.25), ("5m", 300.0), ("1h", 3600.0), ("2d", 172800.0)],
)
def test_a_duration_is_seconds_or_a_text(given: object, seconds: float) -> None:
    """Topologies made in Python write either."""
    said: list[object] = []

    assert read_extension({"timeout": given}, AGENT_KEYS, "agent 'a'", {}, said.append).timeout == seconds
    assert said == []


def test_an_unknown_key_is_a_warning() -> None:
    """The file runs; the key points at what was meant."""
    text = extension(own="comand: [x]  backend: scripted")

    assert sayings(text) == ["warning[unknown-key] [x]: 'comand' has no meaning in the coterie extension of agent 'a'"]
    assert found(text)[0].hint == "did you mean 'command'?"


def test_each_kind_of_node_has_its_keys() -> None:
    """An action thinks nothing, and a human runs nowhere."""
    blocks = (
        '  action x { commands: ["true"]  extensions { coterie { cwd: "sub"  backend: human } } }\n'
        "  human y { description: ok  extensions { coterie { timeout: 3s  cwd: sub } } }\n"
        "  extensions { coterie { topology: x } }"
    )
    said = [each.message for each in found(team("a -> x -> y", blocks))]

    assert sorted(said) == [
        "'backend' has no meaning in the coterie extension of action 'x'",
        "'cwd' has no meaning in the coterie extension of human 'y'",
        "'topology' has no meaning in the coterie extension of the topology",
    ]

import pytest
from bundles import bundle
from planned import extension, found, planned, sayings, team

OTHER = 'command: ["other"]'


@bundle(
    ("own", "backend", "default", "thinker", "argv"),
    [
        ("", None, "", "", ()),
        ("", None, "backend: scripted", "scripted", ()),
        ("", None, OTHER, "command", ("other",)),
        ("", None, "backend: command " + OTHER, "command", ("other",)),
        ("", "human", "", "human", ()),
        ("", "human", "backend: scripted", "human", ()),
        ("", "human", OTHER, "human", ()),
        ("", "command", OTHER, "command", ("other",)),
        ("backend: scripted", None, "", "scripted", ()),
        ("backend: scripted", "human", "", "scripted", ()),
        ("backend: scripted", "human", OTHER, "scripted", ()),
        ('command: ["own", "x"]', None, "", "command", ("own", "x")),
        ('command: ["own", "x"]', "human", OTHER, "command", ("own", "x")),
        ('backend: command command: ["own"]', "human", "", "command", ("own",)),
        ("backend: command", "human", OTHER, "command", ("other",)),
        ("timeout: 3s", "human", "backend: scripted", "human", ()),
    ],
)
def test_the_agent_comes_first_then_the_run_then_the_topology(
    own: str, backend: str | None, default: str, thinker: str, argv: tuple[str, ...]
) -> None:
    """Whoever is named first in that order thinks; with nobody named the plan leaves it open."""
    agent = planned(extension(own=own, default=default), backend=backend).agents["a"]

    assert (agent.backend, agent.argv) == (thinker, argv)


def test_an_agent_whose_backend_is_a_human_is_one() -> None:
    """It is waited for like a human node, so the topology's time-out, meant for programs, is not its own."""
    text = extension(own="backend: human", default=f"{OTHER} timeout: 30s")
    agent = planned(text).agents["a"]

    assert (agent.kind, agent.timeout) == ("human", None)
    assert planned(extension(own="backend: human timeout: 1h")).agents["a"].timeout == 3600.0
    assert planned(text).agents["b"].timeout == 30.0


def test_a_run_is_told_of_a_backend_that_does_not_exist() -> None:
    """With what was probably meant."""
    (said,) = found(team("a -> b"), backend="comand")

    assert (said.code, said.message, said.hint) == (
        "unknown-backend",
        "unknown backend 'comand'",
        "did you mean 'command'?",
    )


def test_a_file_is_told_of_a_backend_that_does_not_exist() -> None:
    """Where it names it."""
    assert sayings(extension(own="backend: clod")) == [
        "error[unknown-backend] clod: 'backend' of agent 'a' must be a backend, not 'clod'"
    ]
    assert (
        found(extension(own="backend: clod"))[0].hint
        == "known backends: acp, claude-sdk, command, human, model, pi, scripted"
    )


@pytest.mark.parametrize(("own", "backend"), [("backend: command", None), ("", "command")])
def test_a_command_backend_needs_a_command(own: str, backend: str | None) -> None:
    """The agent's own, or the topology's."""
    said = found(extension(own=own), backend=backend)

    assert said[0].code == "no-command"
    assert said[0].message == "agent 'a' has backend 'command', but no command"


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (f"backend: human {OTHER}", "agent 'a' has two backends: 'command' and 'backend: human'"),
        (f'topology: "x.at" {OTHER}', "agent 'a' has two backends: 'command' and 'topology'"),
        ('topology: "x.at" backend: human', "agent 'a' has two backends: 'backend' and 'topology'"),
    ],
)
def test_two_thinkers_are_one_too_many(own: str, message: str) -> None:
    """`command` together with `backend: command` is one."""
    assert message in [each.message for each in found(extension(own=own)) if each.code == "two-thinkers"]


def test_options_and_the_way_of_the_prompt_belong_to_a_backend() -> None:
    """An agent with another one does not inherit them; its own are laid over those it inherits."""
    default = f'{OTHER} prompt-via: file options {{ depth: 1 tone: "dry" }}'

    same = planned(extension(own="options { depth: 2 }", default=default)).agents["a"]
    assert (same.prompt_via, same.options) == ("file", {"depth": 2, "tone": "dry"})
    other = planned(extension(own="backend: scripted", default=default)).agents["a"]
    assert (other.prompt_via, other.options) == ("stdin", {})


def test_env_is_laid_over_the_topologys_and_the_rest_replaces_it() -> None:
    """Whoever thinks."""
    default = 'cwd: "all" timeout: 9s on-interrupt: ask env { A: "1" B: "1" }'

    own = planned(extension(own='cwd: "mine" timeout: 3s on-interrupt: resume env { B: "2" }', default=default)).agents
    assert own["a"].env == {"A": "1", "B": "2"}
    assert (own["a"].cwd, own["a"].timeout, own["a"].on_interrupt) == ("mine", 3.0, "resume")
    assert own["b"].env == {"A": "1", "B": "1"}
    assert (own["b"].cwd, own["b"].timeout, own["b"].on_interrupt) == ("all", 9.0, "ask")


def test_a_time_out_comes_from_the_extension_then_the_field_then_the_topology() -> None:
    """In that order."""
    text = team(
        "a -> b -> c",
        "  extensions { coterie { timeout: 9s } }",
        a="model: m timeout: 5s extensions { coterie { timeout: 3s } }",
        b="model: m timeout: 5s",
    )

    assert [agent.timeout for agent in planned(text).agents.values()] == [3.0, 5.0, 9.0]

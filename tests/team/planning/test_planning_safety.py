"""What a file says about safety is enforced, or warned about."""

import pytest
from planned import found, planned, sayings, team, topology

from coterie.team.planning import plan

PROGRAM = 'extensions { coterie { command: ["true"] } }'


def warnings(text: str) -> list[str]:
    return [each.message for each in found(text) if each.code == "not-enforced"]


def test_what_a_program_does_not_enforce_is_one_warning_for_all_agents() -> None:
    """For agents and for `settings`, at the first that says it."""
    text = team(
        "a -> b -> c -> d",
        '  settings { deny: ["Bash(rm *)"] }',
        a=f"model: m  tools: [Read]  {PROGRAM}",
        b=f"model: m  tools: []  {PROGRAM}",
        c=f"model: m  permissions: plan  disallowed-tools: [Bash]  {PROGRAM}",
        d=f"model: m  {PROGRAM}",
    )

    assert sayings(text) == [
        "warning[not-enforced] [Read]: the backend 'command' of agents 'a' and 'b' does not enforce 'tools'",
        "warning[not-enforced] [Bash]: the backend 'command' of agent 'c' does not enforce "
        "'disallowed-tools' and 'permissions'",
        "warning[not-enforced] [\"Bash(rm *)\"]: the backend 'command' of agents 'a', 'b', 'c' and 'd' does not "
        "enforce 'deny' of 'settings'",
    ]


@pytest.mark.parametrize("backend", [None, "scripted"])
def test_without_a_backend_that_acts_nothing_is_warned_about(backend: str | None) -> None:
    """The team is only checked, or rehearsed."""
    text = team("a -> b", '  settings { deny: ["Bash"] }', a="model: m  tools: [Read]  permissions: plan")

    assert found(text, backend=backend) == []


def test_people_and_teams_do_not_enforce_tools_either() -> None:
    """A team has its own file, and a person is free."""
    text = team("a -> b", "", a="model: m  tools: [Read]  extensions { coterie { backend: human } }")

    assert warnings(text) == ["the backend 'human' of agent 'a' does not enforce 'tools'"]


def test_a_rule_that_asks_refuses() -> None:
    """No model can request approval, so a call that needs it never happens."""
    text = team(
        "a -> b",
        '  settings { ask: ["Write(docs/**)", "Bash(git push)"] }\n  extensions { coterie { backend: model } }',
        a="model: sonnet  tools: [Read, Write]",
        b="model: opus",
    )

    assert warnings(text) == [
        "calls that match 'Write(docs/**)' in 'ask' of 'settings' are refused: no model can request approval"
    ]


@pytest.mark.parametrize(("value", "said"), [("docker", 1), ("true", 1), ("false", 0), ("none", 0)])
def test_no_backend_has_a_sandbox(value: str, said: int) -> None:
    """Whoever asks for one learns it before the run."""
    text = team("a -> b", f"  settings {{ sandbox: {value} }}", a=f"model: m  sandbox: {value}")

    assert len(warnings(text)) == 2 * said


def test_variables_of_the_file_are_given_to_every_process() -> None:
    """The extensions come first; a value that refers to the environment is filled in when a process starts."""
    text = team(
        "a -> b",
        '  env { MODE: fast  LEVEL: "${LOG_LEVEL}"  WHERE: here }\n'
        '  extensions { coterie { command: ["true"]  env { WHERE: there } } }',
        a="model: m",
        b="model: m  extensions { coterie { env { LEVEL: high } } }",
    )
    agents = planned(text).agents

    assert agents["a"].env == {"MODE": "fast", "WHERE": "there"}
    assert agents["a"].env_from == {"LEVEL": "${LOG_LEVEL}"}
    assert agents["b"].env == {"MODE": "fast", "WHERE": "there", "LEVEL": "high"}
    assert agents["b"].env_from == {}


def test_variables_that_cannot_be_read_are_warned_about_without_their_line() -> None:
    """It may contain a secret."""
    text = team("a -> b", '  env { TOKEN: secret "vault://t"  HOOK: sensitive "${HOOK_URL}"  KEY: sensitive "${K}" }')
    said = [each for each in found(text) if each.code == "not-enforced"]

    assert [each.message for each in said] == [
        "'TOKEN' of 'env' is not set: 'secret' values cannot be read yet",
        "'HOOK' of 'env' is not redacted: only values of names such as HOOK_KEY are",
    ]
    assert all(each.secret for each in said)
    made, _ = plan(topology(text))
    assert made is not None
    assert made.agents["a"].env == {}
    assert made.agents["a"].env_from == {"HOOK": "${HOOK_URL}", "KEY": "${K}"}

import pytest
from teams import checked, codes, findings, letters, mended, team

pytestmark = pytest.mark.once


def test_a_team_without_faults_is_not_commented() -> None:
    """The page's full example gives nothing to say."""
    text = """topology code-review : [pipeline, fan-out] {
  agent planner    { model: sonnet  tools: [Read, Grep] }
  agent analyzer   { model: sonnet  tools: [Read, Grep] }
  agent security   { model: opus    tools: [Read, Grep] }
  agent writer     { model: sonnet  tools: [Read, Write] }
  agent reviewer   { model: opus    tools: [Read] }
  flow {
    planner -> [analyzer, security]
    [analyzer, security] -> writer -> reviewer
    reviewer -> writer  [when reviewer.verdict == "revise", max 2]
  }
}"""

    assert checked(text) == []


def test_an_undeclared_name_is_one_fault() -> None:
    """It is reported where it stands first, and nothing that follows from it is reported as well."""
    text = team("writer -> reviwer -> writer\nreviwer -> done\n[writer, reviwer] -> done", "writer\nreviewer\ndone")

    assert findings(text) == ["error[unknown-agent] reviwer: the flow names 'reviwer', which is not declared"]
    assert checked(text)[0].hint == "did you mean 'reviewer'?"


def test_a_name_only_a_condition_reads_is_declared_too() -> None:
    """The caret stands under the name, not the whole condition."""
    assert findings(letters('a -> b [when ghost.verdict == "x"]')) == [
        "error[unknown-agent] ghost: the flow names 'ghost', which is not declared"
    ]


def test_an_unknown_name_without_a_likeness_says_how_to_declare_it() -> None:
    """A hint always says what to do."""
    (found,) = checked(letters("a -> b -> done"))

    assert found.hint == "declare it: agent done { model: … }"


def test_a_name_stands_for_one_thing() -> None:
    """Agents, actions, gates, humans and groups share their names; the second is at fault."""
    text = letters("a -> b", blocks="  action a { kind: inline }")

    assert findings(text) == ["error[duplicate-name] a: 'a' is declared twice"]
    assert checked(text)[0].hint == "agent 'a' (line 2) has this name: choose another"


@pytest.mark.parametrize("scope", ["run", "phase", "a"])
def test_a_scope_is_run_phase_or_an_agent(scope: str) -> None:
    """`per` takes all three."""
    assert codes(letters(f"a -> b -> c\nc -> b [when c.v == x, max 2, per {scope}]")) == []


def test_another_scope_is_an_error() -> None:
    """It points at the scope; that the arrow has no `max` is not said as well."""
    assert findings(letters("a -> b [per ticket]")) == [
        "error[unknown-scope] ticket: 'per ticket': 'ticket' is not declared"
    ]
    assert checked(letters("a -> b [max 2, per phse]"))[0].hint == "did you mean 'phase'?"


def test_the_fallback_of_an_agent_is_declared() -> None:
    """The caret stands under its name."""
    assert findings(letters("a -> b", a="on-fail: fallback spare")) == [
        "error[unknown-agent] spare: agent 'a' falls back on 'spare', which is not declared"
    ]


def test_the_fallback_of_a_human_is_declared() -> None:
    """`on-timeout` names somebody too."""
    text = team("a -> ask", "a", blocks="  human ask { description: ok  on-timeout: fallback gost }")

    assert findings(text) == ["error[unknown-agent] gost: human 'ask' falls back on 'gost', which is not declared"]


def test_nobody_falls_back_on_itself() -> None:
    """That would be a retry."""
    assert findings(letters("a -> b", a="on-fail: fallback a")) == [
        "error[fallback-to-itself] a: agent 'a' falls back on itself"
    ]


def test_members_of_a_group_are_declared() -> None:
    """And a member need not be in the flow."""
    text = team("a -> panel", "a\nm", blocks="  group panel { members: [m, n] }")

    assert findings(text) == ["error[unknown-agent] n: group 'panel' has the member 'n', which is not declared"]


@pytest.mark.parametrize(("after", "before", "where"), [("x", "b", "after 'x'"), ("a", "x", "before 'x'")])
def test_a_gate_stands_between_declared_nodes(after: str, before: str, where: str) -> None:
    """An undeclared place is one fault: the arrow is not missing as well."""
    gate = f"  gates {{ gate g {{ after: {after}  before: {before}  run: check }} }}"

    assert findings(letters("a -> b", blocks=gate)) == [
        f"error[unknown-agent] x: gate 'g' comes {where}, which is not declared"
    ]


def test_a_role_is_described() -> None:
    """A role that the file does not describe would say nothing to the agent."""
    text = team("a -> b", "a role: criticc\nb role: critic", blocks='  roles { critic: "Find faults" }')

    assert findings(text) == ["warning[unknown-role] criticc: agent 'a' has the role 'criticc', which is not described"]
    assert checked(text)[0].hint == "did you mean 'critic'?"


def test_what_the_flow_never_names_is_reported() -> None:
    """Agents, actions and humans; not gates, which stand on arrows."""
    blocks = "  action tidy { kind: inline }\n  human boss { description: ok }"

    assert findings(team("a -> b", "a\nb\nc", blocks=blocks)) == [
        "warning[unused-agent] c: agent 'c' is declared but not in the flow",
        "warning[unused-agent] tidy: action 'tidy' is declared but not in the flow",
        "warning[unused-agent] boss: human 'boss' is declared but not in the flow",
    ]


@pytest.mark.parametrize(
    "agents",
    ["a\nb\nc invocation: manual", "a on-fail: fallback c\nb\nc"],
    ids=["manual", "fallback"],
)
def test_what_is_called_otherwise_need_not_be_in_the_flow(agents: str) -> None:
    """By hand, or in somebody's place."""
    assert codes(team("a -> b", agents)) == []


def test_what_the_orchestrator_handles_need_not_be_in_the_flow() -> None:
    """It is called by the orchestrator."""
    blocks = "  orchestrator { model: m  handles: [tidy] }\n  action tidy { kind: inline }"

    assert codes(team("a -> b", "a\nb", blocks=blocks)) == []


def test_without_a_flow_nothing_is_unused() -> None:
    """Then agents just message each other."""
    assert codes("topology t : [debate] {\n  agent a { model: m }\n}\n") == []


@pytest.mark.parametrize("written", ["criticc", '"criticc"'])
def test_the_fix_of_a_name_keeps_its_quotes(written: str) -> None:
    """After it nothing is left to say."""
    text = letters("a -> b", a=f"role: {written}", blocks='  roles { critic: "You doubt." }')
    (found,) = checked(text)

    assert checked(mended(text, found.fix)) == []
    assert f"role: {written.replace('cc', 'c')}" in mended(text, found.fix)

import subprocess
import sys
from pathlib import Path

import pytest
from planned import arrows, found, planned, sayings, team, topology

from coterie.team import formats
from coterie.team.formats.at.language import LANGUAGE
from coterie.team.planning import not_executed, plan, plan_or_raise
from coterie.team.planning.plan import AgentPlan, Plan, Wanted, from_json, to_json
from coterie.team.topology.model import Agent, ArrowGroup, Flow, Topology

DATA = Path(__file__).parents[2] / "data" / "at" / "valid"


def test_an_agent_is_planned_with_every_default() -> None:
    """What the file does not say is decided here."""
    agent = planned(team("a -> b")).agents["a"]

    assert (agent.kind, agent.backend, agent.model) == ("agent", "", "m")
    assert (agent.retry, agent.on_fail, agent.on_interrupt, agent.timeout) == (0, "halt", "retry", None)
    assert (agent.tools, agent.outputs, agent.prompt_via) == (None, (), "stdin")


def test_what_the_file_says_is_taken_over() -> None:
    """Field by field."""
    fields = (
        'model: opus description: "Writes" prompt: "Write." tools: [] reads: [b, "notes.md"] timeout: 2m retry: 3 '
        "on-fail: fallback c phase: 1.5"
    )
    plan_ = planned(
        team("a -> b", a=fields, c="model: m on-fail: fallback d", d="model: m", e="model: m invocation: manual")
    )
    agent = plan_.agents["a"]

    assert (agent.model, agent.description, agent.prompt) == ("opus", "Writes", "Write.")
    assert (agent.tools, agent.reads) == ((), ("b", "notes.md"))
    assert (agent.timeout, agent.retry, agent.phase) == (120.0, 3, 1.5)
    assert (agent.on_fail, agent.fallback) == ("fallback", "c")
    assert list(plan_.agents) == ["a", "b", "c", "d"]


def test_every_constant_of_an_undeclared_output_is_requested() -> None:
    """Those that only Python considers equal are different answers."""
    agent = planned(team("a -> b [when a.v == 1]  a -> c [when a.v == true]  a -> b [when a.v == 1]")).agents["a"]

    assert [(value, type(value)) for wanted in agent.outputs for value in wanted.values] == [(1, int), (True, bool)]


def test_a_flow_of_one_agent_starts_there() -> None:
    """A name alone is a node without arrows; beside arrows it starts with the run."""
    for flow, starts in (("a", ("a",)), ("a -> b\nc", ("a", "c")), ("a -> b\nb", ("a",))):
        made, _ = plan(topology(team(flow)))
        assert made is not None
        assert made.flow is not None
        assert made.flow.entries == starts
        assert set(made.agents) == set(made.flow.mentions)


def test_conditions_spell_an_output_as_it_is_declared_or_first_read() -> None:
    """Names ignore case, so `b.Verdict` and `b.verdict` are one output, and `a.Mood` is the declared one."""
    text = team(
        "a -> b [when a.Mood == good]  b -> a [when b.Verdict == revise, max 2]  b -> c [when b.verdict == approve]",
        a="model: m outputs { mood: good | bad }",
    )
    plan_ = planned(text)

    assert plan_.flow is not None
    assert [group.when.field for group in plan_.flow.groups if group.when] == ["mood", "Verdict", "Verdict"]
    assert [wanted.name for wanted in (*plan_.agents["a"].outputs, *plan_.agents["b"].outputs)] == ["mood", "Verdict"]


def test_outputs_are_wanted_and_what_conditions_read_as_well() -> None:
    """A field that nobody declares is untyped, and is shown what conditions compare it with."""
    text = team(
        'a -> b  b -> a [when b.verdict == "revise", max 2]  b -> c [when b.verdict == approve]  b -> d [when b.n > 1]',
        a="model: m outputs { score: number  mood: good | bad }",
    )
    agents = planned(text).agents

    assert agents["a"].outputs == (
        Wanted(name="score", type="number"),
        Wanted(name="mood", type="enum", values=("good", "bad")),
    )
    assert agents["b"].outputs == (
        Wanted(name="verdict", values=("revise", "approve"), declared=False, needed=True),
        Wanted(name="n", values=(1,), declared=False, needed=True),
    )


def test_a_human_is_asked_and_may_take_too_long() -> None:
    """`on-timeout` is what happens when an answer does not come; no backend of the run answers for it."""
    blocks = '  human y { description: "Ship it?"  timeout: 1h  on-timeout: fallback b  outputs { ok: boolean } }'
    agent = planned(team("a -> y", blocks, b="model: m"), backend="scripted").agents["y"]

    assert (agent.kind, agent.backend, agent.prompt) == ("human", "human", "Ship it?")
    assert (agent.timeout, agent.on_fail, agent.fallback) == (3600.0, "fallback", "b")
    assert agent.outputs == (Wanted(name="ok", type="boolean"),)


def test_an_orchestrator_is_an_agent() -> None:
    """A flow may lead to it."""
    agent = planned(team("a -> orchestrator", "  orchestrator { model: opus }")).agents["orchestrator"]

    assert (agent.kind, agent.model) == ("agent", "opus")


def test_a_flow_through_a_group_cannot_be_run() -> None:
    """The file is valid all the same: this is said when it is planned."""
    text = team("a -> panel -> b", "  group panel { members: [a, b] }")

    assert sayings(text) == [
        "error[cannot-run-group] panel: the flow leads through group 'panel', which cannot run yet"
    ]


def test_a_topology_without_a_flow_cannot_be_run() -> None:
    """There is nothing to run."""
    (said,) = found("topology idle : [debate] {\n  agent a { model: m }\n}\n")

    assert (said.code, said.message) == ("no-flow", "'idle' has no flow, so there is nothing to run")


def test_what_fails_the_checks_gets_no_plan() -> None:
    """A topology made in Python is held to the same rules; `plan_or_raise` raises what was found."""
    flow = Flow(groups=(ArrowGroup(source="a", targets=("ghost",)),), mentions=("a", "ghost"))
    wrong = Topology(name="t", nodes=(Agent(name="a", model="m"),), flow=flow)

    made, (said,) = plan(wrong)
    assert made is None
    assert said.code == "unknown-agent"
    with pytest.raises(Exception, match="the flow names 'ghost'"):
        plan_or_raise(wrong)


def test_a_conditional_way_back_is_bounded_in_the_plan() -> None:
    """Whoever reads the plan need not know how."""
    assert arrows(planned(team("a -> b -> c  c -> b [when c.v == x]")))[2] == 'c -> b when c.v == "x" max 10'


NOTED = """topology t : [pipeline, fan-out] {
  memory { store s { path: "x" } }
  agent a { model: m  scale { mode: auto }  temperature: 0.2  writes: ["out.md"] }
  agent b { model: m  nonsense: 3 }
  agent c { model: m }
  gates { gate g { after: b before: c run: x checks: [style] } }
  flow {
    a -> [b, c]  [race]
    b -> c  [wait 30s]
  }
}
"""


def test_what_is_kept_and_not_executed_is_noted() -> None:
    """On arrows and nodes; a field that nobody knows was reported by the reader."""
    said = not_executed(topology(NOTED))

    assert [(each.severity.value, each.code, each.message) for each in said] == [
        ("note", "not-executed", "'s' of 'memory' is kept but has no effect yet"),
        ("note", "not-executed", "'race' on a -> [b, c] is kept but has no effect yet"),
        ("note", "not-executed", "'wait' on b -> c is kept but has no effect yet"),
        ("note", "not-executed", "'writes' and 'scale' of agent 'a' are kept but have no effect yet"),
        ("note", "not-executed", "'checks' of gate 'g' is kept but has no effect yet"),
    ]


SAID = """topology t : [pipeline] {
  meta { version: "1.0.0"  timeout: 5m }
  extensions { coterie { backend: model  on-interrupt: resume } }
  agent a { model: m  retry { max: 2 backoff: linear }  extensions { coterie { on-interrupt: adopt }  other { x: 1 } } }
  agent b { model: m  extensions { coterie { on-interrupt: ask } } }
  action c { source: "tracker"  commands: ["true"] }
  flow { a -> b -> c }
}
"""


def test_what_has_effect_in_part_is_noted_in_that_part() -> None:
    """Neither a count of retries nor a policy that holds is called idle; a wish that the backend cannot fulfil is."""
    said = not_executed(topology(SAID))

    assert [each.message for each in said] == [
        "'timeout' of 'meta' is kept but has no effect yet",
        "'on-interrupt: adopt' of agent 'a' counts as 'retry': only commands support it",
        "'retry.backoff' and 'extensions.other' of agent 'a' are kept but have no effect yet",
        "'source' of action 'c' is kept but has no effect yet",
    ]
    assert [each.span.line for each in said if each.span is not None] == [2, 4, 4, 6]


def test_defaults_give_agents_their_time_out() -> None:
    """Where nobody says anything else; people have none but their own."""
    blocks = "  defaults { timeout: 10m }  action c { }"
    person = "model: m  extensions { coterie { backend: human } }"
    agents = planned(team("a -> b -> c -> d", blocks, a="model: m", b="model: m  timeout: 1m", d=person)).agents

    assert [agents[name].timeout for name in "abcd"] == [600.0, 60.0, None, None]


def test_what_is_meant_for_models_is_noted_where_none_is_asked() -> None:
    """A program has no temperature; who is still open may yet be a model."""
    open_, taken = (
        "model: m  temperature: 0.2",
        'temperature: 0.2  seed: 3  extensions { coterie { command: ["true"] } }',
    )
    team_ = topology(team("a -> b", a=open_, b=taken))
    plan_, _ = plan(team_)

    assert [each.message for each in not_executed(team_, plan_)] == [
        "'temperature' and 'seed' of agent 'b' mean something to models, and its backend is 'command'"
    ]


@pytest.mark.parametrize("file", ["every-field.at", "every-block.at"])
def test_what_has_no_effect_is_noted(file: str) -> None:
    """Every field of the notation that is not executed, wherever a file says it."""
    said = " ".join(each.message for each in not_executed(formats.read(DATA / file).topology or Topology(name="")))

    for block in LANGUAGE:
        if file == "every-block.at" and block.name != "group" and not block.executed:
            assert f"{block.name!r} " in said
        elif file == "every-field.at" and block.name in ("agent", "orchestrator", "action", "group", "gate"):
            idle = {field.name for field in block.fields if not field.executed}
            assert {name for name in idle if repr(name) not in said} == set()


def test_a_plan_carries_its_notes() -> None:
    """The blocks that were kept whole among them."""
    assert planned(NOTED).notes[:2] == (
        "'s' of 'memory' is kept but has no effect yet",
        "'race' on a -> [b, c] is kept but has no effect yet",
    )


RICH = team(
    'a -> [b, c]\n[b, c] -> d  d -> a [when d.verdict == "revise", max 2]  d -> e [when d.verdict == approve]',
    '  gates { gate g { after: a before: b run: "check.sh" on-fail: bounce-back retry: 2 } }\n'
    '  roles { a: "Lead" }\n  extensions { coterie { env { A: "1" B: "2" } options { x: 1 y: { z: [1, 2] } } } }',
    a='model: m prompt: "a.md" tools: [Read, Grep]',
    e='extensions { coterie { topology: "inner.at" } }',
)


def rich(folder: Path) -> Path:
    folder.mkdir()
    (folder / "team.at").write_text(RICH)
    (folder / "a.md").write_text("Think.")
    (folder / "check.sh").write_text("exit 0")
    (folder / "inner.at").write_text(team("x -> y"))
    return folder / "team.at"


HASHES = """
import sys
from pathlib import Path
from coterie.team import formats
from coterie.team.planning import plan_or_raise
for file in sys.argv[1:]:
    source = formats.read(Path(file))
    assert not source.has_errors
    print(plan_or_raise(source.topology).content_hash())
"""


def test_the_hash_is_the_same_in_every_process_and_place(tmp_path: Path) -> None:
    """Neither the seed of Python's hashes nor the folder counts; what a file says does."""
    files = [rich(tmp_path / "one"), rich(tmp_path / "two")]
    hashes = set[str]()
    for seed in ("0", "1", "77"):
        command = [sys.executable, "-c", HASHES, *map(str, files)]
        done = subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        hashes.update(done.stdout.split())

    assert len(hashes) == 1
    (files[0].parent / "a.md").write_text("Think again.")
    assert planned(RICH, files[0].parent).content_hash() not in hashes


PINNED = {
    "code-review.at": "d2bf6a3ade03e45d",
    "nested/release.at": "79f04190f4b4bd5a",
    "patterns/compound.pattern.yaml": "3c8e0df68eedd824",
    "shop/topology.yaml": "7cc532b8ed7d41df",
}
"""Plans of examples, each by the beginning of its hash."""


@pytest.mark.parametrize("file", PINNED)
def test_the_hash_of_a_file_stays(file: str) -> None:
    """Runs compare it with the one in their journal, so neither the order nor the names of fields may change it."""
    source = formats.read(Path(__file__).parents[3] / "examples" / file)
    assert source.topology is not None

    assert plan_or_raise(source.topology).content_hash()[:16] == PINNED[file]


def test_a_plan_can_be_written_down_and_read_again(tmp_path: Path) -> None:
    """As a journal does."""
    made = planned(RICH, rich(tmp_path / "one").parent)
    again: Plan = from_json(to_json(made))

    assert again == made
    assert again.content_hash() == made.content_hash()


def test_the_names_in_a_schema_keep_their_order_and_do_not_change_the_hash() -> None:
    """Prompts show the schema: a resumed run asks as before, and a reader sees what was sent."""

    def planned_with(*names: str) -> Plan:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        return Plan(name="t", agents={"a": AgentPlan(name="a", outputs=(Wanted(name="x", schema=schema),))})

    made, other = planned_with("why", "answer"), planned_with("answer", "why")
    again = from_json(to_json(made))
    assert again == made
    assert str(again.agents["a"].outputs) == str(made.agents["a"].outputs)
    assert made.content_hash() == other.content_hash()


def test_spans_do_not_travel() -> None:
    """A plan says nothing of lines and columns, so moving a line does not change it."""
    text = team("a -> b")

    assert planned(text).content_hash() == planned("\n\n" + text).content_hash()

"""Verdicts on flows that people write: the examples, the worked runs, and one file for each kind of finding."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from replayed import replay

from coterie.base.diagnostics import Severity
from coterie.execution.runs.rehearsal import rehearse
from coterie.proofs import Finding, Prices, Report, check
from coterie.team import formats
from coterie.team.planning import plan_or_raise
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import Topology

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
VERDICT = "model: m  outputs: { verdict: approve | revise }"


def team(flow: str, blocks: str = "", **agents: str) -> str:
    """A file with *flow*; *agents* have the fields given, every other one-letter name has a model."""
    names = set(re.findall(r"(?<![\w.-])[a-z](?![\w-])", flow))
    taken = set(re.findall(r"(?:gate|human|action) ([a-z])\b", blocks))
    declared = dict.fromkeys(sorted(names - taken), "model: m") | agents
    lines = [f"  agent {name} {{ {fields} }}" for name, fields in declared.items()]
    return "\n".join(["topology t : [pipeline, fan-out] {", *lines, blocks, f"  flow {{ {flow} }}", "}"])


def read(text: str, folder: Path | None = None) -> tuple[Topology, Plan]:
    source = formats.read_text(text, str(folder / "team.at") if folder else "", folder)
    assert source.topology is not None
    assert not source.has_errors, [each.render(source.text) for each in source.diagnostics]
    return source.topology, plan_or_raise(source.topology)


def proved(flow: str, blocks: str = "", **agents: str) -> tuple[Plan, Report]:
    topology, plan = read(team(flow, blocks, **agents))
    return plan, check(plan, topology=topology)


def said(report: Report, *, notes: bool = False) -> list[str]:
    return [
        f"{finding.code}: {finding.message}"
        for finding in report.findings
        if notes or finding.severity is not Severity.NOTE
    ]


def one(report: Report, code: str) -> Finding:
    (found,) = [finding for finding in report.findings if finding.code == code]
    return found


def worst(report: Report) -> tuple[int, dict[str, int]]:
    assert report.method == "exact"
    assert report.worst is not None
    return report.worst.turns, report.worst.agents


def best(report: Report) -> int:
    assert report.best is not None
    return report.best.turns


@pytest.mark.parametrize(
    ("file", "turns", "agents", "fewest", "codes"),
    [
        (
            "code-review.at",
            9,
            {"planner": 1, "analyzer": 1, "security": 1, "writer": 3, "reviewer": 3},
            5,
            ["spent"],
        ),
        ("human-gate.at", 9, {"writer": 4, "editor": 4, "publisher": 1}, 2, ["ends-early", "path-ends", "spent"]),
        ("nested/polish.at", 8, {"editor": 4, "critic": 4}, 2, ["spent"]),
        ("nested/release.at", 10, {"drafter": 1, "check/editor": 4, "check/critic": 4, "announcer": 1}, 4, []),
    ],
)
def test_the_examples(file: str, turns: int, agents: dict[str, int], fewest: int, codes: list[str]) -> None:
    """Golden verdicts; the page's full example is code-review."""
    source = formats.read(ROOT / "examples" / file)
    assert source.topology is not None
    plan = plan_or_raise(source.topology)
    report = check(plan, topology=source.topology)

    assert report.ends
    assert worst(report) == (turns, agents)
    assert best(report) == fewest
    assert [finding.code for finding in report.findings] == codes
    for case in (report.worst, report.best):
        assert case is not None
        assert replay(plan, case.script)[1][""] == case.turns


def test_trace_e7_a_spent_loop_forces_the_way_forward() -> None:
    """8 turns at worst: three rounds and p, which runs although nobody approved."""
    flow = "a -> w -> r  r -> w [when r.verdict == revise, max 2]  r -> p [when r.verdict == approve]"
    plan, report = proved(flow, r=VERDICT)

    assert worst(report) == (8, {"a": 1, "w": 3, "r": 3, "p": 1})
    assert best(report) == 4
    spent = one(report, "spent")
    assert spent.message.endswith('r -> p [when r.verdict == "approve"] fires whatever its condition says')
    assert spent.script == {"r": [{"outputs": {"verdict": "revise"}}]}
    document, _ = replay(plan, spent.script)
    assert document["turns"][-2]["exhausted"] == [["r", ["w"]]]
    assert document["turns"][-2]["forced"] == ["r", ["p"]]


def test_trace_e8_a_spent_loop_without_a_way_forward() -> None:
    """Four rounds, then the path ends."""
    _, report = proved("w -> r  r -> w [when r.verdict == revise, max 3]", r=VERDICT)

    assert worst(report) == (8, {"w": 4, "r": 4})
    assert one(report, "spent").message.endswith("the path ends: there is no way forward")


NESTED = """
  a -> b
  b -> a [when b.verdict == revise, max 1{scope}]
  b -> c [when b.verdict == approve]
  c -> a [when c.verdict == revise, max 1]
  c -> d [when c.verdict == approve]
"""


def test_trace_e10_nested_loops_counted_per_run() -> None:
    """The inner bound is spent once and for all: 3 rounds of a and b."""
    _, report = proved(NESTED.format(scope=""), b=VERDICT, c=VERDICT)

    assert worst(report) == (9, {"a": 3, "b": 3, "c": 2, "d": 1})


def test_trace_e11_nested_loops_counted_per_phase() -> None:
    """The inner counter is fresh in each round of the outer loop: 4 rounds, not 3."""
    phases = {
        "a": "model: m  phase: 1",
        "b": f"{VERDICT}  phase: 1",
        "c": f"{VERDICT}  phase: 2",
        "d": "model: m  phase: 3",
    }
    plan, report = proved(NESTED.format(scope=", per phase"), **phases)

    assert worst(report) == (11, {"a": 4, "b": 4, "c": 2, "d": 1})
    assert report.worst is not None
    assert replay(plan, report.worst.script)[1][""] == 11


def test_a_loop_that_counts_anew_in_every_round_does_not_end() -> None:
    """The count of b -> b is made new by a, which stands in for b whenever it fails: no check of the file sees that."""
    plan, report = proved("a -> b  b -> b [max 2, per a]", b="model: m  on-fail: fallback a")

    assert (report.ends, report.worst, report.best, report.has_errors) == (False, None, None, True)
    (found,) = report.findings
    assert found.code == "endless"
    document = rehearse(plan, {"prompt": "go"}, found.script, Limits(max_turns=200, max_parallel=None))
    assert (document["outcome"], len(document["turns"])) == ("stopped", 200)


def test_a_human_may_grant_rounds_without_end() -> None:
    """The numbers hold without; what can happen is told of all rounds."""
    flow = "w -> r  r -> w [when r.verdict == revise, max 1, on-max human]  r -> p [when r.verdict == approve]"
    plan, report = proved(flow, r=VERDICT)

    assert not report.ends
    assert worst(report) == (6, {"w": 2, "r": 2, "p": 1, "on-max:r": 1})
    assert said(report)[0].startswith("rounds-without-end: a human may grant 'r' further rounds without end")
    assert report.worst is not None
    assert replay(plan, report.worst.script)[1]["on-max:r"] == 1


def test_what_never_runs_and_what_never_holds() -> None:
    """One fault, one finding: a condition that cannot hold is told, and what only it leads to."""
    flow = "a -> b [when a.n > 3]  a -> c [when a.n < 3]  b -> d [when a.n < 2]  c -> e [when z.v == yes]"
    _, report = proved(flow, a="model: m  outputs: { n: integer }", z="model: m")

    assert said(report) == [
        "never-runs: 'd' can never run: no arrow into it ever fires",
        "never-runs: 'e' can never run: no arrow into it ever fires",
        "never-holds: the condition of b -> d [when a.n < 2] can never hold: 'a' never answers so before 'b' ends",
        "never-holds: the condition of c -> e [when z.v == \"yes\"] can never hold: 'z' is not in the flow",
        "ends-early: the run can complete without 'b' or 'c' having run",
    ]


def test_a_condition_that_is_read_before_its_agent_answered() -> None:
    """c may end before b: then what b says comes too late, and the script lets b take longer."""
    plan, report = proved("a -> [b, c]  c -> d [when b.verdict == approve]  b -> e", b=VERDICT)
    found = one(report, "read-too-early")

    assert found.message == (
        "c -> d [when b.verdict == \"approve\"] can be judged before 'b' has answered: then it does not fire"
    )
    document, _ = replay(plan, found.script)
    assert "d" in document["never_ran"]


def test_a_join_that_may_start_with_a_part() -> None:
    """And one that always waits for all."""
    plan, report = proved("a -> [b, c]  b -> d [when b.verdict == approve]  c -> d -> e  c -> e", b=VERDICT)

    assert [(join.node, join.branches, join.whole) for join in report.joins] == [
        ("d", ("b", "c"), False),
        ("e", ("d", "c"), True),
    ]
    found = one(report, "join-in-part")
    assert found.message == "'d' can start with c alone, without b"
    assert found.script == {"b": [{"outputs": {"verdict": "revise"}}]}
    document, _ = replay(plan, found.script)
    assert [turn["marked_by"] for turn in document["turns"] if turn["agent"] == "d"] == [["c"]]


def test_an_output_that_no_condition_reads() -> None:
    """It may be of use to those who read the prompt: a note."""
    _, report = proved("a -> b", a="model: m  outputs: { n: integer  verdict: go | stop }")
    found = one(report, "unread-output")

    assert (found.message, found.severity) == ("no condition reads a.n, a.verdict", Severity.NOTE)


def test_a_finding_stands_where_the_file_says_it() -> None:
    """Plans carry no places; the topology does."""
    topology, plan = read(team("a -> b  b -> c [when b.verdict == approve]", b=VERDICT))
    found = one(check(plan, topology=topology), "ends-early")

    assert found.span is not None
    assert found.span == topology.node("c").span  # type: ignore[union-attr]
    assert one(check(plan), "ends-early").span is None
    assert found.diagnostic("team.at").render().startswith(f"team.at:{found.span.line}:")


def test_failures_count_where_the_run_goes_on_after_them() -> None:
    """A fallback is a turn of its own; a turn that halts the run only makes it shorter."""
    _, report = proved("a -> b", a="model: m  on-fail: fallback c", c="model: m")

    assert worst(report) == (3, {"a": 1, "b": 1, "c": 1})
    assert best(report) == 2


def test_gates_actions_and_humans_count_as_turns() -> None:
    """As `--max-turns` counts them; a gate that sends back is a loop."""
    blocks = """
      gate g { after: a  before: b  run: "check.sh"  on-fail: bounce-back  retry: 2 }
      human h { }
      action x { commands: ["true"] }
    """
    plan, report = proved("a -> b -> h -> x", blocks)

    assert worst(report) == (9, {"a": 3, "g": 3, "b": 1, "h": 1, "x": 1})
    assert best(report) == 5
    assert report.worst is not None
    assert replay(plan, report.worst.script)[1][""] == 9
    assert one(report, "spent").message.endswith("the run fails")


def test_a_price_for_all_and_for_one() -> None:
    """The cost is that of the dearest run, which need not be the longest."""
    flow = "a -> b [when a.verdict == revise]  a -> c [when a.verdict == approve]  b -> d -> e"
    plan = read(team(flow, a=VERDICT, c="model: m  retry: 2"))[1]
    report = check(plan, Prices(turn=0.01, agents={"c": 1.0}))

    assert report.worst is not None
    assert report.worst.turns == 4
    assert report.cost is not None
    assert report.cost.turns == pytest.approx(1.01)
    assert report.cost.attempts == pytest.approx(0.01 * 2 + 1.0 * 3)  # a may be asked again for its verdict


def test_a_child_run_is_multiplied_in_with_its_retries() -> None:
    """A topology's turn counts what its child runs take; one that fails is followed by another."""
    (outer, inner) = team("a -> t -> b", t="model: m  retry: 1"), team("x -> y")
    child = read(inner)[1]
    plan = read(outer)[1]
    from msgspec.structs import replace as with_

    agents = plan.agents | {"t": with_(plan.agents["t"], kind="topology", child=child)}
    plan = with_(plan, agents=agents)
    report = check(plan)

    assert worst(report) == (6, {"a": 1, "t/x": 2, "t/y": 2, "b": 1})
    assert best(report) == 4
    assert report.worst is not None
    assert report.worst.script == {"t/y": [{"fail": "it fails"}, {}]}
    assert replay(plan, report.worst.script)[1][""] == 6


def test_what_a_child_run_answers_decides_its_parents_way() -> None:
    """The long child run ends with revise, the short one with approve; the parent tells them apart."""
    child = read(team("w -> r  r -> w [when r.verdict == revise, max 2]", r=VERDICT))[1]
    flow = "t -> b [when t.verdict == approve]  t -> c [when t.verdict == revise]  c -> d"
    from msgspec.structs import replace as with_

    plan = read(team(flow))[1]
    plan = with_(plan, agents=plan.agents | {"t": with_(plan.agents["t"], kind="topology", child=child)})
    report = check(plan)

    assert worst(report) == (8, {"t/w": 3, "t/r": 3, "b": 1, "c": 1, "d": 1})
    assert best(report) == 3
    assert report.worst is not None
    assert replay(plan, report.worst.script)[1][""] == 8


def test_a_plan_without_a_flow_is_not_proved() -> None:
    """Nothing is claimed of what nothing is known of."""
    report = check(Plan(name="empty"))

    assert (report.method, report.ends, report.worst) == ("bound", False, None)
    assert [finding.code for finding in report.findings] == ["not-proved"]


def test_a_flow_that_asks_something_else_is_not_proved() -> None:
    """A bound that leaves a part out would be none."""
    agents = {"t": AgentPlan(name="t", kind="topology", child=Plan(name="other"))}
    report = check(Plan(name="outer", agents=agents, coordination=FlowPlan(mentions=("t",), groups=())))

    assert (report.worst, report.ends) == (None, False)
    assert report.findings[0].message.startswith("nothing can be proved: what 't' does is known")


def test_a_flow_that_starts_nothing_ends_at_once() -> None:
    """No node, no turn."""
    report = check(Plan(name="nothing", coordination=FlowPlan(mentions=(), groups=())))

    assert (report.ends, worst(report), best(report)) == (True, (0, {}), 0)


def test_the_same_plan_gives_the_same_report() -> None:
    """Nothing in it depends on chance or on the machine."""
    plan, report = proved(NESTED.format(scope=""), b=VERDICT, c=VERDICT)
    again: Any = check(plan).to_dict()

    assert check(plan).to_dict() == again
    assert report.states == again["states"]


@pytest.mark.parametrize("shape", ["chain", "two lanes", "fan-out"])
def test_the_work_of_a_check_is_proportional_to_the_agents(shape: str) -> None:
    """Calls of functions are counted: four times as many agents take little more than four times as many."""

    def calls(agents: int) -> int:
        names = [f"a{n}" for n in range(agents)]
        if shape == "chain":
            arrows = [" -> ".join(names)]
        elif shape == "fan-out":
            arrows = [f"{names[0]} -> [{', '.join(names[1:-1])}] -> {names[-1]}"]
        else:
            arrows = [" -> ".join([names[0], *names[lane::2]]) for lane in (1, 2)]
        topology, plan = read(team("\n".join(arrows), **dict.fromkeys(names, "model: m")))
        found = [0]

        def count(frame: object, event: str, argument: object) -> None:
            found[0] += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            report = check(plan, topology=topology)
        finally:
            sys.setprofile(None)
        assert report.worst is not None
        assert report.worst.turns == agents
        return found[0]

    calls(20)
    assert calls(160) < (6 if shape == "two lanes" else 4.5) * calls(40)

"""The worked runs of the flow rules, read from the page that states them and compared line by line."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from flow_driver import condition, finished, make_plan, play

from coterie.history.engines.commands import Ask
from coterie.history.engines.flow import FlowEngine
from coterie.history.engines.flow.engine import Arrows
from coterie.history.journal.records import Record, TurnFinished, TurnStarted
from coterie.team.planning.plan import AgentPlan
from coterie.team.topology.graph import FlowGraph
from coterie.team.topology.model import ArrowGroup

PAGE = (Path(__file__).parents[2] / "data" / "flow-traces.md").read_text()


@dataclass(frozen=True)
class Trace:
    """One section of the page: the flow's text, and the lines of its run."""

    title: str
    statements: list[str]
    phases: dict[str, float]
    entries: list[str]
    lines: list[str]


def read_page() -> list[Trace]:
    traces = []
    for section in PAGE.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        code, after = re.fullmatch(r"```\n(.*?)\n```\n(.*)", rest, re.DOTALL).groups()
        head, _, run = after.partition("entry:")
        entries, *lines = run.strip("\n").split("\n")
        phases = {
            name.strip(): float(number)
            for names, number in re.findall(r"([\w, ]+?) = (\d+)", head.partition("phases:")[2])
            for name in names.split(",")
        }
        traces.append(
            Trace(
                title=title,
                statements=code.split("\n"),
                phases=phases,
                entries=[name.strip() for name in entries.split(",") if name.strip()],
                lines=[line.strip() for line in lines if line.strip()],
            )
        )
    return traces


def read_groups(statement: str) -> list[ArrowGroup]:
    chain, attributes = re.fullmatch(r"(.*?)(?:\s\[((?:when|max|per)\s.*)\])?", statement).groups()
    nodes = [[name.strip() for name in part.strip(" []").split(",")] for part in chain.split("->")]
    given = dict(part.strip().split(" ", 1) for part in (attributes or "").split(",") if part)
    groups = [
        ArrowGroup(source=source, targets=tuple(targets)) for sources, targets in pairwise(nodes) for source in sources
    ]
    last = [
        ArrowGroup(
            source=source,
            targets=tuple(nodes[-1]),
            when=condition(given["when"]) if "when" in given else None,
            max=int(given["max"]) if "max" in given else None,
            per=given.get("per", "run"),
        )
        for source in nodes[-2]
    ]
    return groups[: -len(last)] + last


def times(trace: Trace, verb: str) -> dict[str, int]:
    return {turn: int(at) for at, turn in re.findall(rf"t=(\d+) {verb} +(\S+)", "\n".join(trace.lines))}


def answers(trace: Trace) -> dict[str, dict[str, str | int]]:
    found = re.findall(r"end +(\S+) (\w+)=(\w+) ->", "\n".join(trace.lines))
    return {turn: {name: int(value) if value.isdigit() else value} for turn, name, value in found}


def target_list(arrows: Arrows) -> str:
    _, targets = arrows
    return targets[0] if len(targets) == 1 else f"[{', '.join(targets)}]"


def retell(flow: FlowEngine, graph: FlowGraph, record: Record, now: int) -> str | None:
    """The page's line for one record, told from the record and the decision it led to."""
    match record:
        case TurnStarted(turn=turn, inputs=inputs):
            marks = "+".join(name.partition("#")[0] for name in inputs)
            return f"t={now} start {turn}" + (f" <- {marks}" if marks else "")
        case TurnFinished(turn=turn, outputs=outputs):
            said = "".join(f" {name}={value}" for name, value in outputs.items())
            decision = flow.decision
            assert decision is not None
            assert decision.turn == turn
            fired = "; ".join(map(target_list, decision.fired)) or "(nothing)"
            line = f"t={now} end   {turn}{said} -> {fired}"
            if decision.exhausted:
                spent = ", ".join(f"{arrows[0]} -> {target_list(arrows)}" for arrows in decision.exhausted)
                forced = decision.forced
                way = (
                    f"forced forward: {forced[0]} -> {target_list(forced)}" if forced else "no forward edge, path ends"
                )
                return f"{line} max exhausted: {spent}; {way}"
            if not decision.fired and graph.groups_of(decision.node):
                return f"{line} no edge matched, path ends"
            return line
        case _:
            return None


TRACES = read_page()


def test_the_page_has_all_its_runs() -> None:
    """Nothing of the page is passed over by the way it is read."""
    assert len(TRACES) == PAGE.count("\n## ") == 21
    assert sum(len(trace.lines) for trace in TRACES) == len(re.findall(r"^  \S", PAGE, re.MULTILINE))


@pytest.mark.parametrize("trace", TRACES, ids=[trace.title.partition(" ")[0] for trace in TRACES])
def test_a_worked_run_is_reproduced_line_by_line(trace: Trace) -> None:
    """Who starts when, marked by whom, what fires, what is spent and forced, and who never ran."""
    if trace.lines[0].startswith("REJECTED"):
        pytest.skip("rejected before it starts: tests/topology shows the error")
    plan = make_plan(group for statement in trace.statements for group in read_groups(statement))
    agents = {name: AgentPlan(name=name, phase=trace.phases.get(name)) for name in plan.mentions}
    outputs, begins, ends = answers(trace), times(trace, "start"), times(trace, "end")
    graph = FlowGraph(plan.mentions, plan.groups)

    played = play(
        FlowEngine(plan, agents),
        lambda ask, n: finished(ask.turn, **outputs.get(ask.turn, {})),
        lambda ask, n: ends[ask.turn] - begins[ask.turn],
    )

    told, again = [], FlowEngine(plan, agents)
    for now, record, commands in played.heard:
        assert list(again.step(record)) == commands
        told.append(retell(again, graph, record, now))
    ran = {command.agent for _, _, commands in played.heard for command in commands if isinstance(command, Ask)}
    never = ", ".join(name for name in plan.mentions if name not in ran) or "-"
    assert [line for line in told if line] + [f"done; never run: {never}"] == trace.lines
    assert graph.entries == trace.entries
    assert played.finish is not None
    assert played.finish.outcome == "completed"

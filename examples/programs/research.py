"""A report: a planner chooses the sections, writers work on three at once, and a critic sends them back.

coterie run examples/programs/research.py:report "tea"

The agents are functions here, so that it runs without a key; `agent("writer", model="sonnet")` is a model.
"""

from dataclasses import dataclass

from coterie import agent, note, program, together


@dataclass
class Plan:
    topics: list[str]


@dataclass
class Verdict:
    approved: bool
    notes: str = ""


@dataclass
class Report:
    title: str
    sections: list[str]


def plan(topic: str) -> Plan:
    """Three sections about a topic."""
    return Plan([f"the history of {topic}", f"how {topic} is made", f"who needs {topic}"])


def write(topic: str, notes: str = "") -> str:
    """A section, longer if that was asked for."""
    return f"This is {topic}." + (" It is a long story." if notes else "")


def judge(sections: list[str]) -> Verdict:
    """Sections have two sentences."""
    short = [one for one in sections if one.count(".") < 2]
    return Verdict(not short, f"{len(short)} sections are too short" if short else "")


planner, writer, critic = agent("planner", plan), agent("writer", write), agent("critic", judge)


@program(agents=[planner, writer, critic], max_turns=40)
async def report(topic: str) -> Report:
    """Write, and revise until the critic is content, three times at most."""
    found = await planner(topic)
    sections = await together([writer(one) for one in found.topics], at_once=3)
    for _ in range(3):
        verdict = await critic(sections)
        if verdict.approved:
            break
        note(verdict.notes)
        sections = await together([writer(one, notes=verdict.notes) for one in found.topics], at_once=3)
    return Report(f"About {topic}", sections)

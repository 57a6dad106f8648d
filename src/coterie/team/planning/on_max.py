"""The human that `on-max human` asks how to continue after an exhausted loop."""

from collections.abc import Sequence

from coterie.team.planning.plan import AgentPlan, Wanted
from coterie.team.topology.model import ArrowGroup

ON_MAX = "on-max:"
"""Prefix of the human's name, followed by the loop's source: `on-max:reviewer`."""


def human_agent(name: str, groups: Sequence[ArrowGroup] = ()) -> AgentPlan:
    """The plan of the human *name*, `on-max:<source>`, whose question lists the bounds of *groups*."""
    source = name.removeprefix(ON_MAX)
    bounds = [
        f"- `{group}`{f' when `{group.when}`' if group.when else ''}: at most {group.max} times per {group.per}"
        for group in groups
        if group.source == source and group.max is not None
    ]
    lines = [
        f"`{source}` requests another round, but the flow allows no more.",
        *bounds,
        "How should the run continue?",
        "- `forward`: follow the next forward arrow, whatever its condition",
        "- `again`: run one more round",
        "- `end`: end this path",
    ]
    decision = Wanted(name="decision", type="enum", values=("forward", "again", "end"))
    return AgentPlan(name=name, kind="human", backend="human", prompt="\n".join(lines), outputs=(decision,))

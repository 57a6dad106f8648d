"""Build patterns in Python: each function returns a `Topology`, which `coterie.run` runs like one read from a file.

    from coterie.patterns import agent, debate

    talk = debate(
        proponent=agent(model="opus", prompt="You believe in it."),
        opponent=agent(command=["python3", "skeptic.py"]),
        mediator="haiku",
        max_rounds=2,
    )
    outcome = await coterie.run(talk, {"question": "Will it rain?"})

A slot is filled by an `agent(…)`; a text, the name of a model; a path, the file of a team; or a team: the result of
another of these functions or of `coterie.load`. Invalid arguments are rejected at once, with all faults: the same
diagnostics as for a pattern file; its warnings are Python warnings.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

from coterie.errors import UsageError
from coterie.flows.agents import Filler, agent, filling, shorten
from coterie.flows.build import checked
from coterie.team.topology.model import Agent, Topology
from coterie.team.topology.patterns.kinds import kind_of
from coterie.team.topology.patterns.model import Pattern, Slot

__all__ = ["Filler", "agent", "called_as", "collaboration", "make_team"]

P = ParamSpec("P")


def called_as(example: str) -> Callable[[Callable[P, Topology]], Callable[P, Topology]]:
    """Return a decorator whose function refuses arguments that do not fit, and shows *example*.

    Raises:
        UsageError: From the function.
    """

    def decorate(make: Callable[P, Topology]) -> Callable[P, Topology]:
        @functools.wraps(make)
        def checked_call(*args: P.args, **kwargs: P.kwargs) -> Topology:
            try:
                inspect.signature(make).bind(*args, **kwargs)
            except TypeError as wrong:
                raise UsageError(f"{make.__name__}(): {wrong}; write {example}") from None
            return make(*args, **kwargs)

        return checked_call

    return decorate


@called_as('collaboration(PATTERN, {"NAME": …})')
def collaboration(
    play: Callable[..., Any], slots: Mapping[str, Filler], /, *, name: str = "", description: str = "", **config: Any
) -> Topology:
    """Use a pattern of your own: *play* is a generator function decorated with `@pattern`.

    Raises:
        UsageError: If it is not decorated.
    """
    from coterie.history.engines.patterns.registry import type_of

    if not callable(play):
        raise UsageError(f"a user-defined pattern is a function decorated with @pattern(name), not {play!r}")
    return make_team(type_of(play), slots, config, name or play.__name__, description)


def make_team(
    type: str, slots: Mapping[str, Filler], config: Mapping[str, Any], name: str, description: str
) -> Topology:
    """The team of the pattern *type*, for the constructors of patterns.

    Raises:
        TopologyError: If an argument does not fit; it carries all faults.
    """
    if not isinstance(slots, Mapping) or not all(isinstance(slot, str) for slot in slots):
        raise UsageError(f"slots must be a dict {{NAME: agent}}, not {shorten(slots)}")
    for what, value in (("name", name), ("description", description)):
        if not isinstance(value, str):
            raise UsageError(f"the {what} of a team must be a text, not {value!r}")
    nodes: list[Agent] = []
    filled: list[Slot] = []
    for slot, filler in slots.items():
        member = filling(slot, filler).definition
        nodes += member.nodes(slot)
        filled.append(
            Slot(name=slot, node=slot, capabilities=member.capabilities, calls=member.calls, cost=member.cost)
        )
    team = Topology(
        name=name,
        nodes=tuple(nodes),
        pattern=Pattern(type=type, config=config, slots=tuple(filled)),
        meta={"description": description} if description else {},
    )
    kind = kind_of(type)
    # A file's own pattern is not imported yet; here its function is at hand.
    return checked(team, 3, silent=("own-pattern",), hints=kind.python_hints if kind is not None else {})

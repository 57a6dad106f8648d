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

from collections.abc import Callable, Mapping
from typing import Any

from coterie.errors import UsageError
from coterie.flows.agents import Filler, agent, brief, filling
from coterie.flows.build import checked
from coterie.topology.model import Agent, Topology
from coterie.topology.patterns.model import Pattern, Slot

__all__ = [
    "agent",
    "chain_of_command",
    "collaboration",
    "compound",
    "cross_check",
    "debate",
    "delegation",
    "ensemble",
    "pipeline",
]


def debate(
    *,
    proponent: Filler,
    opponent: Filler,
    mediator: Filler,
    name: str = "debate",
    description: str = "",
    **config: Any,
) -> Topology:
    """Two sides argue, a mediator decides; the input is a `question`.

    Args:
        config: Fields of `DebateConfig`: `max_rounds`, `consensus_method`, …

    Raises:
        TopologyError: If an argument does not fit, as for all functions here; it carries all faults.
    """
    slots = {"proponent": proponent, "opponent": opponent, "mediator": mediator}
    return _team("debate", slots, config, name, description)


def chain_of_command(
    slots: Mapping[str, Filler], /, *, name: str = "chain", description: str = "", **config: Any
) -> Topology:
    """Upper levels plan and delegate, lower ones work; the input is a `task`.

    Args:
        slots: The agents, each named after its level: `commander`, `lieutenant_1`, `worker_2`.
        config: Fields of `ChainConfig`: `authority_levels`, `escalation_threshold`, …
    """
    return _team("chain", slots, config, name, description)


def delegation(
    slots: Mapping[str, Filler],
    /,
    *,
    coordinator: Filler | None = None,
    name: str = "delegation",
    description: str = "",
    **config: Any,
) -> Topology:
    """Each task goes to one worker that can do it; the input is a `task` or `tasks`.

    Args:
        coordinator: Chooses the worker, with `routing_strategy="coordinator"`.
        config: Fields of `DelegationConfig`: `routing_strategy`, `load_balance`, …
    """
    first = {"coordinator": coordinator} if coordinator is not None else {}
    return _team("delegation", {**first, **slots}, config, name, description)


def ensemble(
    *members: Filler, aggregator: Filler | None = None, name: str = "ensemble", description: str = "", **config: Any
) -> Topology:
    """Several members answer the same `prompt`, and their answers are combined.

    Args:
        members: In the order in which their answers count; their slots are `ensemble_0`, `ensemble_1`, …
        aggregator: Combines the answers, for methods that do not count votes.
        config: Fields of `EnsembleConfig`: `aggregation_method`, `samples`, …
    """
    slots: dict[str, Filler] = {f"ensemble_{n}": member for n, member in enumerate(members)}
    if aggregator is not None:
        slots["aggregator"] = aggregator
    return _team("ensemble", slots, config, name, description)


def pipeline(
    slots: Mapping[str, Filler], /, *, name: str = "pipeline", description: str = "", **config: Any
) -> Topology:
    """Each stage works on the output of the previous one.

    Args:
        slots: The stages by name, in their order.
        config: Fields of `PipelineConfig`: `max_stage_retries`, `checkpoint_after`, …
    """
    return _team("pipeline", slots, config, name, description)


def cross_check(
    primary: Filler,
    /,
    *checkers: Filler,
    mediator: Filler | None = None,
    name: str = "crosscheck",
    description: str = "",
    **config: Any,
) -> Topology:
    """A primary answers a `prompt`, checkers judge the answer.

    Args:
        checkers: Their slots are `checker_0`, `checker_1`, …; a single one is called `num_checkers` times.
        mediator: Decides, with `consensus_method="mediator"`.
        config: Fields of `CrossCheckConfig`: `consensus_method`, `max_revisions`, …
    """
    slots: dict[str, Filler] = {"primary": primary}
    slots |= {"checker": checkers[0]} if len(checkers) == 1 else {f"checker_{n}": one for n, one in enumerate(checkers)}
    if mediator is not None:
        slots["mediator"] = mediator
    return _team("crosscheck", slots, config, name, description)


def compound(
    teams: Mapping[str, Filler], /, *, name: str = "compound", description: str = "", **config: Any
) -> Topology:
    """Several teams work on one input: one after the other, side by side, or the one that `route_to` names.

    Args:
        teams: By name, in their order.
        config: Fields of `CompoundConfig`: `composition_type`, `mapping`, …
    """
    return _team("compound", teams, config, name, description)


def collaboration(
    play: Callable[..., Any], slots: Mapping[str, Filler], /, *, name: str = "", description: str = "", **config: Any
) -> Topology:
    """Use a pattern of your own: *play* is a generator function decorated with `@pattern`.

    Raises:
        UsageError: If it is not decorated.
    """
    from coterie.engines.patterns.registry import type_of

    if not callable(play):
        raise UsageError(f"a user-defined pattern is a function decorated with @pattern(name), not {play!r}")
    return _team(type_of(play), slots, config, name or play.__name__, description)


def _team(type: str, slots: Mapping[str, Filler], config: Mapping[str, Any], name: str, description: str) -> Topology:
    if not isinstance(slots, Mapping) or not all(isinstance(slot, str) for slot in slots):
        raise UsageError(f"slots must be a dict {{NAME: agent}}, not {brief(slots)}")
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
    return checked(team, 2, ("own-pattern",))  # a file's pattern is not imported yet; here its function is at hand

"""Random replies of simulated agents: the events they emit and the outputs they return."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from coterie.agents.backends.base import Emitted, Request
from coterie.history.engines.schemas import sample, sample_list
from coterie.team.topology.conditions import Scalar, is_number

Compared = Mapping[str, Sequence[Scalar]]
"""The values with which the conditions of a flow compare each output, by the output's name."""


def random_events(request: Request, dice: random.Random) -> Sequence[Emitted]:
    """The random events of a turn of a loop: mostly allowed ones, sometimes a wave, another event, or none."""
    loop = request.context.get("loop")
    if loop is None or loop["review"]:
        return ()
    found = []
    for _ in range(dice.choice([0, 1, 1, 1, 1, 2])):
        roll, choice = dice.random(), [*loop["allowed"], loop["completion"] if loop["anything"] else ""]
        event = loop["nearest"] if roll < 0.4 else dice.choice(choice)
        if roll > 0.9:
            event = dice.choice(["nonsense", "issue.discovered", loop["completion"]])
        if 0.7 < roll < 0.9:
            event = dice.choice([f"{event}.parallel", "explore.parallel"])
        found.append(Emitted(event=event, payload="\n".join(f"- part {k}" for k in range(dice.randint(1, 3)))))
    return found


def random_outputs(
    wanted: Sequence[Mapping[str, Any]],
    compared: Compared,
    dice: random.Random,
    chaos: float = 0.0,
    longest: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """A random value for each output; now and then one is missing or does not fit, as *chaos* allows.

    Args:
        wanted: The outputs, each with its `name`, `type`, `values` and perhaps `schema`, as programs get them.
        longest: The most items of outputs that are mapped; now and then, as *chaos* allows, there is one more.
    """
    values: dict[str, Any] = {}
    for output in wanted:
        roll = dice.random()
        if roll < 0.04 * chaos:
            continue
        if roll < 0.08 * chaos:
            values[output["name"]] = "something else"
        elif output["name"] in (longest or {}) and (output["type"] == "list" or "schema" in output):
            most = (longest or {})[output["name"]] + (roll > 1.0 - 0.04 * chaos)
            values[output["name"]] = sample_list(output.get("schema") or {}, dice.randint(0, most))
        elif schema := output.get("schema"):
            values[output["name"]] = sample(schema)
        else:
            choice = choices(output["type"], output["values"], compared.get(output["name"], ()))
            values[output["name"]] = dice.choice(choice)
    return values


def choices(type: str, values: Sequence[Scalar], compared: Sequence[Scalar]) -> Sequence[Scalar]:
    """The values to choose an output from, so that every condition that reads it can hold and can fail."""
    if type == "enum":
        return values
    if type == "boolean":
        return (True, False)
    constants = dict.fromkeys((*values, *compared))
    numbers = [near for one in constants if is_number(one) for near in _around(float(one))]
    if type in ("number", "integer"):
        return numbers or range(6)
    return [*(one for one in constants if not is_number(one)), *numbers, "something else"]


def _around(number: float) -> Sequence[float]:
    """*number* and its neighbours; whole if it is."""
    whole = math.floor(number)
    return (whole - 1, whole, whole + 1) if whole == number else (whole, number, whole + 1)

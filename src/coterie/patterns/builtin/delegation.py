"""Give each task to one of several workers: by capability, by a coordinator's choice, or in turn.

No task is dropped: one that finds no worker, or that fails, is in the result with the reason.
"""

from collections.abc import Generator
from typing import Any, assert_never

from msgspec import Struct

from coterie.engines.generator import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.engines.patterns import structured
from coterie.engines.patterns.registry import Calls, Team, pattern
from coterie.engines.patterns.result import PatternResult, SlotFailure, loss, one_kind, said
from coterie.engines.patterns.structured import Answered
from coterie.planning.plan import Wanted
from coterie.topology.patterns.configs import DelegationSettings
from coterie.topology.patterns.inputs import Task, tasks_of
from coterie.topology.patterns.kinds import KINDS
from coterie.topology.patterns.slots import COORDINATOR, workers


class Done(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that was assigned.

    Attributes:
        reason: Why it was assigned to *slot*.
        error: Why there is no output; empty if there is one.
    """

    task: str
    slot: str
    output: str
    reason: str
    error: str = ""


class Unrouted(Struct, frozen=True, kw_only=True):
    """A task without a worker."""

    task: str
    reason: str


class DelegationResult(PatternResult, frozen=True, kw_only=True):
    """The results of the tasks: *tasks* and *unrouted* are in the order of the input."""

    tasks: tuple[Done, ...]
    unrouted: tuple[Unrouted, ...]
    final_output: str


class _Order(Struct, frozen=True):
    """The assignment of a task, and its reason; without a *slot*, why it has no worker.

    Attributes:
        failed: The failure of the coordinator, if it has not assigned the task.
    """

    task: str
    slot: str
    reason: str
    failed: SlotFailure | None = None


_Routing = Generator[Question | Together | Tell, Any, list[_Order]]


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: one for each of the *tasks*, a number, in all slots together; a coordinator has one or two for
    each.
    """
    config: DelegationSettings = team.config
    tasks, hands = numbers.get("tasks", 1), workers(team.slots)
    spread = config.routing_strategy == "round_robin" or config.load_balance
    usual = {slot: len(range(n, tasks, len(hands))) if spread else tasks * (n == 0) for n, slot in enumerate(hands)}
    most = dict.fromkeys(hands, tasks)
    if config.routing_strategy == "coordinator":
        usual[COORDINATOR], most[COORDINATOR] = tasks, tasks * (1 + structured.REPAIRS)
    return Calls(usual, most)


@pattern(KINDS["delegation"], calls=calls)
def delegation(team: Team, given: dict[str, Any]) -> Conversation:
    """Assign the tasks, then run them all at once."""
    config: DelegationSettings = team.config
    tasks = tasks_of(given)
    warnings = list[str]()
    match config.routing_strategy:
        case "capability_match":
            orders = _by_capability(team, tasks)
        case "coordinator":
            orders = yield from _by_coordinator(team, tasks)
        case "round_robin":
            orders = _in_turn(team, tasks)
            if any(task.required for task in tasks):
                warnings.append("round_robin ignores required_capabilities")
        case _:
            assert_never(config.routing_strategy)
    if COORDINATOR in team.slots and config.routing_strategy != "coordinator":
        warnings.append(f"the coordinator was not called: routing_strategy is {config.routing_strategy}")
    routed = [order for order in orders if order.slot]
    unrouted = tuple(Unrouted(task=order.task, reason=order.reason) for order in orders if not order.slot)
    if COORDINATOR in team.slots:
        for order in routed:
            yield Tell(COORDINATOR, order.slot, "request", {"task": order.task, "type": "delegation"})
    replies = yield Together(*(_question(team, order) for order in routed), most=config.max_concurrency)
    done: list[Done] = []
    failures: list[SlotFailure] = []
    for order, got in zip(routed, replies, strict=True):
        if (lost := loss(got)) is None:
            recipient = COORDINATOR if COORDINATOR in team.slots else None
            yield Tell(order.slot, recipient, "response", {"task": order.task, "status": "complete"})
            done.append(Done(task=order.task, slot=order.slot, output=said(got), reason=order.reason))
        else:
            failures.append(SlotFailure(order.slot, *lost))
            done.append(Done(task=order.task, slot=order.slot, output="", reason=order.reason, error=lost[1]))
    text = _final(done, unrouted, "" if unrouted else one_kind(failures))
    return DelegationResult(
        text=text,
        tasks=tuple(done),
        unrouted=unrouted,
        final_output=text,
        failures=(*(order.failed for order in orders if order.failed is not None), *failures),
        warnings=tuple(warnings),
    )


def _by_capability(team: Team, tasks: tuple[Task, ...]) -> list[_Order]:
    """Assign by capability: of several able slots the one with the fewest tasks, or always the first."""
    config: DelegationSettings = team.config
    load = dict.fromkeys(workers(team.slots), 0)
    orders = []
    for task, required in tasks:
        able = [slot for slot in load if set(required) <= set(team.capabilities(slot))]
        wanted = ", ".join(required)
        if not able:
            orders.append(_stray(config, task, f"no slot has the capabilities {wanted}"))
            continue
        slot = min(able, key=load.__getitem__) if config.load_balance else able[0]
        load[slot] += 1
        orders.append(_Order(task, slot, f"it has {wanted}" if required else "nothing in particular is required"))
    return orders


def _in_turn(team: Team, tasks: tuple[Task, ...]) -> list[_Order]:
    hands = workers(team.slots)
    return [_Order(task.text, hands[n % len(hands)], "it is next in turn") for n, task in enumerate(tasks)]


def _by_coordinator(team: Team, tasks: tuple[Task, ...]) -> _Routing:
    """Assign by the coordinator's choice; a task that it cannot place goes to the fallback."""
    config: DelegationSettings = team.config
    hands = workers(team.slots)
    fields = (Wanted(name="route_to", type="text", values=hands),)
    questions = [Question(COORDINATOR, _routing_prompt(team, task, required)) for task, required in tasks]
    answers = yield from structured.ask_all(questions, fields, most=config.max_concurrency)
    orders = []
    for (task, _), answer in zip(tasks, answers, strict=True):
        match answer:
            case Answered(value={"route_to": str(slot)}) if slot.strip() in hands:
                orders.append(_Order(task, slot.strip(), "the coordinator chose it"))
            case Answered(value={"route_to": str(slot)}):
                orders.append(_stray(config, task, f"the coordinator chose {slot!r}, an unknown slot"))
            case Answered():
                failed = SlotFailure(COORDINATOR, "invalid_output", f"{task}: {answer.fault}")
                orders.append(_stray(config, task, f"the coordinator chose no slot: {answer.fault}", failed))
            case AgentFailed():
                failed = SlotFailure(COORDINATOR, answer.kind, f"{task}: {answer.reason}")
                orders.append(_stray(config, task, f"the coordinator failed: {answer.reason}", failed))
    return orders


def _stray(config: DelegationSettings, task: str, why: str, failed: SlotFailure | None = None) -> _Order:
    """The order for a task without a worker; *failed* if the coordinator is the cause."""
    fallback = config.fallback_agent_name
    return _Order(task, fallback or "", f"it is the fallback: {why}" if fallback else why, failed)


def _question(team: Team, order: _Order) -> Question:
    key = team.keys(order.slot)[0]
    prompt = (
        f"This task is yours:\n\n{order.task}\n\n"
        "Do it. If you cannot do it, begin your answer with `BLOCKED:` and say why."
    )
    return Question(order.slot, prompt, given={key: order.task})


def _routing_prompt(team: Team, task: str, required: tuple[str, ...]) -> str:
    hands = "\n".join(f"- {slot}: {', '.join(team.capabilities(slot)) or 'anything'}" for slot in workers(team.slots))
    needs = f"\n\nIt requires: {', '.join(required)}" if required else ""
    return (
        f"You give out work. This is the task:\n\n{task}{needs}\n\n"
        f"These are there, and what each can do:\n\n{hands}\n\n"
        'Who is to do it? Answer with JSON: {"route_to": "one of these names"}.'
    )


def _final(done: list[Done], unrouted: tuple[Unrouted, ...], kind: str) -> str:
    """The outputs, and below them what was not done; a single output is returned unchanged.

    Raises:
        PatternFailed: If no task was done; *kind* is the kind of the failures.
    """
    lost = [(one.task, one.error) for one in done if one.error] + [(one.task, one.reason) for one in unrouted]
    missing = "\n".join(f"- {task}: {reason}" for task, reason in lost)
    outputs = [one for one in done if not one.error]
    if not outputs:
        raise PatternFailed(f"Delegation: no task was done:\n{missing}", kind)
    if len(outputs) == 1 and not lost:
        return outputs[0].output
    said = "\n\n".join(f"[{one.slot}]: {one.output}" for one in outputs)
    return f"{said}\n\nNot done:\n{missing}" if lost else said

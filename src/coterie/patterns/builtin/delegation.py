"""Give each task to one of several workers: by capability, by a coordinator's choice, or in turn.

No task is dropped: one that finds no worker, or that fails, is in the result with the reason.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, assert_never

from msgspec import Struct

from coterie.base.diagnostics import Severity
from coterie.history.engines.patterns import structured
from coterie.history.engines.patterns.registry import Calls, Team, pattern
from coterie.history.engines.patterns.result import PatternResult, SlotFailure, loss, one_kind, said
from coterie.history.engines.patterns.structured import Answered
from coterie.history.engines.questions import AgentFailed, Conversation, PatternFailed, Question, Tell, Together
from coterie.patterns.constructors import Filler, called_as, make_team
from coterie.team.planning.plan import Wanted
from coterie.team.topology.model import ArrowGroup, Topology
from coterie.team.topology.patterns import faults
from coterie.team.topology.patterns.configs import Config, Idle, Positive, arrow
from coterie.team.topology.patterns.faults import Fault
from coterie.team.topology.patterns.inputs import task_of, text_of
from coterie.team.topology.patterns.kinds import PatternSpec

COORDINATOR = "coordinator"
_REQUIRED = "required_capabilities"


class DelegationSettings(Config, frozen=True, kw_only=True):
    """Assignment of tasks to agents.

    Attributes:
        routing_strategy: `capability_match`: an agent with all required capabilities; `coordinator`: the one that
            the slot `coordinator` names; `round_robin`: the next.
        load_balance: Among several candidates choose the one with the fewest tasks so far; otherwise the first.
        fallback_agent_name: The slot that gets tasks no other slot can do.
        max_concurrency: Maximum tasks that run at once; None: unlimited.
    """

    routing_strategy: Literal["capability_match", "coordinator", "round_robin"] = "capability_match"
    load_balance: bool = True
    fallback_agent_name: str | None = None

    max_concurrency: Positive | None = None

    def slot_faults(self, names: Sequence[str]) -> Iterator[Fault]:
        """Check that a delegation has workers, and a coordinator if the coordinator routes."""
        if not workers(names):
            yield Fault("missing-slot", "Delegation requires at least one agent beside the coordinator", "slots")
        if self.routing_strategy == "coordinator" and COORDINATOR not in names:
            yield faults.missing("Delegation requires 'coordinator' slot", COORDINATOR, names)
        elif self.routing_strategy != "coordinator" and COORDINATOR in names:
            message = f"the slot 'coordinator' is never called: routing_strategy is {self.routing_strategy}"
            yield Fault("spare-slot", message, f"slots.{COORDINATOR}", Severity.WARNING)
        fallback = self.fallback_agent_name
        if fallback is not None and fallback not in workers(names):
            yield faults.no_such("config.fallback_agent_name", fallback, workers(names))

    def idle_settings(self, written: Mapping[str, Any], names: Sequence[str]) -> Iterator[Idle]:
        """Settings without effect beside others."""
        routing = self.routing_strategy
        why = f"routing_strategy is {routing}"
        yield routing != "capability_match" and "load_balance" in written, "load_balance", why
        falls_back = self.fallback_agent_name is not None
        yield routing == "round_robin" and falls_back, "fallback_agent_name", why

    def handoffs(self, names: Sequence[str]) -> Iterator[ArrowGroup]:
        """The arrows between slots: which slot passes work to which."""
        if self.routing_strategy == "coordinator":
            yield arrow(COORDINATOR, workers(names), what="one of them")

    def input_faults(
        self, title: str, keys: Sequence[str], capabilities: Mapping[str, Sequence[str]], given: Mapping[str, Any]
    ) -> Iterator[Fault]:
        """Check that the tasks are readable and that one of them has a worker."""
        several, required = given.get("tasks"), given.get(_REQUIRED, ())
        listed = several is None or isinstance(several, list | tuple)
        if not (listed and all(isinstance(one, str) or _is_entry(one) for one in several or ())):
            message = "`tasks` must be a list of texts, or of {task, required_capabilities}"
            yield Fault("bad-input", message, hint="--input 'tasks:=[\"…\"]'")
            return
        if not (_is_list_of_texts(required) and _is_list_of_texts(_requirement(given.get("task")))):
            hint = "--input 'required_capabilities:=[\"…\"]'"
            yield Fault("bad-input", "`required_capabilities` must be a list of texts", hint=hint)
            return
        tasks = tasks_of(given)
        if not all(_entry(task).text.strip() for task in several or ()):
            yield Fault("bad-input", "one of `tasks` is empty")
        elif not tasks:
            yield Fault("missing-input", "Delegation needs an input `task` or `tasks`", hint="--input task=…")
        elif self.routing_strategy == "capability_match" and self.fallback_agent_name is None:
            able = [set(capabilities[name]) for name in workers(tuple(capabilities))]
            if not any(set(task.required) <= has for task in tasks for has in able):
                wanted = ", ".join(dict.fromkeys(name for task in tasks for name in task.required))
                hint = "give a slot these capabilities, or set fallback_agent_name"
                yield Fault("no-match", f"no agent has the capabilities {wanted}", hint=hint)


def workers(names: Sequence[str]) -> tuple[str, ...]:
    """The slots that may get a task in a delegation: all but the coordinator."""
    return tuple(name for name in names if name != COORDINATOR)


class Task(NamedTuple):
    """A task of a delegation, and the capabilities that it requires."""

    text: str
    required: tuple[str, ...] = ()


def tasks_of(given: Mapping[str, Any]) -> tuple[Task, ...]:
    """The tasks of a delegation: `task`, then `tasks`; without either, the input's common task.

    A task requires its own capabilities and those required of all.
    """
    common = tuple(given.get(_REQUIRED) or ())
    one = _entry(given.get("task"))
    entries = [*([one] if one.text.strip() else []), *map(_entry, given.get("tasks") or ())]
    if not entries and (task := task_of((), given)):
        entries = [Task(task)]
    return tuple(Task(text, tuple(dict.fromkeys((*common, *required)))) for text, required in entries)


def _entry(value: Any) -> Task:
    """Read *value* as a task: a text, or `{task, required_capabilities}`."""
    if _is_entry(value):
        return Task(value["task"], tuple(_requirement(value)))
    return Task(text_of(value))


def _is_entry(value: Any) -> bool:
    if not (isinstance(value, dict) and value.keys() <= {"task", _REQUIRED}):
        return False
    return isinstance(value.get("task"), str) and _is_list_of_texts(_requirement(value))


def _requirement(value: Any) -> Any:
    return value.get(_REQUIRED, ()) if isinstance(value, dict) else ()


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


class Done(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that was assigned.

    Attributes:
        reason: The reason for its assignment to *slot*.
        error: The reason why there is no output; empty if there is one.
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


@called_as('delegation({"worker": …}, coordinator=…)')
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
    return make_team("delegation", {**first, **slots}, config, name, description)


def calls(team: Team, **numbers: Any) -> Calls:
    """Count the turns: one for each task, in all slots together.

    *tasks* is their number; a coordinator has one or two turns for each.
    """
    config: DelegationSettings = team.config
    tasks, hands = numbers.get("tasks", 1), workers(team.slots)
    spread = config.routing_strategy == "round_robin" or config.load_balance
    usual = {slot: len(range(n, tasks, len(hands))) if spread else tasks * (n == 0) for n, slot in enumerate(hands)}
    most = dict.fromkeys(hands, tasks)
    if config.routing_strategy == "coordinator":
        usual[COORDINATOR], most[COORDINATOR] = tasks, tasks * (1 + structured.REPAIRS)
    return Calls(usual, most)


SPEC = PatternSpec(
    "delegation",
    "Delegation",
    DelegationSettings,
    "Each task goes to an able worker. A capability that is not a mixin is a skill for routing.",
    keys=("task", "tasks"),
    results=(DelegationResult,),
    roles={COORDINATOR: "coordinator"},
    is_per_task=True,
    has_skills=True,
)


@pattern(SPEC, calls=calls)
def play(team: Team, given: dict[str, Any]) -> Conversation:
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
    """The outputs, followed by the tasks that were not done; a single output is returned unchanged.

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

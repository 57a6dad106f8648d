"""Reading the plan of a loop again: what differs, and what is said of it. It never ends or changes a run by itself."""

from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from typing import Any

import msgspec

from coterie.diagnostics import Diagnostic
from coterie.errors import CoterieError, shortage
from coterie.journal.records import ConfigAnswer, ConfigChanged, ConfigKept, ConfigRejected
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import Plan, to_json

Reread = Callable[[Plan], tuple[Plan | None, Sequence[Diagnostic]]]
"""Reads the files of a plan again: the plan they make now, None if they are wrong, and what was found."""


def reader(reread: Reread) -> Callable[[str, Plan], ConfigAnswer]:
    """What answers when the plan of a root run is to be read again; child runs keep theirs."""

    def answer(run: str, plan: Plan) -> ConfigAnswer:
        if "/" in run or not isinstance(plan.coordination, LoopPlan) or not plan.coordination.place.project:
            return ConfigKept()
        try:
            found, said = reread(plan)
        except (CoterieError, OSError, ValueError) as error:  # whatever the files hold by now, the run goes on
            if shortage(error):
                raise
            return ConfigRejected(reason=str(error))
        if found is None:
            errors = [each.render().strip() for each in said if each.is_error]
            return ConfigRejected(reason="\n".join(errors) or "nothing could be read")
        return compared(plan, found)

    return answer


def compared(plan: Plan, found: Plan) -> ConfigAnswer:
    """What the journal shall say when *found* was read in place of *plan*. What is fixed at the start stays."""
    old, new = plan.coordination, found.coordination
    if not isinstance(new, LoopPlan):
        return ConfigRejected(reason=f"{found.name!r} is no loop any more")
    if isinstance(old, LoopPlan):
        found = msgspec.structs.replace(found, coordination=msgspec.structs.replace(new, place=old.place))
    keys = tuple(changed(plan, found))
    if not keys:
        return ConfigKept()
    text = to_json(found).decode()
    return ConfigChanged(plan=text, plan_hash=found.content_hash(), keys=keys, diff=difference(plan, found))


def difference(plan: Plan, found: Plan) -> str:
    """What differs, line by line: what somebody, or a review, has made of the loop."""
    old, new = list(_lines(msgspec.to_builtins(plan), "")), list(_lines(msgspec.to_builtins(found), ""))
    return "\n".join(unified_diff(old, new, "before", "after", n=1, lineterm=""))


def changed(plan: Plan, found: Plan) -> Iterator[str]:
    """What differs, by the name of the setting where it has one: `event_loop.max_iterations`, `role.builder`."""
    old, new = plan.coordination, found.coordination
    if isinstance(old, LoopPlan) and isinstance(new, LoopPlan):
        for field in LoopPlan.__struct_fields__:
            if field != "roles" and getattr(old, field) != getattr(new, field):
                yield _KEYS.get(field, field)
        before, after = [role.id for role in old.roles], [role.id for role in new.roles]
        if before != after and sorted(before) == sorted(after):
            yield "order of roles"
        yield from _by_name("role", {r.id: r for r in old.roles}, {r.id: r for r in new.roles})
    yield from _by_name("agent", plan.agents, found.agents)


def _lines(value: Any, path: str) -> Iterator[str]:
    """A plan as lines, each line of a text on one of its own; a role goes by its id."""
    match value:
        case dict():
            for key, each in value.items():
                yield from _lines(each, f"{path}.{key}".lstrip("."))
        case [dict(), *_]:
            for n, each in enumerate(value):
                yield from _lines(each, f"{path}.{each.get('id', n)}")
        case str() if "\n" in value:
            yield from (f"{path}: {line}" for line in value.splitlines())
        case _:
            yield f"{path}: {value}"


def _by_name(kind: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{kind}.{name}"


_KEYS = {
    "completion": "completion",
    "promise": "event_loop.completion_promise",
    "required": "event_loop.required_events",
    "objective": "event_loop.prompt",
    "harness": "harness.instructions_file",
    "max_iterations": "event_loop.max_iterations",
    "max_runtime": "event_loop.max_runtime",
    "max_cost": "event_loop.max_cost_usd",
    "stall": "event_loop.stall_iterations",
    "max_failures": "event_loop.max_failures",
    "memory_chars": "memory.prompt_budget_chars",
    "tasks_chars": "tasks.prompt_budget_chars",
    "notify": "notify.command",
}

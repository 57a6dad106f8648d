"""Read the files of a running loop again, and describe what changed. Nothing here ends or changes a run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from coterie.diagnostics import Diagnostic, Severity
from coterie.errors import CoterieError
from coterie.journal.records import ConfigAnswer, ConfigChanged, ConfigHeld, ConfigKept, ConfigRejected, Record
from coterie.kernel.kind import LastReading, Trust
from coterie.planning.loop import LoopPlan
from coterie.planning.plan import Plan, to_json
from coterie.planning.protection import LOOP_SETTINGS, strictest
from coterie.shortages import shortage

_OF_JOURNAL = Record.__struct_fields__

Reread = Callable[[Plan], tuple[Plan | None, Sequence[Diagnostic]]]
"""Reads the files of a plan again: the new plan, None if the files are invalid, and all diagnostics."""


def read_again(
    run: str,
    plan: Plan,
    reread: Reread,
    hold: Callable[[Plan], Plan],
    last: LastReading,
    trust: Callable[[], Trust] = Trust,
) -> ConfigAnswer:
    """Read the files of *plan* again, unless none of them changed since they said the same; child runs keep theirs.

    The answer has the warnings that the reading before did not have. Those of a first reading that finds the same plan
    are not new: planning the run has reported them.

    Args:
        hold: Moves the secret values of a plan out of it.
        last: The last reading; kept by the caller.
        trust: Reads in the journal what a weaker value depends on.
    """
    loop = plan.coordination
    if "/" in run or not isinstance(loop, LoopPlan) or not loop.place.project or last.files.is_current():
        return ConfigKept()
    beside = f"{loop.place.work_dir}/"

    def read(plan: Plan) -> tuple[Plan | None, Sequence[Diagnostic]]:
        """As *reread*; files are named from the directory where the run was started, as planning named them."""
        found, said = reread(plan)
        return found, [replace(one, file=one.file.removeprefix(beside)) for one in said]

    answer = _answer(plan, read, hold, last, trust)
    if isinstance(answer, ConfigKept) and not last.held:
        last.files.confirm()
    return answer


def _answer(
    plan: Plan, reread: Reread, hold: Callable[[Plan], Plan], last: LastReading, trust: Callable[[], Trust]
) -> ConfigAnswer:
    try:
        with last.files.recorded():
            found, said = reread(plan)
        if found is not None:
            return _with_warnings(_trusted(plan, hold(found), last, trust), said, last)
    except (CoterieError, OSError, ValueError) as error:  # whatever the files hold by now, the run goes on
        if shortage(error):
            raise
        return ConfigRejected(reason=str(error))
    errors = [each.summary for each in said if each.is_error]
    return ConfigRejected(reason="\n".join(errors) or "no file could be read")


def _trusted(plan: Plan, found: Plan, last: LastReading, trust: Callable[[], Trust]) -> ConfigAnswer:
    """The answer if *found* was read in place of *plan*, without what is weaker and may be an agent's."""
    merged, held = strictest(plan, found)
    known = Trust()
    if held or last.held or last.held is None:
        known = trust()
        merged, held = (found, ()) if known.confined else strictest(plan, found, known.taken, known.changed)
    before = known.held if last.held is None else last.held
    last.held = held
    answer = compared(plan, merged)
    is_complete = not held if isinstance(answer, ConfigChanged) else held == before
    if is_complete or isinstance(answer, ConfigRejected):
        return answer
    if isinstance(answer, ConfigKept):
        answer = ConfigChanged(plan=to_json(plan).decode(), plan_hash=plan.content_hash())
    fields = {name: getattr(answer, name) for name in ConfigChanged.__struct_fields__ if name not in _OF_JOURNAL}
    return ConfigHeld(**fields, held=held)


def _with_warnings(answer: ConfigAnswer, said: Sequence[Diagnostic], last: LastReading) -> ConfigAnswer:
    """*answer* with what is new among the warnings in *said*, which *last* remembers."""
    if isinstance(answer, ConfigRejected):
        return answer
    known = last.warnings
    last.warnings = found = {
        (one.file, one.code, one.message): one.summary for one in said if one.severity is Severity.WARNING
    }
    if known is None and isinstance(answer, ConfigKept):
        return answer
    new = (summary for key, summary in found.items() if key not in (known or ()))
    return msgspec.structs.replace(answer, warnings=tuple(new))


def compared(plan: Plan, found: Plan) -> ConfigAnswer:
    """The answer if *found* was read in place of *plan*. Settings fixed at the start keep their values."""
    old, new = plan.coordination, found.coordination
    if not isinstance(new, LoopPlan):
        return ConfigRejected(reason=f"{found.name!r} is no longer a loop")
    if isinstance(old, LoopPlan):
        found = msgspec.structs.replace(found, coordination=msgspec.structs.replace(new, place=old.place))
    keys = tuple(changed(plan, found))
    if not keys:
        return ConfigKept()
    text = to_json(found).decode()
    return ConfigChanged(plan=text, plan_hash=found.content_hash(), keys=keys, diff=difference(plan, found))


def difference(plan: Plan, found: Plan) -> str:
    """The difference between two plans as a unified diff."""
    from difflib import unified_diff

    old, new = list(_lines(msgspec.to_builtins(plan), "")), list(_lines(msgspec.to_builtins(found), ""))
    return "\n".join(unified_diff(old, new, "before", "after", n=1, lineterm=""))


def changed(plan: Plan, found: Plan) -> Iterator[str]:
    """The names of what differs, as settings where possible: `event_loop.max_iterations`, `role.builder`."""
    old, new = plan.coordination, found.coordination
    if isinstance(old, LoopPlan) and isinstance(new, LoopPlan):
        for field in LoopPlan.__struct_fields__:
            if field != "roles" and getattr(old, field) != getattr(new, field):
                yield LOOP_SETTINGS.get(field, field)
        before, after = [role.id for role in old.roles], [role.id for role in new.roles]
        if before != after and sorted(before) == sorted(after):
            yield "order of roles"
        yield from _by_name("role", {r.id: r for r in old.roles}, {r.id: r for r in new.roles})
    yield from _by_name("agent", plan.agents, found.agents)


def _lines(value: Any, path: str) -> Iterator[str]:
    """A plan as lines, with one for each line of a text; roles are named by id."""
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

"""Read the files of a running loop again, and describe the changes. Nothing here ends or changes a run."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from coterie.base.diagnostics import Diagnostic, Severity
from coterie.base.file_fingerprint import FileFingerprint
from coterie.base.shortages import shortage
from coterie.errors import CoterieError
from coterie.history.journal.records import (
    AttemptLaunched,
    ConfigAnswer,
    ConfigChanged,
    ConfigHeld,
    ConfigKept,
    ConfigRejected,
    OperatorSaid,
    PlanReloaded,
    Record,
)
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import Plan, to_json
from coterie.team.planning.protection import LOOP_SETTINGS, Held, strictest

_OF_JOURNAL = Record.__struct_fields__

ReadFiles = Callable[[Plan], tuple[Plan | None, Sequence[Diagnostic]]]
"""Reads the files of a plan again: the new plan, None if the files are invalid, and all diagnostics."""


class LastReading(Struct):
    """What is remembered of the last time that the files of a plan were read.

    Attributes:
        files: Their state at that time.
        held: The settings that were held back; None before the first reading.
        warnings: The warnings about the files, without line numbers, which any edit moves; None before the first
            reading.
    """

    files: FileFingerprint = field(default_factory=FileFingerprint)
    warnings: Collection[tuple[str, str, str]] | None = None
    held: tuple[Held, ...] | None = None


class Trust(NamedTuple):
    """Who may have changed the files of a run, according to its records.

    Attributes:
        confined: Whether every attempt was confined, so that none could change them.
        held: The settings that were last held back; *taken* has those that a person has accepted.
        changed: The settings that a person has changed by command since the files were last read.
    """

    confined: bool = False
    held: tuple[Held, ...] = ()
    taken: frozenset[Held] = frozenset()
    changed: frozenset[str] = frozenset()


def trust_of(run: str, records: Iterable[tuple[str, Record]]) -> Trust:
    """Derive the trust from *records* of the root *run* and its child runs."""
    confined, held, taken, changed = True, tuple[Held, ...](), frozenset[Held](), frozenset[str]()
    for which, record in records:
        match record:
            case AttemptLaunched():
                confined &= record.confined
            case ConfigChanged() if which == run:
                held, changed = record.held if isinstance(record, ConfigHeld) else (), frozenset()
            case ConfigKept() if which == run:
                changed = frozenset()
            case PlanReloaded() if which == run:
                held = ()
            case OperatorSaid(what="take"):
                taken |= set(held)
            case OperatorSaid(what="change"):
                changed |= {record.text}
            case OperatorSaid(what="project"):
                changed |= {"backend.allow"}
    return Trust(confined, held, taken, changed)


def read_again(
    run: str,
    plan: Plan,
    reread: ReadFiles,
    hold: Callable[[Plan], Plan],
    last: LastReading,
    trust: Callable[[], Trust] = Trust,
) -> ConfigAnswer:
    """Read the files of *plan* again if one of them has changed since the last reading; child runs keep their plan.

    The answer has the warnings that the last reading did not have. A first reading that finds the same plan has no new
    warnings: planning the run has reported them.

    Args:
        hold: Replaces the secret values of a plan with references.
        last: The result of the last reading; kept by the caller.
        trust: Derives from the journal whether settings that weaken protection may take effect.
    """
    loop = plan.coordination
    if "/" in run or not isinstance(loop, LoopPlan) or not loop.place.project or last.files.is_current():
        return ConfigKept()
    beside = f"{loop.place.work_dir}/"

    def read(plan: Plan) -> tuple[Plan | None, Sequence[Diagnostic]]:
        """As *reread*, with file names relative to the directory where the run was started, as in planning."""
        found, said = reread(plan)
        return found, [replace(one, file=one.file.removeprefix(beside)) for one in said]

    answer = _answer(plan, read, hold, last, trust)
    if isinstance(answer, ConfigKept) and not last.held:
        last.files.confirm()
    return answer


def _answer(
    plan: Plan, reread: ReadFiles, hold: Callable[[Plan], Plan], last: LastReading, trust: Callable[[], Trust]
) -> ConfigAnswer:
    try:
        with last.files.recorded():
            found, said = reread(plan)
        if found is not None:
            return _with_warnings(_trusted(plan, hold(found), last, trust), said, last)
    except (CoterieError, OSError, ValueError) as error:  # the run goes on, whatever the files contain now
        if shortage(error):
            raise
        return ConfigRejected(reason=str(error))
    errors = [each.summary for each in said if each.is_error]
    return ConfigRejected(reason="\n".join(errors) or "no file could be read")


def _trusted(plan: Plan, found: Plan, last: LastReading, trust: Callable[[], Trust]) -> ConfigAnswer:
    """Compare *plan* with *found*, and hold back changes that weaken protection and may come from an agent."""
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
    """Add the new warnings among *said* to *answer*, and store them all in *last*."""
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
    """Compare *plan* with *found*, the plan read anew. Settings fixed at the start keep their values."""
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
    """The names of the differences, as settings where possible: `event_loop.max_iterations`, `role.builder`."""
    old, new = plan.coordination, found.coordination
    if isinstance(old, LoopPlan) and isinstance(new, LoopPlan):
        for name in LoopPlan.__struct_fields__:
            if name != "roles" and getattr(old, name) != getattr(new, name):
                yield LOOP_SETTINGS.get(name, name)
        before, after = [role.id for role in old.roles], [role.id for role in new.roles]
        if before != after and sorted(before) == sorted(after):
            yield "order of roles"
        yield from _by_name("role", {r.id: r for r in old.roles}, {r.id: r for r in new.roles})
    yield from _by_name("agent", plan.agents, found.agents)


def _lines(value: Any, path: str) -> Iterator[str]:
    """A plan as lines, a long text as one line per line of text; roles are named by id."""
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

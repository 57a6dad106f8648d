"""Read the script of a rehearsal: the behaviour of each agent at each attempt, as JSON.

    {"writer": [{"text": "a draft", "seconds": 3}, {"fail": "timeout"}], "panel/critic": [{"outputs": {"score": 4}}]}

A script is checked completely before the rehearsal; a mistake is a `UsageError` with its place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from coterie.agents.backends.base import FAILURES, Failure
from coterie.agents.backends.script_file import Amount, Emission, convert, load
from coterie.base.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.history.journal.records import Usage
from coterie.team.planning.branches import asked_by_loop
from coterie.team.planning.on_max import ON_MAX
from coterie.team.planning.plan import Plan

Script = Mapping[str, Sequence[Mapping[str, Any]]]
"""The entries for each attempt by agent (`node/agent` in a nested topology); the last entry repeats."""

_BY_SCRIPT = "the script says so"


class ScriptedFailure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an attempt fails; *kind* is one of `FAILURES`."""

    kind: str = "failed"
    reason: str = _BY_SCRIPT

    def __post_init__(self) -> None:
        if self.kind not in FAILURES:
            hint = did_you_mean(self.kind, FAILURES) or f"one of {', '.join(sorted(FAILURES))}"
            raise ValueError(f"unknown kind of failure {self.kind!r}; {hint}")


class ScriptedAttempt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The behaviour of an agent at one attempt.

    Attributes:
        text: The answer; by default as without a script.
        outputs: The outputs; by default found in the text if there is one, else as without a script.
        seconds: How long it takes, in virtual seconds.
        fail: The failure of the attempt, if any: a kind of `FAILURES`, or the reason of a failure of no such kind.
        emits: The events that it emits before it ends.
        usage: The usage that it reports, by the names of `Usage`; by default only its time.
    """

    text: str | UnsetType = UNSET
    outputs: dict[str, Any] | UnsetType = UNSET
    seconds: Amount = 1.0
    fail: str | ScriptedFailure | UnsetType = UNSET
    emits: tuple[Emission, ...] = ()
    usage: dict[str, Amount] | UnsetType = UNSET

    def __post_init__(self) -> None:
        for name, amount in (self.usage or {}).items():
            if name not in Usage.__struct_fields__:
                known = Usage.__struct_fields__
                raise ValueError(f"usage: unknown key {name!r}; {did_you_mean(name, known) or ', '.join(known)}")
            if Usage.__annotations__[name] is int and not amount.is_integer():
                raise ValueError(f"usage.{name}: expected a whole number, got {amount:g}")

    @property
    def used(self) -> Usage:
        """The usage that it reports; its time is *seconds* unless the script sets it."""
        amounts: dict[str, Any] = {"seconds": self.seconds} | {
            name: Usage.__annotations__[name](amount) for name, amount in (self.usage or {}).items() if amount
        }
        return Usage(**amounts)

    @property
    def failure(self) -> Failure | None:
        """How the attempt fails, if it does."""
        match self.fail:
            case str(kind) if kind in FAILURES:
                return Failure(kind=kind, reason=_BY_SCRIPT, usage=self.used)
            case str(reason):
                return Failure(kind="failed", reason=reason, usage=self.used)
            case ScriptedFailure(kind=kind, reason=reason):
                return Failure(kind=kind, reason=reason, usage=self.used)
        return None


def read_script(path: Path, plan: Plan | None = None) -> Script:
    """Read the script at *path*; with a *plan*, every named agent must be in the plan.

    Raises:
        UsageError: If it cannot be read or is invalid.
    """
    data = load(path)
    entries = parse_script(data, str(path))
    if plan is not None:
        check_agents(entries, plan, str(path))
    script: Script = data
    return script


def check_agents(names: Iterable[str], plan: Plan, source: str = "script") -> None:
    """Check that each of *names* is an agent of *plan*; errors name *source*.

    Raises:
        UsageError: If one is unknown.
    """
    known = list(_paths(plan))
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(dict.fromkeys(known))}"
            raise UsageError(f"{source}: {plan.name} has no agent {name!r}; {hint}")


def parse_script(data: Any, source: str = "script") -> dict[str, tuple[ScriptedAttempt, ...]]:
    """Parse the entries of a script by agent; errors name it *source*.

    Raises:
        UsageError: If it is invalid.
    """
    if not isinstance(data, Mapping):
        raise UsageError(f"{source}: a script is an object that maps agents to lists of entries")
    parsed = {}
    for name, entries in data.items():
        where = f"{source}: {name}"
        parsed[name] = convert(entries, tuple[ScriptedAttempt, ...], where, ScriptedAttempt.__struct_fields__)
        if not entries:
            raise UsageError(f"{where}: the list is empty; leave the agent out to let it answer by itself")
    return parsed


def _paths(plan: Plan, above: str = "") -> Iterator[str]:
    for name, agent in asked_by_loop(plan).items():
        yield above + name
        if agent.fallback:
            yield above + agent.fallback
        if agent.child is not None:
            yield from _paths(agent.child, f"{above}{name}/")
    for group in plan.flow.groups if plan.flow is not None else ():
        if group.on_max == "human":
            yield above + ON_MAX + group.source

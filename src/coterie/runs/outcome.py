"""The outcome of the time that an owner drove a run, and its exit status."""

from typing import TYPE_CHECKING, Any, Generic, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from coterie.diagnostics import did_you_mean
from coterie.errors import CoterieError, error_line
from coterie.journal.records import NO_USAGE, Usage
from coterie.kernel.run_exit import RunExit, Waiting
from coterie.planning.plan import Limits
from coterie.topology.typed.values import value_of
from coterie.views.words import dollars

EXIT_COMPLETED, EXIT_FAILED, EXIT_USAGE, EXIT_LIMIT, EXIT_WAITING, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130
_EXITS = {"waiting": EXIT_WAITING, "interrupted": EXIT_INTERRUPTED, "stuck": EXIT_FAILED}


class Values(dict[str, Any]):
    """Values by name, which are attributes as well: `values["final_approved"]`, `values.final_approved`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            hint = did_you_mean(name, self) or f"there are {', '.join(self) or 'none'}"
            raise AttributeError(f"no value {name!r}; {hint}")
        return self[name]

    def to_dict(self) -> dict[str, Any]:
        """The values as a plain dictionary."""
        return dict(self)


class RunResult(dict[str, Any]):
    """The result of a run: a dictionary with typed access; empty without a result."""

    @property
    def text(self) -> str:
        """The answer as one text."""
        return str(self.get("text") or "")

    @property
    def outputs(self) -> dict[str, Any]:
        """The outputs by agent or, of a pattern, by its kind; tables of values have them as attributes, too."""
        found = self.get("outputs") or {}
        return {name: Values(value) if isinstance(value, dict) else value for name, value in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The result as a plain dictionary."""
        return dict(self)


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # `typing` has defaults from Python 3.13

    R = TypeVar("R", default=RunResult)
else:
    from typing import TypeVar

    R = TypeVar("R")


class NoResult:
    """Replaces the result of a typed flow that has none; every use of it raises.

    Args:
        why: How the run ended.
    """

    def __init__(self, why: str) -> None:
        self.__dict__["_why"] = why

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CoterieError(f"the run has no result: it {self._why}")

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<no result: the run {self._why}>"


class Outcome(Struct, Generic[R], frozen=True, kw_only=True):
    """How an owner's time with a run ended.

    Attributes:
        result: A dictionary with `text` and `outputs`; of a typed flow, the value that its exit gave.
        status: `completed`, `failed`, or `stopped` (it can be resumed).
        reason: Why it failed or stopped.
        until: When the quota opens until which it was stopped, in Unix seconds; 0: it was not.
        exit: The exit status that says the same.
        waited: How long it was not, between its stops and its resumes.
        seconds: How long the run was owned in all; *usage* adds up what its attempts took, side by side or not.
        waiting: The questions to humans that are open.
        overshoot: The amount by which running attempts exceeded a budget after it was reached; empty if they did not.
        notices: Further notices: where the work is, which notification failed.
        iterations: How many iterations a loop has begun; None: the run is no loop.
        missing: The values that conditions of a flow read and that no turn has given, as `agent.output`.
        limits: Those that were in force; a resume keeps them.
        way_on: How a failed run may be continued: `retry` (a turn failed it), `fork` (no turn failed, it was decided
            so) or `merge` (its work is not merged yet); empty: only by starting again.
    """

    run: str
    status: str
    reason: str = ""
    result: R = field(default_factory=RunResult)  # type: ignore[assignment]  # of a run without a typed result
    exit: int = EXIT_COMPLETED
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    waited: float = 0.0
    waiting: tuple[Waiting, ...] = ()
    overshoot: str = ""
    notices: tuple[str, ...] = ()
    iterations: int | None = None
    missing: tuple[str, ...] = ()
    until: float = 0.0
    limits: Limits = Limits()
    way_on: str = ""


def typed(outcome: Outcome, type_: Any, exit: str) -> Outcome[Any]:
    """*outcome* with the answer of *exit* as a value of *type_*; as it is where that has no type."""
    if outcome.status != "completed":
        why = f"{outcome.status}: {outcome.reason}" if outcome.reason else outcome.status
        return replace(outcome, result=NoResult(why))
    if type_ is None:
        return outcome
    outputs = outcome.result.outputs
    if exit not in outputs:
        return replace(outcome, result=NoResult(f"completed, and {exit!r} gave no answer"))
    try:
        return replace(outcome, result=value_of(type_, outputs[exit], outcome.result.text))
    except ValueError as error:  # of a type that checks more than its schema says: the run is paid for all the same
        why = f"completed, and the answer of {exit!r} does not fit its type: {error_line(error)}"
        return replace(outcome, result=NoResult(why))


def outcome_of(ended: RunExit) -> Outcome:
    """*ended*, with its exit status and its overspending."""
    shared = {name: getattr(ended, name) for name in RunExit.__struct_fields__ if name != "result"}
    result = RunResult(ended.result) if isinstance(ended.result, dict) else RunResult()
    return Outcome(**shared, result=result, exit=exit_of(ended), overshoot=_overshoot(ended))


def exit_of(ended: RunExit) -> int:
    """The exit status that says how a run ended or stopped."""
    if ended.status == "stopped":
        return _EXITS.get(ended.reason, EXIT_LIMIT)
    return EXIT_COMPLETED if ended.status == "completed" else EXIT_FAILED


def _overshoot(ended: RunExit) -> str:
    budget = ended.limits.max_cost
    if budget is not None and ended.usage.cost > budget:
        over = ended.usage.cost - budget
        return f"{dollars(over)} above --max-cost, by what was running when it was reached"
    return ""

"""The outcome of a run, as its owner left it, and its exit status."""

from typing import TYPE_CHECKING, Any, Generic, NoReturn

from msgspec import field
from msgspec.structs import replace

from coterie.base.diagnostics import did_you_mean
from coterie.errors import CoterieError, error_line
from coterie.execution.kernel.run_exit import RunExit
from coterie.history.views.words import dollars
from coterie.team.topology.typed.values import value_of

EXIT_COMPLETED, EXIT_FAILED, EXIT_USAGE, EXIT_LIMIT, EXIT_WAITING, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130
_EXITS = {"waiting": EXIT_WAITING, "interrupted": EXIT_INTERRUPTED, "stuck": EXIT_FAILED}


class Values(dict[str, Any]):
    """Values by name, also available as attributes: `values["final_approved"]`, `values.final_approved`."""

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
        """The outputs by agent or, for a pattern, by its kind; nested values are also available as attributes."""
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
    """A placeholder for a missing result of a typed flow; every use of it raises.

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


class Outcome(RunExit, Generic[R], frozen=True, kw_only=True):
    """How a run ended or stopped.

    It is the state in which its owner left it, and what a program or a shell does with that.

    Attributes:
        result: A dictionary with `text` and `outputs`; for a typed flow, the value that its exit returned.
        exit: The corresponding exit status: 1 also after a flow that ended since a condition read nothing (*unread*).
        overshoot: The amount by which running attempts exceeded the budget after it was reached; empty if they did not.
        notices: Further notices: where the work is, which notification failed.
    """

    result: R = field(default_factory=RunResult)  # type: ignore[assignment]  # for a run without a typed result
    exit: int = EXIT_COMPLETED
    overshoot: str = ""
    notices: tuple[str, ...] = ()


def typed(outcome: Outcome, type_: Any, exit: str) -> Outcome[Any]:
    """Convert the answer of *exit* in *outcome* to *type_*; without a type, return *outcome* unchanged."""
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
    except ValueError as error:  # from a type that checks more than its schema; do not raise, the run has been paid for
        why = f"completed, and the answer of {exit!r} does not fit its type: {error_line(error)}"
        return replace(outcome, result=NoResult(why))


def outcome_of(ended: RunExit) -> Outcome:
    """Turn *ended* into an outcome, with its exit status and overspending."""
    shared = {name: getattr(ended, name) for name in RunExit.__struct_fields__ if name != "result"}
    result = RunResult(ended.result) if isinstance(ended.result, dict) else RunResult()
    return Outcome(**shared, result=result, exit=exit_of(ended), overshoot=_overshoot(ended))


def exit_of(ended: RunExit) -> int:
    """The exit status for how a run ended or stopped."""
    if ended.status == "stopped":
        return _EXITS.get(ended.reason, EXIT_LIMIT)
    return EXIT_COMPLETED if ended.status == "completed" and not ended.unread else EXIT_FAILED


def _overshoot(ended: RunExit) -> str:
    budget = ended.limits.max_cost
    if budget is not None and ended.usage.cost > budget:
        over = ended.usage.cost - budget
        return f"{dollars(over)} above --max-cost, by what was running when it was reached"
    return ""

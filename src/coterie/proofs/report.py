"""The report of a proof: numbers, findings, and runs that demonstrate them."""

from typing import Any

import msgspec
from msgspec import Struct

from coterie.diagnostics import Diagnostic, Severity, Span
from coterie.planning.plan import Plan
from coterie.proofs.witness import Script

EXACT = "exact"
BOUND = "bound"


class Case(Struct, frozen=True, kw_only=True):
    """The most or the fewest turns of a run.

    Attributes:
        turns: In total, as `--max-turns` counts them.
        agents: By agent, `node/agent` in the topology that answers at a node. In the worst case each by itself: the
            agents may have their worst cases in different runs.
        script: A rehearsal with exactly that total; None: none was computed.
    """

    turns: int
    agents: dict[str, int] = {}
    script: Script | None = None


class Cost(Struct, frozen=True, kw_only=True):
    """The worst cost of a run, in dollars.

    Attributes:
        turns: If every turn succeeds at its first attempt.
        attempts: If every turn takes all attempts that its agent's `retry` allows. Attempts that fail for a passing
            cause (429, 5xx, connection) are retried besides, and are not counted.
    """

    turns: float
    attempts: float


class Join(Struct, frozen=True, kw_only=True):
    """A node where several branches join.

    Attributes:
        branches: The sources of the branches.
        whole: Whether it always starts with all of them.
    """

    node: str
    branches: tuple[str, ...]
    whole: bool


class Finding(Struct, frozen=True):
    """A finding.

    Attributes:
        code: Stable, like that of any diagnostic.
        script: The shortest run that shows it, for `run --rehearse`; None if no run can.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    hint: str = ""
    script: Script | None = None

    def diagnostic(self, file: str = "") -> Diagnostic:
        """The finding as a diagnostic."""
        return Diagnostic(
            code=self.code, severity=self.severity, message=self.message, span=self.span, hint=self.hint, file=file
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: that of a diagnostic, and the script."""
        return {**self.diagnostic().to_dict(), "script": self.script}


class Report(Struct, frozen=True, kw_only=True):
    """The report of a proof.

    Attributes:
        method: `exact`: every state was explored and every number is reached by some run; `bound`: the numbers were
            counted, from too many arrows or from the counts of a pattern: no run takes more, and perhaps none takes as
            many.
        states: The number of explored states.
        ends: Whether every run ends, provided every turn does.
        worst: None: unbounded.
        best: The run that completes with the fewest turns without failures; None: unknown, or no run completes.
        usual: A run without failures and early ends; None: unknown. Only patterns have it.
        cost: None without prices.
        joins: In the order of the flow; empty if not every state was explored.
    """

    plan: str
    method: str
    states: int
    ends: bool
    worst: Case | None
    best: Case | None
    usual: Case | None = None
    cost: Cost | None = None
    joins: tuple[Join, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def has_errors(self) -> bool:
        """Whether a finding should keep the plan from running."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, findings=()))
        return {**plain, "findings": [finding.to_dict() for finding in self.findings]}


def unproved(plan: Plan, what: str) -> Report:
    """The report on a plan of which nothing can be proved, because of *what*."""
    message = f"nothing can be proved: what {what!r} does is known only when it runs"
    found = Finding("not-proved", Severity.NOTE, message)
    return Report(plan=plan.name, method=BOUND, states=0, ends=False, worst=None, best=None, findings=(found,))

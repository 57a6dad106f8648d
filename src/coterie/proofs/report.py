"""The report of a proof: numbers, findings, and runs that demonstrate them."""

from typing import Any

import msgspec
from msgspec import Struct

from coterie.base.diagnostics import Diagnostic, Severity, Span
from coterie.proofs.witness import Script
from coterie.team.planning.plan import Plan

EXACT = "exact"
BOUND = "bound"


class Case(Struct, frozen=True, kw_only=True):
    """The most or the fewest turns of a run.

    Attributes:
        turns: The total, as `--max-turns` counts turns.
        agents: The turns by agent, `node/agent` in the team at a node. In the worst case each number is independent:
            agents may have their worst cases in different runs.
        script: A rehearsal with exactly that total; None: none was computed.
    """

    turns: int
    agents: dict[str, int] = {}
    script: Script | None = None


class Cost(Struct, frozen=True, kw_only=True):
    """The worst cost of a run, in dollars.

    Attributes:
        turns: The cost if every turn succeeds at its first attempt.
        attempts: The cost if every turn takes all attempts that its agent's `retry` allows. Attempts that fail for a
            passing cause (429, 5xx, connection) are retried in addition, and are not counted.
    """

    turns: float
    attempts: float


class Join(Struct, frozen=True, kw_only=True):
    """A node where several branches join.

    Attributes:
        branches: The sources of the branches.
        whole: Whether it always starts with all its branches.
    """

    node: str
    branches: tuple[str, ...]
    whole: bool


class Finding(Struct, frozen=True):
    """A finding.

    Attributes:
        code: The stable code, as of any diagnostic.
        script: The shortest run that shows the finding, for `run --rehearse`; None if no run can.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    hint: str = ""
    script: Script | None = None

    def diagnostic(self, file: str = "") -> Diagnostic:
        """Convert the finding to a diagnostic."""
        return Diagnostic(
            code=self.code, severity=self.severity, message=self.message, span=self.span, hint=self.hint, file=file
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: that of a diagnostic, and the script."""
        return {**self.diagnostic().to_dict(), "script": self.script}


class Report(Struct, frozen=True, kw_only=True):
    """The report of a proof.

    Attributes:
        method: `exact`: every state was explored, and some run reaches every number. `bound`: the numbers were counted,
            because there are too many states or the plan is a pattern; no run takes more, and perhaps none takes as
            many.
        states: The number of explored states.
        ends: Whether every run ends, provided every turn does.
        worst: The maximum numbers of turns; None: unbounded.
        best: The completing run with the fewest turns without failures; None: unknown, or no run completes.
        usual: A run without failures and early ends; None: unknown. Only patterns have it.
        cost: The worst cost; None without prices.
        joins: The joins in the order of the flow; empty if not every state was explored.
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
    """The report on a plan about which nothing can be proved, because of *what*."""
    message = f"nothing can be proved: what {what!r} does is known only when it runs"
    found = Finding("not-proved", Severity.NOTE, message)
    return Report(plan=plan.name, method=BOUND, states=0, ends=False, worst=None, best=None, findings=(found,))

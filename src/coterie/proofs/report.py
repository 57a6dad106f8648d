"""What was proved of a plan, as values: numbers, findings, and the runs that show them."""

from typing import Any

import msgspec
from msgspec import Struct

from coterie.diagnostics import Diagnostic, Severity, Span
from coterie.proofs.witness import Script

EXACT = "exact"
BOUND = "bound"


class Case(Struct, frozen=True, kw_only=True):
    """The most or the fewest turns that a run can take.

    Attributes:
        turns: In total, as `--max-turns` counts them.
        agents: By agent, `node/agent` in the topology that answers at a node. At worst each by itself: not every agent
            need have its worst in the same run.
        script: A rehearsal of exactly so many turns in total; None: none was looked for.
    """

    turns: int
    agents: dict[str, int] = {}
    script: Script | None = None


class Cost(Struct, frozen=True, kw_only=True):
    """What a run can cost at worst, in dollars.

    Attributes:
        turns: When every turn succeeds at its first attempt.
        attempts: When every turn takes all attempts that its agent's `retry` allows. Attempts that fail for a passing
            cause (429, 5xx, connection) are tried again besides, and are not counted.
    """

    turns: float
    attempts: float


class Join(Struct, frozen=True, kw_only=True):
    """A node where several branches come together.

    Attributes:
        branches: Where they come from.
        whole: Whether it always starts with all of them.
    """

    node: str
    branches: tuple[str, ...]
    whole: bool


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was found.

    Attributes:
        code: Stable, like that of any diagnostic.
        script: The run of the fewest turns that shows it, for `run --rehearse`; None where no run can.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    hint: str = ""
    script: Script | None = None

    def diagnostic(self, file: str = "") -> Diagnostic:
        """The same as readers and checks say it."""
        return Diagnostic(
            code=self.code, severity=self.severity, message=self.message, span=self.span, hint=self.hint, file=file
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: that of a diagnostic, and the script."""
        return {**self.diagnostic().to_dict(), "script": self.script}


class Report(Struct, frozen=True, kw_only=True):
    """What was proved of a plan.

    Attributes:
        method: `exact`: every state was looked at and every number is reached by some run; `bound`: the
            numbers were counted, from the arrows, of which there are too many, or from what a pattern says of itself:
            no run takes more, perhaps none takes as many.
        states: How many states were looked at.
        ends: Whether every run ends, as long as every turn does.
        worst: None: nothing bounds it.
        best: The run that completes with the fewest turns when nothing fails; None: not known, or no run completes.
        usual: What a run takes when nothing fails and nothing ends early; None: not known. Patterns have it.
        cost: None without prices.
        joins: In the order of the flow; empty when not every state was looked at.
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
        """Whether something was found that should keep the plan from running."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        plain: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, findings=()))
        return {**plain, "findings": [finding.to_dict() for finding in self.findings]}

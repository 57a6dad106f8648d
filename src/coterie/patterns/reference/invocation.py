"""The argument of a program, and the result of a call."""

import json
from typing import Any, Optional
from uuid import UUID

from pydantic import BaseModel, Field, PrivateAttr

from coterie.history.engines.program import Outcome
from coterie.history.journal.records import TurnFinished
from coterie.patterns.reference.plain import plain_object
from coterie.patterns.reference.trusted import model
from coterie.patterns.rows.fold import reasoning_text
from coterie.team.topology.conditions import is_number


class ExecutionContext(BaseModel):
    """The context of one execution.

    Attributes:
        topology_id: 0 without rows.
        round_number: Set by the program; messages carry it.
    """

    execution_id: UUID
    topology_id: int
    input_data: dict[str, Any]
    metadata: dict[str, Any] = Field(default_factory=dict)
    round_number: int = 0
    parent_context: Optional["ExecutionContext"] = None


class AgentInvocationResult(BaseModel):
    """The result of calling an agent.

    Attributes:
        output: The response; empty after a failure.
        confidence: The stated confidence, from 0 to 1.
        duration_ms: The duration of all attempts together.
        error: Why there is no answer after all attempts.
    """

    agent_instance_id: UUID
    output: dict[str, Any]
    confidence: float | None = None
    reasoning: str | None = None
    token_usage: dict[str, int] | None = None
    duration_ms: int
    error: str | None = None

    _outcome: Outcome | None = PrivateAttr(default=None)
    """The recorded outcome of the call; None for a result that the program created."""

    @property
    def text(self) -> str:
        """The answer as text; empty without one."""
        content = self.output.get("content")
        if content is None:
            return ""
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def result_of(outcome: Outcome, instance: UUID, took: int) -> AgentInvocationResult:
    """The result of a call from its *outcome*; *took* in milliseconds."""
    values = {"agent_instance_id": instance, "duration_ms": took, **_outcome_fields(outcome)}
    return model(AgentInvocationResult, values, {"_outcome": outcome})


def is_unchanged(result: AgentInvocationResult, outcome: Outcome) -> bool:
    """Whether *result* is unchanged from *outcome*."""
    return all(getattr(result, name) == said for name, said in _outcome_fields(outcome).items())


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """The fields of a result that follow from *outcome*."""
    if not isinstance(outcome, TurnFinished):
        return {"output": {}, "confidence": None, "reasoning": None, "token_usage": None, "error": outcome.reason}
    response = response_of(outcome)
    return {
        "output": response,
        "confidence": _confidence(response.get("_confidence")),
        "reasoning": reasoning_text(response.get("_reasoning")),
        "token_usage": _tokens(response.get("usage")),
        "error": None,
    }


def split(response: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """*response* as a turn stores it: its text, and everything else."""
    content = response.get("content")
    if isinstance(content, str) and content:
        return content, {name: value for name, value in response.items() if name != "content"}
    return "", response


def response_of(finished: TurnFinished) -> dict[str, Any]:
    """The response stored in *finished*."""
    text = {"content": finished.text} if finished.text else {}
    return text | plain_object(finished.outputs, "the response") if finished.outputs else text


def _confidence(said: Any) -> float | None:
    return float(said) if is_number(said) and 0 <= said <= 1 else None


def _tokens(usage: Any) -> dict[str, int] | None:
    if not isinstance(usage, dict):
        return None
    return {name: n for name, n in usage.items() if isinstance(n, int) and not isinstance(n, bool)} or None

"""What a program is given when it runs, and what it gets for a call."""

import json
from typing import Any, Optional
from uuid import UUID

from pydantic import BaseModel, Field, PrivateAttr

from coterie.engines.program import Outcome
from coterie.journal.records import NO_USAGE, TurnFinished, Usage


class ExecutionContext(BaseModel):
    """What one execution is about, for the code that runs it.

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
    """What came of asking an agent.

    Attributes:
        output: The response; empty after a failure.
        confidence: How sure the agent says it is, from 0 to 1.
        duration_ms: How long it took, all attempts together.
        error: Why there is no answer, after all attempts.
    """

    agent_instance_id: UUID
    output: dict[str, Any]
    confidence: float | None = None
    reasoning: str | None = None
    token_usage: dict[str, int] | None = None
    duration_ms: int
    error: str | None = None

    _turn: str = PrivateAttr(default="")
    _kind: str = PrivateAttr(default="")
    _attempt: int = PrivateAttr(default=1)
    _usage: Usage = PrivateAttr(default_factory=lambda: NO_USAGE)

    @property
    def text(self) -> str:
        """What the agent answered, as text."""
        content = self.output.get("content", "")
        return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def result_of(outcome: Outcome, instance: UUID, took: int) -> AgentInvocationResult:
    """What *outcome* is for the program that made the call; *took* in milliseconds."""
    if not isinstance(outcome, TurnFinished):
        kind = getattr(outcome, "kind", "cancelled")
        made = AgentInvocationResult(agent_instance_id=instance, output={}, duration_ms=took, error=outcome.reason)
        made._turn, made._kind = outcome.turn, kind
        return made
    response = response_of(outcome)
    made = AgentInvocationResult(
        agent_instance_id=instance,
        output=response,
        confidence=_confidence(response.get("_confidence")),
        reasoning=_reasoning(response.get("_reasoning")),
        token_usage=_tokens(response.get("usage")),
        duration_ms=took,
    )
    made._turn, made._attempt, made._usage = outcome.turn, outcome.attempt, outcome.usage
    return made


def split(response: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """*response* as a turn keeps it: its text, and everything else."""
    content = response.get("content")
    if isinstance(content, str) and content:
        return content, {name: value for name, value in response.items() if name != "content"}
    return "", response


def response_of(finished: TurnFinished) -> dict[str, Any]:
    """The response that *finished* keeps."""
    text = {"content": finished.text} if finished.text else {}
    copied: dict[str, Any] = json.loads(json.dumps(finished.outputs))
    return text | copied


def _confidence(said: Any) -> float | None:
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    return float(said) if is_number and 0 <= said <= 1 else None


def _reasoning(said: Any) -> str | None:
    steps = said.get("steps") if isinstance(said, dict) else said
    if isinstance(steps, list):
        return "\n".join(str(step) for step in steps) or None
    return str(steps) if steps else None


def _tokens(usage: Any) -> dict[str, int] | None:
    if not isinstance(usage, dict):
        return None
    return {name: n for name, n in usage.items() if isinstance(n, int) and not isinstance(n, bool)} or None

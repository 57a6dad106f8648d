"""Fold a run's records into rows: executions, agent instances, messages and results. Pure; writes nothing.

Ids follow from the run (`coterie.patterns.identity`) and times from the records, so the same journal always gives the
same rows.
"""

from collections.abc import Container, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct

from coterie.history.engines.patterns.structured import confidence
from coterie.history.journal import records as r
from coterie.patterns.identity import execution_id, instance_id, message_id, result_id
from coterie.patterns.rows.definitions import ExecutionDefinition, Values, definition
from coterie.patterns.rows.enums import ExecutionStatus, MessageType
from coterie.patterns.rows.kinds import as_json, as_text
from coterie.team.planning.plan import Plan, from_json

LET_GO = "no process is running it; it can be resumed"
LEFT = "its parent run has ended"
_PAUSED = {"status": ExecutionStatus.PAUSED, "error": LET_GO}


class RowUpdate(NamedTuple):
    """The current values of a row; a later one of the same table and id replaces it.

    An execution names its topology, under `topology`, and an instance its agent type, under `agent_type`: the database
    assigns their ids.
    """

    table: str
    id: UUID
    values: Values


class _RunState(Struct):
    """The state of one run and, if it has rows, what the next ones depend on."""

    plan: Plan | None = None
    definition: ExecutionDefinition | None = None
    execution: Values = {}
    instances: dict[str, Values] = {}
    began: dict[str, float] = {}
    agents: dict[str, str] = {}
    messages: int = 0
    children: dict[str, None] = {}
    """Its child runs, in order."""


class RowFold:
    """Folds runs into rows; takes the records of each run in order, a run before its child runs.

    fold = RowFold()
    rows = [row for run, record in history(store.read, "r1") for row in fold.apply(run, record)]
    """

    def __init__(self) -> None:
        self._runs: dict[str, _RunState] = {}

    def definition(self, run: str) -> ExecutionDefinition | None:
        """The definition behind *run*; None if it has no rows."""
        return self._runs[run].definition if run in self._runs else None

    def apply(self, run: str, record: r.Record) -> Iterator[RowUpdate]:
        """Take the next record of *run*; yield the rows that it changes."""
        known = self._runs.setdefault(run, _RunState())
        if isinstance(record, r.RunStarted):
            yield from self._began(known, record)
        elif known.definition is not None:
            yield from self._went_on(known, known.definition, run, record)
        if isinstance(record, r.RunFinished):
            over = {"status": ExecutionStatus.CANCELLED, "completed_at": _time(record.at), "error": LEFT}
            yield from self._let_go(known.children, over)
        elif isinstance(record, r.RunStopped):
            yield from self._let_go(known.children, _PAUSED)

    def let_go(self) -> Iterator[RowUpdate]:
        """Mark all running executions as paused, because they have no owner any more."""
        yield from self._let_go(self._runs, _PAUSED)

    def forget(self, run: str) -> Iterator[str]:
        """Forget *run* and its child runs; yield their names."""
        if (known := self._runs.pop(run, None)) is not None:
            yield run
            for child in known.children:
                yield from self.forget(child)

    def _let_go(self, runs: Iterable[str], changes: Values) -> Iterator[RowUpdate]:
        for known in [self._runs[run] for run in runs if run in self._runs]:
            if known.execution and known.execution["status"] is ExecutionStatus.RUNNING:
                yield self._now(known, **changes)
            yield from self._let_go(known.children, changes)

    # -- an execution -------------------------------------------------------------------------------------------------

    def _began(self, known: _RunState, record: r.RunStarted) -> Iterator[RowUpdate]:
        run, parent = record.run, self._runs.get(record.parent)
        if parent is not None:
            parent.children[run] = None
        known.plan = from_json(record.plan) if record.plan else self._of_parent(record)
        known.definition = definition(known.plan) if known.plan is not None else None
        if known.definition is None:
            return
        metadata: Values = {"run": run}
        if parent is not None and parent.execution:
            metadata["parent"] = str(execution_id(record.parent))
        known.execution = {
            "id": execution_id(run),
            "topology": known.definition.topology["name"],
            "status": ExecutionStatus.RUNNING,
            "input_data": as_json(record.input),
            "output_data": None,
            "correlation_id": known.definition.correlation and as_text(known.definition.correlation),
            "metadata": metadata,
            "started_at": _time(record.at),
            "completed_at": None,
            "error": None,
            "error_details": None,
        }
        yield self._now(known)
        for slot, agent in known.definition.agents.items():
            known.instances[slot] = {
                "id": instance_id(run, slot),
                "agent_type": agent["name"],
                "execution_id": known.execution["id"],
                "state": {},
                "metadata": {"slot": slot},
                "created_at": _time(record.at),
                "last_active": None,
            }
            yield self._instance(known, slot)

    def _of_parent(self, record: r.RunStarted) -> Plan | None:
        parent = self._runs.get(record.parent)
        if parent is None or parent.plan is None:
            return None
        turn = record.run[len(record.parent) + 1 :].rpartition(".")[0]
        agent = parent.plan.agents.get(turn.rpartition("#")[0])
        return agent.child if agent is not None else None

    def _went_on(
        self, known: _RunState, definition: ExecutionDefinition, run: str, record: r.Record
    ) -> Iterator[RowUpdate]:
        match record:
            case r.RunOwned() if record.epoch > 1:
                yield self._now(
                    known, status=ExecutionStatus.RUNNING, completed_at=None, error=None, error_details=None
                )
            case r.RunStopped():
                yield self._stopped(known, record)
            case r.RunFinished():
                yield self._finished(known, definition, record)
            case r.TurnStarted():
                known.began.setdefault(record.turn, record.at)
                known.agents[record.turn] = record.agent
            case r.TurnFinished():
                yield from self._answered(known, run, record)
            case r.TurnFailed():
                output = {"error": record.reason, "kind": record.kind}
                yield from self._result(known, run, record.turn, known.agents.get(record.turn, ""), record.at, output)
            case r.CallAsked() if record.state is not None:
                yield from self._remembers(known, record.agent, record.state)
            case r.StateChanged():
                yield from self._remembers(known, record.agent, record.state)
            case r.ResultRecorded():
                yield from self._result(
                    known,
                    run,
                    record.id,
                    record.agent,
                    record.at,
                    record.output,
                    confidence=record.confidence,
                    reasoning=record.reasoning and as_text(record.reasoning),
                    token_usage=record.tokens,
                )
            case r.MessageSent():
                yield from self._said(known, run, record)

    def _stopped(self, known: _RunState, record: r.RunStopped) -> RowUpdate:
        if record.reason == "interrupted":
            return self._now(
                known, status=ExecutionStatus.CANCELLED, completed_at=_time(record.at), error=record.reason
            )
        return self._now(known, status=ExecutionStatus.PAUSED, error=as_text(f"stopped: {record.reason}"))

    def _finished(self, known: _RunState, definition: ExecutionDefinition, record: r.RunFinished) -> RowUpdate:
        completed = _time(record.at)
        if record.outcome == "completed":
            output = _output(record.result, definition.type)
            return self._now(
                known, status=ExecutionStatus.COMPLETED, completed_at=completed, output_data=output, error=None
            )
        cancelled = record.outcome == "cancelled"
        return self._now(
            known,
            status=ExecutionStatus.CANCELLED if cancelled else ExecutionStatus.FAILED,
            completed_at=completed,
            error=as_text(record.reason) or record.outcome,
            error_details=as_json(record.result) if isinstance(record.result, dict) else None,
        )

    def _now(self, known: _RunState, **changes: Any) -> RowUpdate:
        known.execution = {**known.execution, **changes}
        return RowUpdate("executions", known.execution["id"], known.execution)

    # -- what its agents do -------------------------------------------------------------------------------------------

    def _answered(self, known: _RunState, run: str, record: r.TurnFinished) -> Iterator[RowUpdate]:
        usage, output = record.usage, {"content": record.text, **record.outputs}
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        reasoning = reasoning_text(record.outputs.get("_reasoning"))
        if usage.cached_tokens:
            tokens["cached_tokens"] = usage.cached_tokens
        yield from self._result(
            known,
            run,
            record.turn,
            known.agents.get(record.turn, ""),
            record.at,
            output,
            confidence=confidence(record),
            reasoning=reasoning and as_text(reasoning),
            token_usage=tokens if any(tokens.values()) else None,
        )

    def _result(
        self, known: _RunState, run: str, name: str, slot: str, at: float, output: Values, **more: Any
    ) -> Iterator[RowUpdate]:
        if slot not in known.instances:
            return
        yield self._instance(known, slot, last_active=_time(at))
        values = {
            "id": result_id(run, name),
            "execution_id": known.execution["id"],
            "agent_instance_id": known.instances[slot]["id"],
            "output": as_json(output),
            "confidence": None,
            "reasoning": None,
            "token_usage": None,
            "started_at": _time(known.began.pop(name, at)),
            "completed_at": _time(at),
            **more,
        }
        yield RowUpdate("results", values["id"], values)

    def _remembers(self, known: _RunState, slot: str, state: Values) -> Iterator[RowUpdate]:
        if slot in known.instances:
            yield self._instance(known, slot, state=as_json(state))

    def _said(self, known: _RunState, run: str, record: r.MessageSent) -> Iterator[RowUpdate]:
        known.messages += 1
        if record.sender not in known.instances:
            return
        values = message_values(run, known.messages, record, known.instances)
        yield RowUpdate("messages", values["id"], values)

    def _instance(self, known: _RunState, slot: str, **changes: Any) -> RowUpdate:
        values = known.instances[slot] = {**known.instances[slot], **changes}
        return RowUpdate("agent_instances", values["id"], values)


def message_values(run: str, n: int, record: r.MessageSent, slots: Container[str]) -> Values:
    """The columns of the *n*-th message of *run*; a recipient that is none of *slots* is all."""
    return {
        "id": message_id(run, n),
        "execution_id": execution_id(run),
        "sender_id": instance_id(run, record.sender),
        "recipient_id": instance_id(run, record.recipient) if record.recipient in slots else None,
        "message_type": MessageType(record.type),
        "content": as_json(record.content),
        "round_number": record.round,
        "sequence_number": n,
        "created_at": _time(record.at),
    }


def _output(result: Any, type: str) -> Values:
    """The output of a pattern under the keys of the reference."""
    if not isinstance(result, dict):
        return {"text": "" if result is None else str(result)}
    outputs = result.get("outputs")
    given = outputs.get(type) if isinstance(outputs, dict) else None
    return dict(as_json(given if isinstance(given, dict) else result))


def reasoning_text(said: Any) -> str | None:
    """An agent's `_reasoning` as one text: its steps, one per line."""
    steps = said.get("steps") if isinstance(said, dict) else said
    text = "\n".join(map(str, steps)) if isinstance(steps, list | tuple) else str(steps or "")
    return text or None


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)

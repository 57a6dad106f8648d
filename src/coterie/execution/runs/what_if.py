"""Forks that ask "what if": with another input, or with another answer in place of a recorded one."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coterie.agents.actors.inputs import check_read
from coterie.base.diagnostics import did_you_mean
from coterie.errors import UsageError
from coterie.history.engines.commands import Reply
from coterie.history.engines.replies import judge_reply
from coterie.history.journal.records import AttemptFailed, Record, RunStarted, TurnFinished, TurnStarted
from coterie.team.planning.changes import agents, value_of
from coterie.team.planning.plan import Plan

Answers = Mapping[str, Mapping[str, Any] | str]
"""Other answers by turn, or by agent for its latest turn: values of some of its outputs, or a text."""


class ForkAgent(Struct, frozen=True, kw_only=True):
    """An agent of a run as a fork can change it: its prompt and its model, None where it has none."""

    name: str
    prompt: str | None
    model: str | None


class ForkAnswer(Struct, frozen=True, kw_only=True):
    """An answer that a fork can change: that of *turn*, at the record *seq*. Without *outputs* it is its *text*."""

    turn: str
    seq: int
    text: str
    outputs: dict[str, Any]


class ForkValues(Struct, frozen=True, kw_only=True):
    """What a fork can change, with the present values."""

    agents: list[ForkAgent]
    input: dict[str, Any]
    answers: list[ForkAnswer]


def values(records: Sequence[Record], plan: Plan) -> ForkValues:
    """What a fork of a run with these *records* and this *plan* can change."""
    first = records[0]
    return ForkValues(
        agents=[
            ForkAgent(name=name, prompt=value_of(team, agent, "prompt"), model=value_of(team, agent, "model"))
            for name, team, agent in agents(plan)
        ],
        input={"prompt": "", **first.input} if isinstance(first, RunStarted) else {},
        answers=[
            ForkAnswer(turn=one.turn, seq=one.seq, text=one.text, outputs=one.outputs)
            for one in records
            if isinstance(one, TurnFinished)
        ],
    )


def place_for(records: Sequence[Record], given: Mapping[str, Any] | None, answers: Answers | None) -> int | None:
    """The record to fork at if the caller names none; None: the usual one.

    It is the latest changed answer, or with another input the last record before the first turn.
    """
    if answers:
        return max(_turn(records, name, len(records)).seq for name in answers)
    if given:
        first = next((one for one in records if isinstance(one, TurnStarted)), None)
        return first.seq - 1 if first is not None else None
    return None


def changes(
    records: Sequence[Record], upto: int, plan: Plan, given: Mapping[str, Any] | None, answers: Answers | None
) -> dict[int, Record]:
    """The records, by number, that are other ones in a fork of the first *upto* of *records*.

    Raises:
        UsageError: If a change means nothing for this run, or an answer is none that its agent could give.
    """
    found: dict[int, Record] = {}
    first = records[0]
    if given and isinstance(first, RunStarted):
        check_read(plan, given, first.input)
        found[1] = replace(first, input={**first.input, **given})
    for name, answer in (answers or {}).items():
        finished = _turn(records, name, upto)
        found[finished.seq] = _answered(plan, finished, answer)
    return found


def _turn(records: Sequence[Record], name: str, upto: int) -> TurnFinished:
    """The latest answer of *name*, a turn or an agent, among the first *upto* records."""
    finished = (one for one in records if isinstance(one, TurnFinished))
    found = [one for one in finished if name in (one.turn, one.turn.rpartition("#")[0])]
    if not found:
        turns = [one.turn for one in records if isinstance(one, TurnFinished)]
        hint = did_you_mean(name, turns) or f"those with an answer are {', '.join(turns) or 'none'}"
        below = "; an answer in a nested team is changed by that of its node" if "/" in name else ""
        raise UsageError(f"the run has no answer of {name!r} to change{below}; {hint}")
    items = {one.turn for one in records if isinstance(one, TurnStarted) and one.set}
    if found[-1].turn in items and name != found[-1].turn:
        raise UsageError(f"{name!r} answers for the items of a list: name the turn of one, such as {found[-1].turn}")
    shared = [one for one in found if one.seq <= upto]
    if not shared:
        raise UsageError(
            f"{found[-1].turn} answered at record {found[-1].seq}, after record {upto}: fork there or later"
        )
    return shared[-1]


def _answered(plan: Plan, found: TurnFinished, answer: Mapping[str, Any] | str) -> TurnFinished:
    agent = plan.agents.get(found.turn.rpartition("#")[0].rpartition(".")[2])
    wanted = agent.outputs if agent is not None else ()
    if isinstance(answer, str):
        if wanted:
            names = ", ".join(one.name for one in wanted)
            raise UsageError(f"the answer of {found.turn} has the outputs {names}: give values by name")
        return replace(found, text=answer, outputs={}, source="operator")
    known = list(dict.fromkeys((*(one.name for one in wanted), *found.outputs)))
    for name in answer:
        if name not in known:
            hint = did_you_mean(name, known) or (f"it has {', '.join(known)}" if known else "it has none, only a text")
            raise UsageError(f"{found.turn} has no output {name!r}; {hint}")
    outputs = {**found.outputs, **answer}
    judged = judge_reply(Reply(turn=found.turn, attempt=found.attempt, outputs=outputs), wanted)
    if isinstance(judged, AttemptFailed):
        raise UsageError(f"{found.turn} could not answer that: {judged.reason}")
    return replace(found, text=msgspec.json.encode(judged.outputs).decode(), outputs=judged.outputs, source="operator")

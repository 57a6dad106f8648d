"""Teams as roles of a loop: what they are asked, what they emit, how they fail, and that they are resumed."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from loop_play import waves
from role_teams import Court, jury_plan
from stage import Stage

from coterie.agents.backends.base import Answer, AttemptRef, Failure, Request
from coterie.agents.workspace.notes import Notes, NoteSettings, ShownNotes
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.execution.kernel.fold import Fold
from coterie.execution.kernel.owner import OwnerOptions, RunPorts
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.kernel.shell import Shell
from coterie.execution.kinds import kind_of
from coterie.execution.runs.rehearsal import rehearse
from coterie.history.engines.loop.engine import LoopEngine
from coterie.history.journal.memory import MemoryStore, MemoryWriter
from coterie.history.journal.records import (
    AttemptFailed,
    EventEmitted,
    EventInvalid,
    OperatorSaid,
    Record,
    RunStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from coterie.team.planning.loop import LoopPlan, RolePlan
from coterie.team.planning.plan import Limits, Plan


def stage(court: Court | None = None, plan: Plan | None = None) -> Stage:
    return Stage(plan or jury_plan(), court or Court())  # type: ignore[arg-type]


def emitted(one: Stage) -> list[tuple[str, str]]:
    return [(record.turn, record.event) for record in one.records(EventEmitted)]


def with_roles(plan: Plan, **fields: Any) -> Plan:
    """*plan* with further fields of its loop."""
    assert isinstance(plan.coordination, LoopPlan)
    return msgspec.structs.replace(plan, coordination=msgspec.structs.replace(plan.coordination, **fields))


def roles_of(plan: Plan, **events: Any) -> tuple[RolePlan, ...]:
    """The roles of *plan*, those named with other events."""
    assert isinstance(plan.coordination, LoopPlan)
    return tuple(
        msgspec.structs.replace(role, **events[role.id]) if role.id in events else role
        for role in plan.coordination.roles
    )


# -- what they emit ---------------------------------------------------------------------------------------------------


def test_a_rejection_leads_back_and_the_debate_completes() -> None:
    """The cross-check's outputs choose where the loop goes; the debate's end it."""
    one = stage()
    ended = one.start()

    assert (ended.status, ended.reason, ended.iterations) == ("completed", "completion_event", 5)
    assert emitted(one) == [
        ("iteration#1", "draft.ready"),
        ("iteration#2", "draft.rejected"),
        ("iteration#3", "draft.ready"),
        ("iteration#4", "draft.passed"),
        ("iteration#5", "task.complete"),
    ]
    assert ended.usage.turns == 2 + 2 * 3 + 3
    assert ended.usage.cost == pytest.approx(0.01 * ended.usage.turns)


def test_the_event_comes_with_the_teams_text_before_its_receipt() -> None:
    one = stage()
    one.start()
    log = one.records()
    at = next(n for n, record in enumerate(log) if isinstance(record, EventEmitted) and record.turn == "iteration#2")
    receipt = log[at + 1]

    assert isinstance(receipt, TurnFinished)
    assert (receipt.turn, receipt.outputs["final_approved"]) == ("iteration#2", False)
    assert log[at].payload == receipt.text == "primary in iteration#2.1"
    assert log[at].source == "agent"


def test_a_team_is_given_the_whole_prompt_and_told_nothing_of_emitting() -> None:
    """What its agents could emit nobody would hear: its outputs choose."""
    one = stage()
    one.start()
    [started] = [record for record in one.records(run="r/iteration#2.1") if isinstance(record, RunStarted)]
    prompt = started.input["prompt"]

    assert "Your role, `jury`:\nJudge." in prompt
    assert "- a draft" in prompt
    assert "How to emit" not in prompt
    assert "LOOP_COMPLETE" not in prompt
    assert "How to emit" in one.cast.asked[0].prompt


def test_when_no_condition_holds_it_is_as_if_nothing_was_emitted() -> None:
    """The same role is asked again, until the limit."""
    plan = jury_plan(max_iterations=4)
    plan = with_roles(plan, roles=roles_of(plan, jury={"events": ()}))
    one = stage(plan=plan)

    assert one.start().reason == "max_iterations"
    assert emitted(one) == [("iteration#1", "draft.ready")]
    assert [record.agent for record in one.records(TurnStarted)] == ["writer", "jury", "jury", "jury"]


def test_without_an_event_the_promise_in_the_teams_text_counts_unless_the_question_has_it() -> None:
    """It is a reply like an agent's: what only repeats the question promises nothing."""
    plan = jury_plan(max_iterations=2)
    plan = with_roles(plan, roles=roles_of(plan, jury={"events": ()}))
    promises = Court(acts={"jury/primary": Answer(text="It is done.\nI say: LOOP_COMPLETE")})
    assert stage(promises, plan).start().reason == "completion_promise"

    echo = with_roles(plan, objective="I say: LOOP_COMPLETE")
    one = stage(promises, with_roles(echo, harness="I say: LOOP_COMPLETE"))
    assert one.start().reason == "max_iterations"


def test_an_event_that_is_not_allowed_yet_is_rejected_like_anybodys() -> None:
    """What has to come before completion keeps a team from completing, too."""
    one = stage(plan=jury_plan(required=("tests.passed",), max_iterations=6))

    assert one.start().reason == "max_iterations"
    [*_, rejected] = one.records(EventInvalid)
    assert (rejected.turn, rejected.event) == ("iteration#6", "task.complete")
    assert "tests.passed" in rejected.reason
    [prompt] = [record.input["prompt"] for record in one.records(RunStarted, run="r/iteration#6.1")]
    assert "was rejected" in prompt


# -- how they fail ----------------------------------------------------------------------------------------------------


def test_a_team_that_fails_is_a_failed_iteration() -> None:
    """The same role is asked again, as often as the loop allows."""
    fails = Court(acts={"jury/primary": Failure(kind="exit", reason="no")})
    one = stage(fails, jury_plan(max_failures=2))
    ended = one.start()

    assert (ended.status, [record.turn for record in one.records(TurnFailed)]) == (
        "failed",
        ["iteration#2", "iteration#3"],
    )
    assert ended.result["kind"] == "failed"
    assert emitted(one) == [("iteration#1", "draft.ready")]


def test_what_a_provider_told_a_team_enters_no_prompt_of_its_loop() -> None:
    """The loop is told that the provider did not answer, and where to look."""
    fails = Court(
        acts={f"jury/{slot}": Failure(kind="transient", reason="HTTP 503") for slot in ("primary", "checker")}
    )
    one = stage(fails, jury_plan(max_failures=2))
    ended = one.start()
    [first, second] = one.records(AttemptFailed)

    assert ended.status == "failed"
    assert (first.kind, first.reason) == (
        "failed",
        "its provider did not answer; the child run r/iteration#2.1 has the details",
    )
    assert "503" in one.records(AttemptFailed, run="r/iteration#2.1")[0].reason
    assert not any("503" in request.prompt for request in fails.asked)
    assert second.turn == "iteration#3"


def test_the_time_of_an_iteration_cuts_a_team_off() -> None:
    """A cross-check takes two seconds: with one and a half it ends cancelled, and what it cost counts."""
    one = stage(plan=jury_plan(timeout=1.5, max_failures=1))
    ended = one.start()

    assert (ended.status, one.records(AttemptFailed)[0].kind) == ("failed", "timeout")
    *_, last = one.records(run="r/iteration#2.1")
    assert last.outcome == "cancelled"
    assert ended.usage.cost == pytest.approx(0.02)


def test_the_limits_are_those_of_the_whole() -> None:
    """A turn of a team counts like one of the loop's own: the fourth is one of the jury's."""
    one = stage()
    ended = one.start(Limits(max_turns=3))
    assert (ended.status, ended.reason, ended.usage.turns) == ("stopped", "max_turns", 3)

    again = one.resume(Limits(max_turns=50))
    assert (again.status, again.usage.turns) == ("completed", 11)


def test_an_operator_who_interrupts_ends_the_teams_turn() -> None:
    """No failure is counted, and the same role is asked in the next iteration."""
    one = stage()
    said: list[bool] = []

    def interrupts(request: Request) -> Answer:
        if not said:
            said.append(True)
            live = one.shell.runs["r"]
            one.shell.post(lambda: one.shell.approvals.interrupt(live, OperatorSaid(message="m", what="interrupt")))
        return Answer(text="primary")

    one.cast.acts = {"jury/primary": interrupts}  # type: ignore[attr-defined]
    ended = one.start()

    assert (ended.status, ended.iterations) == ("completed", 4)
    assert [record.turn for record in one.records(TurnCancelled)] == ["iteration#2"]
    assert [record.agent for record in one.records(TurnStarted)] == ["writer", "jury", "jury", "council"]
    *_, last = one.records(run="r/iteration#2.1")
    assert last.outcome == "cancelled"


# -- in waves, and rehearsed ------------------------------------------------------------------------------------------


def test_a_team_answers_in_a_branch_of_a_wave() -> None:
    """A branch is an iteration like any other, and what its team emits is the branch's own."""
    opens = {"emits": [{"topic": "draft.ready.parallel", "payload": "- a\n- b"}]}
    script = {"writer": [opens, {"emits": [{"topic": "draft.ready"}]}]}
    document = rehearse(jury_plan(parallel=waves()), {"prompt": "x"}, script)
    branches = [turn["child"] for turn in document["turns"] if turn["agent"] == "@branch"]

    assert document["reason"] == "completion_event"
    assert [branch["turns"][0]["agent"] for branch in branches] == ["jury", "jury"]
    assert [branch["turns"][0]["emitted"] for branch in branches] == [["draft.passed"]] * 2
    assert all(len(branch["turns"][0]["child"]["turns"]) == 3 for branch in branches)


def test_a_script_names_the_agents_of_a_team_by_its_role() -> None:
    reject, approve = {"text": '{"approved": false}'}, {"text": '{"approved": true}'}
    script = {"jury/checker_0": [reject, approve], "jury/checker_1": [reject, approve], "jury/primary": [{"text": "a"}]}
    document = rehearse(jury_plan(), {"prompt": "x"}, script)

    assert [turn["emitted"] for turn in document["turns"]] == [
        ["draft.ready"],
        ["draft.rejected"],
        ["draft.ready"],
        ["draft.passed"],
        ["task.complete"],
    ]


# -- resumed ----------------------------------------------------------------------------------------------------------


class _Logged(MemoryStore):
    """Remembers in what order records were appended over all runs."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[tuple[str, Record]] = []

    def claim(self, run: str) -> MemoryWriter:
        writer = super().claim(run)
        append = writer.append

        def logged(records: Sequence[Record]) -> int:
            self.order += [(run, record) for record in records]
            return append(records)

        writer.append = logged  # type: ignore[method-assign]
        return writer


def _resumed_after(order: Sequence[tuple[str, Record]]) -> tuple[Stage, RunExit]:
    """What becomes of a run whose owner died when all of *order* had become durable, and nothing else."""
    one = stage()
    for run, record in order:
        writer = MemoryStore.claim(one.store, run) if run not in one.store._journals else one.store._journals[run].owner
        assert writer is not None
        writer.append([record])
    one.store._release("r")
    return one, one.resume()


def test_resumed_behind_any_record_it_comes_to_the_same_end() -> None:
    """Between an event and its receipt, too: it is emitted once. And a replay finds nothing left to do."""
    whole = stage()
    whole.store = _Logged()
    ended = whole.start()
    order = whole.store.order
    assert len(order) > 60
    for n in range(1, len(order)):
        one, again = _resumed_after(order[:n])
        assert (again.status, again.result) == (ended.status, ended.result), f"behind record {n}"
        ours = [record for record in one.records(EventEmitted) if record.turn not in ("iteration#1", "iteration#3")]
        assert [record.event for record in ours] == ["draft.rejected", "draft.passed", "task.complete"], f"record {n}"
        fold = Fold("r", kind_of(one.plan))
        fold.fold(one.records())
        assert not fold.todo
        engine = fold.engine
        assert isinstance(engine, LoopEngine)


class _KeptPrompts(AttemptFiles):
    """Keeps prompts."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, int], str] = {}

    def keep_question(self, ref: AttemptRef, prompt: str) -> None:
        self.kept[ref.run, ref.turn, ref.attempt] = prompt

    async def question(self, ref: AttemptRef) -> str:
        return self.kept.get((ref.run, ref.turn, ref.attempt), "")


class _ChangingNotes(Notes):
    """Gives another memory at each call."""

    def __init__(self) -> None:
        self.calls = 0

    async def shown(self, run: str, settings: NoteSettings | None) -> ShownNotes:
        self.calls += 1
        return ShownNotes(memory=f"memory {self.calls}")


def test_a_team_that_never_began_is_asked_what_the_journal_says_it_was() -> None:
    """The owner died behind the intent: what is remembered has changed since, the question has not."""
    files, notes = _KeptPrompts(), _ChangingNotes()
    whole = _Kept(files, notes)
    whole.store = _Logged()
    whole.start()
    order = whole.store.order
    at = next(n for n, (_, one) in enumerate(order) if isinstance(one, TurnStarted) and one.turn == "iteration#2")
    intent = order[at][1]
    assert isinstance(intent, TurnStarted)
    one = _Kept(files, notes)
    writer = one.store.claim("r")
    writer.append([record for _, record in order[: at + 1]])
    one.store._release("r")
    one.resume()

    [given] = [record.input["prompt"] for record in one.records(RunStarted, run="r/iteration#2.1")]
    assert hashlib.sha256(given.encode()).hexdigest() == intent.prompt


class _Kept(Stage):
    """A stage whose runs keep *files* and *notes*."""

    def __init__(self, files: AttemptFiles, notes: Notes) -> None:
        super().__init__(jury_plan(), Court())  # type: ignore[arg-type]
        self.files, self.notes = files, notes

    def _shell(self, limits: Limits | None) -> Shell:
        return Shell(
            RunPorts(
                store=self.store,
                turns=self.cast,
                clock=self.clock,
                make_kind=kind_of,
                files=self.files,
                notes=self.notes,
            ),
            OwnerOptions(limits=limits or Limits()),
        )

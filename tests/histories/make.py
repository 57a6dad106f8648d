"""Writes the journals of this release into a folder: `python tests/histories/make.py tests/histories/0.1`.

Run it once for each release, before the release. Journals that are there are never written again: they show what that
release wrote, and every later one must read, fold and resume them.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import msgspec

from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.team.planning.plan import Limits

LONG = "The findings, one by one, and what to do about each of them. " * 30


def review() -> list[r.Record]:
    """A flow with a join, a retry, a loop that is spent, and a completed end."""
    usage = r.Usage(input_tokens=1200, output_tokens=340, cost=0.021, seconds=2.0)
    return [
        r.RunStarted(run="review", engine="flow", topology="review", plan_hash="ab" * 32, plan='{"name":"review"}' * 80,
                     input={"prompt": "Review it", "depth": 2}, cwd="/home/u/project"),
        r.RunOwned(epoch=1, limits=Limits(max_turns=20, max_cost=1.5)),
        r.TurnStarted(cause=(1, 0), turn="draft#1", agent="draft", prompt="cd" * 32),
        r.AttemptLaunched(turn="draft#1", attempt=1, pid=4711, group=4711, started="8123456"),
        r.AttemptFailed(turn="draft#1", attempt=1, kind="timeout", reason="no answer within 30 s", usage=usage),
        r.TurnStarted(cause=(5, 0), turn="draft#1", agent="draft", attempt=2, prompt="cd" * 32),
        r.TurnFinished(source="agent", turn="draft#1", attempt=2, text=LONG, outputs={"notes": LONG}, usage=usage),
        r.TurnStarted(cause=(7, 0), turn="critic#1", agent="critic", inputs=("draft#1",)),
        r.TurnStarted(cause=(7, 1), turn="facts#1", agent="facts", inputs=("draft#1",)),
        r.ConditionUnknown(cause=(8, 0), turn="critic#1", agent="judge", field="verdict"),
        r.TurnFinished(source="agent", turn="critic#1", attempt=1, outputs={"score": 3}),
        r.TurnFinished(source="agent", turn="facts#1", attempt=1, text="@text: is no reference", usage=usage),
        r.TurnStarted(cause=(12, 0), turn="judge#1", agent="judge", inputs=("critic#1", "facts#1")),
        r.TurnFinished(source="agent", turn="judge#1", attempt=1, outputs={"verdict": "revise"}),
        r.LoopExhausted(cause=(14, 0), turn="judge#1", exhausted=(("judge", ("draft",)),), forced=("judge", ("end",))),
        r.TurnStarted(cause=(14, 1), turn="end#1", agent="end", inputs=("judge#1",)),
        r.TurnFinished(source="agent", turn="end#1", attempt=1, text="done – ünïcode 🎉"),
        r.RunFinished(cause=(17, 0), outcome="completed", result={"end": "done"}),
    ]  # fmt: skip


def nested() -> list[r.Record]:
    """A run whose turn is a child run; it was killed, repaired and stopped, and waits to be resumed."""
    return [
        r.RunStarted(run="nested", engine="flow", topology="team", plan='{"name":"team"}'),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="team#1", agent="team"),
        r.TurnStarted(cause=(1, 1), turn="human#1", agent="human"),
        r.JournalRepaired(file="journal.torn-1", size=57),
        r.RunOwned(epoch=2, limits=Limits(max_parallel=4)),
        r.AttemptInterrupted(turn="human#1", attempt=1, reason="crash"),
        r.TurnStarted(cause=(7, 0), turn="human#1", agent="human", attempt=2),
        r.MessageRefused(source="operator", message="m1", turn="ghost#1", reason="there is no such turn"),
        r.OperatorSaid(source="operator", message="m2", what="interrupt", turn="human#1"),
        r.TurnFinished(turn="team#1", attempt=1, text=LONG, usage=r.Usage(cost=0.5, turns=3)),
        r.PathEnded(cause=(11, 0), turn="team#1", reason="no_match"),
        r.RunStopped(reason="waiting"),
    ]


def reloaded() -> list[r.Record]:
    """A run that was stopped by a limit and carried on under another plan."""
    return [
        r.RunStarted(run="reloaded", engine="flow", topology="team", plan='{"name":"team"}'),
        r.RunOwned(epoch=1, limits=Limits(max_turns=0)),
        r.RunStopped(reason="max_turns"),
        r.PlanReloaded(source="operator", plan='{"name":"team","notes":["again"]}', plan_hash="ab" * 32),
        r.RunOwned(epoch=2),
        r.TurnStarted(cause=(1, 0), turn="ada#1", agent="ada"),
        r.TurnFinished(source="agent", turn="ada#1", attempt=1, text=LONG, usage=r.Usage(cost=0.5)),
        r.RunFinished(cause=(7, 0), outcome="completed", result={"text": LONG}),
    ]


def forked() -> list[r.Record]:
    """A run that was forked from another while its second turn was under way, with another prompt."""
    return [
        r.RunStarted(run="forked", engine="flow", topology="team", plan='{"name":"team"}',
                     forked_from=r.ForkedFrom(run="review", seq=5)),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="ada#1", agent="ada"),
        r.TurnFinished(source="agent", turn="ada#1", attempt=1, text="of the other run"),
        r.TurnStarted(cause=(4, 0), turn="bob#1", agent="bob", inputs=("ada#1",)),
        r.PlanReloaded(source="operator", plan='{"name":"team","notes":["again"]}', plan_hash="ab" * 32),
        r.AttemptInterrupted(turn="bob#1", attempt=1, reason="forked"),
        r.RunStopped(reason="forked"),
        r.RunOwned(epoch=2),
        r.TurnStarted(cause=(7, 0), turn="bob#1", agent="bob", attempt=2, inputs=("ada#1",)),
        r.TurnFinished(source="agent", turn="bob#1", attempt=2, text=LONG),
        r.RunFinished(cause=(11, 0), outcome="completed", result={"text": LONG}),
    ]  # fmt: skip


def loop() -> list[r.Record]:
    """A loop with emits, reloads, a turn that is called off and a failed end."""
    return [
        r.RunStarted(run="loop", engine="loop", engine_version=2, topology="ralph", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1),
        r.ConfigChanged(cause=(1, 0), plan='{"max":3}', plan_hash="ef" * 32, keys=("max",)),
        r.IterationStarted(cause=(3, 0), n=1, role="builder"),
        r.TurnStarted(cause=(3, 1), turn="builder#1", agent="builder"),
        r.EventInvalid(
            source="agent", turn="builder#1", attempt=1, event="ship", allowed=("build.done",), message="m1"
        ),
        r.EventEmitted(source="agent", turn="builder#1", attempt=1, event="build.done", payload=LONG, message="m2"),
        r.TurnFinished(source="agent", turn="builder#1", attempt=1, message="m3"),
        r.ConfigRejected(cause=(8, 0), reason="topology.toml:3:1: 'rolse' is not known"),
        r.TurnStarted(cause=(9, 0), turn="builder#2", agent="builder"),
        r.TurnStarted(cause=(9, 1), turn="critic#1", agent="critic"),
        r.TurnCancelled(cause=(9, 2), turn="critic#1", reason="the run failed"),
        r.AttemptFailed(turn="builder#2", attempt=1, kind="exit", reason="it ended with status 2"),
        r.TurnFailed(cause=(13, 0), turn="builder#2", kind="exit", reason="it ended with status 2"),
        r.RunFinished(cause=(14, 0), outcome="failed", reason="builder#2 failed"),
    ]


def waves() -> list[r.Record]:
    """A loop that an operator guides, whose second iteration opens a wave, and which a promise completes."""
    branches = ("wave-1.1#1", "wave-1.2#1")
    return [
        r.RunStarted(run="waves", engine="loop", topology="autocode", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1, limits=Limits(add_iterations=2)),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(cause=(3, 0), n=1, role="planner", event="loop.start", roles=("planner",), allowed=("go",)),
        r.TurnStarted(cause=(3, 1), turn="iteration#1", agent="planner", prompt="cd" * 32),
        r.EventNoted(source="agent", turn="iteration#1", attempt=1, event="issue.discovered", payload="#7",
                     message="m1"),
        r.OperatorSaid(source="operator", message="m2", what="guide", text="Mind the tests"),
        r.EventInvalid(source="agent", turn="iteration#1", attempt=1, event="ship", allowed=("go",), message="m3",
                       recent="loop.start", suggested=("planner",), reason="'ship' is not allowed"),
        r.EventEmitted(source="agent", turn="iteration#1", attempt=1, event="go.parallel", payload="- a\n- b"),
        r.TurnFinished(source="agent", turn="iteration#1", attempt=1, text="planned"),
        r.WaveStarted(cause=(10, 0), wave=1, turn="iteration#1", event="go.parallel", objectives=("a", "b"),
                      turns=branches),
        r.TurnStarted(cause=(10, 1), turn=branches[0], agent="branch"),
        r.TurnStarted(cause=(10, 2), turn=branches[1], agent="branch"),
        r.TurnFinished(turn=branches[0], attempt=1, text="done", usage=r.Usage(cost=0.2, turns=1)),
        r.TurnFailed(turn=branches[1], kind="timeout", reason="it took longer than 180 s", cause=(13, 0)),
        r.WaveTimeout(cause=(15, 0), wave=1, turns=branches[1:]),
        r.WaveJoined(cause=(15, 1), wave=1, event="go",
                     outcomes=((branches[0], "completed"), (branches[1], "timeout"))),
        r.ConfigKept(cause=(15, 2)),
        r.IterationStarted(cause=(18, 0), n=2, role="builder", event="go", roles=("builder",)),
        r.GuidanceDelivered(cause=(18, 1), turn="iteration#2", messages=("m2",)),
        r.TurnStarted(cause=(18, 2), turn="iteration#2", agent="builder"),
        r.TurnFinished(source="agent", turn="iteration#2", attempt=1, text="LOOP_COMPLETE", promised=True),
        r.RunFinished(cause=(22, 0), outcome="completed", reason="completion_promise", result={"text": "planned"}),
    ]  # fmt: skip


def noted() -> list[r.Record]:
    """A loop whose agent remembers, has tasks and gives an output before it answers."""
    task = {"id": "task-0a1b2c3d", "type": "task", "text": "Write the tests", "status": "open"}
    lesson = {"id": "mem-4e5f6a7b", "type": "learning", "text": LONG, "source": "manual"}
    return [
        r.RunStarted(run="noted", engine="loop", topology="autocode", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(cause=(3, 0), n=1, role="planner", event="loop.start", roles=("planner",)),
        r.TurnStarted(cause=(3, 1), turn="iteration#1", agent="planner"),
        r.TaskChanged(source="agent", turn="iteration#1", message="m1", entries=(task,)),
        r.MemoryChanged(source="agent", turn="iteration#1", message="m2", entries=(lesson,), project=(lesson,)),
        r.TaskChanged(source="operator", message="m3", project=({**task, "status": "done"},)),
        r.OutputsGiven(source="agent", turn="iteration#1", attempt=1, outputs={"score": 3}, message="m4"),
        r.TurnFinished(source="agent", turn="iteration#1", attempt=1, text="done", outputs={"score": 3}),
    ]


def attention() -> list[r.Record]:
    """An agent that asks for a permission, which an operator gives, and for one that nobody answers in time."""
    asked = {"turn": "build#1", "attempt": 1, "tool": "Bash", "due": 1780000000.0}
    return [
        r.RunStarted(run="attention", engine="flow", topology="build", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="build#1", agent="build"),
        r.AttentionAsked(source="agent", id="build#1?1", question="toolu_1", detail="make test", **asked),
        r.AttentionAnswered(source="operator", id="build#1?1", turn="build#1", attempt=1, answer="allow", message="m1"),
        r.AttentionAsked(source="agent", id="build#1?2", question="toolu_2", policy="park", **asked),
        r.AttentionAnswered(id="build#1?2", turn="build#1", attempt=1, answer="park"),
        r.AttemptInterrupted(turn="build#1", attempt=1, reason="parked"),
        r.RunStopped(reason="waiting"),
    ]


def gates() -> list[r.Record]:
    """A flow whose agent answers before its tests pass, and a second time when they do."""
    test, lint = ("make", "test"), ("make", "lint")
    due = {"turn": "build#1", "gates": (test, lint)}
    return [
        r.RunStarted(run="gates", engine="flow", topology="build", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="build#1", agent="build"),
        r.GatesDue(source="agent", attempt=1, text="done, all tests pass", usage=r.Usage(cost=0.1), **due),
        r.GateChecked(
            turn="build#1", attempt=1, argv=test, status=2, reason="it failed", output="1 failed", seconds=2.5
        ),
        r.AttemptFailed(
            source="agent",
            turn="build#1",
            attempt=1,
            kind="invalid_output",
            reason="it failed",
            text="1 failed",
            exit_code=2,
            usage=r.Usage(cost=0.1),
        ),
        r.TurnStarted(cause=(6, 0), turn="build#1", agent="build", attempt=2),
        r.GatesDue(source="agent", attempt=2, text="done", outputs={"ok": True}, brought_by="m1", **due),
        r.GateChecked(turn="build#1", attempt=2, argv=test, passed=True, status=0),
        r.GateChecked(turn="build#1", attempt=2, argv=lint, passed=True, status=0),
        r.TurnFinished(source="agent", turn="build#1", attempt=2, text="done", outputs={"ok": True}),
    ]


def reopened() -> list[r.Record]:
    """A run that failed because of a program and of a team, was reopened, and completed."""
    usage = r.Usage(cost=0.5, turns=2)
    return [
        r.RunStarted(run="reopened", engine="flow", topology="build", plan='{"name":"build"}'),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="team#1", agent="team"),
        r.AttemptFailed(turn="team#1", attempt=1, kind="exit", reason="coder#1 failed (exit): status 3", usage=usage),
        r.TurnFailed(cause=(4, 0), turn="team#1", kind="exit", reason="coder#1 failed (exit): status 3"),
        r.RunFinished(cause=(5, 0), outcome="failed", reason="team#1 failed (exit): coder#1 failed (exit): status 3"),
        r.RunReopened(source="operator", turns=("team#1.1/coder#1",), below={"team#1.1": 5}, since=5,
                      reported={"team#1": usage}, by="operator", reason="team#1 failed (exit)"),
        r.RunOwned(epoch=2),
        r.TurnFinished(turn="team#1", attempt=1, text=LONG, usage=r.Usage(cost=0.75, turns=3)),
        r.TurnStarted(cause=(9, 0), turn="tester#1", agent="tester", inputs=("team#1",)),
        r.AttemptFailed(turn="tester#1", attempt=1, kind="exit", reason="status 1"),
        r.TurnFailed(cause=(11, 0), turn="tester#1", kind="exit", reason="status 1"),
        r.RunFinished(cause=(12, 0), outcome="failed", reason="tester#1 failed (exit): status 1"),
        r.RunReopened(source="agent", turns=("tester#1",), since=12, by="other/ada#1.1", reason="tester#1 failed"),
        r.RunOwned(epoch=3),
        r.TurnStarted(cause=(14, 0), turn="tester#1", agent="tester", attempt=2, inputs=("team#1",)),
        r.TurnFinished(source="agent", turn="tester#1", attempt=2, text="passed"),
        r.RunFinished(cause=(17, 0), outcome="completed", result={"text": "passed"}),
    ]  # fmt: skip


def budget() -> list[r.Record]:
    """Attempts for which an estimate was reserved: one is lost, the next one is cut off for its cost, a third answers.

    More may be spent from then on.
    """
    return [
        r.RunStarted(run="budget", engine="flow", topology="build", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1, limits=Limits(max_cost=1.0)),
        r.TurnStarted(cause=(1, 0), turn="build#1", agent="build", reserved=0.5),
        r.RunOwned(epoch=2, limits=Limits(max_cost=1.0)),
        r.AttemptInterrupted(
            turn="build#1", attempt=1, reason="crash", usage=r.Usage(cost=0.25, output_tokens=90, unsettled=0.25)
        ),
        r.TurnStarted(cause=(5, 0), turn="build#1", agent="build", attempt=2, reserved=0.25),
        r.AttemptInterrupted(turn="build#1", attempt=2, reason="max_cost", usage=r.Usage(cost=0.75)),
        r.RunStopped(reason="max_cost"),
        r.RunOwned(epoch=3, limits=Limits(max_cost=9.0)),
        r.TurnStarted(cause=(7, 0), turn="build#1", agent="build", attempt=3, reserved=0.75),
        r.TurnFinished(source="agent", turn="build#1", attempt=3, text="done", usage=r.Usage(cost=0.5)),
    ]


def parked() -> list[r.Record]:
    """An agent whose quota was spent, and that went on in its session, or was to, once it opened."""
    usage = r.Usage(cost=0.4, seconds=90.0)
    until = 1780000000.0
    return [
        r.RunStarted(run="parked", engine="flow", topology="build", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1, limits=Limits(max_cost=2.0)),
        r.TurnStarted(cause=(1, 0), turn="build#1", agent="build"),
        r.AttemptSession(turn="build#1", attempt=1, session="8a1f"),
        r.AttemptFailed(
            turn="build#1", attempt=1, kind="quota", reason="limit reached", usage=usage, wait=7200.0, until=until
        ),
        r.RunStopped(reason="quota until 2026-05-28T20:26:40Z", until=until),
        r.RunOwned(epoch=2, limits=Limits(max_cost=2.0)),
        r.TurnStarted(cause=(5, 0), turn="build#1", agent="build", attempt=2, session="8a1f"),
        r.AttemptSession(turn="build#1", attempt=2, session="77c0", lost="8a1f", reason="the agent began another one"),
        r.AttemptInterrupted(turn="build#1", attempt=2, reason="crash"),
    ]


def stepped() -> list[r.Record]:
    """A model whose attempt was cut off behind its first answer; the next one gave a wrong answer, then another."""
    used = r.Usage(input_tokens=100, output_tokens=20, cost=0.01)
    return [
        r.RunStarted(run="stepped", engine="flow", topology="desk", input={"prompt": "Pay"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="clerk#1", agent="clerk"),
        r.AttemptStep(turn="clerk#1", attempt=1, n=1, usage=used, calls=("pay", "note"), hash="3c" * 32),
        r.AttemptInterrupted(turn="clerk#1", attempt=1, reason="interrupted", usage=used),
        r.RunStopped(reason="interrupted", by="person"),
        r.RunOwned(epoch=2),
        r.TurnStarted(cause=(5, 0), turn="clerk#1", agent="clerk", attempt=2),
        r.AttemptStep(turn="clerk#1", attempt=2, n=2, usage=used, hash="4d" * 32),
        r.AttemptFailed(turn="clerk#1", attempt=2, kind="invalid_output", reason="'total' is missing", usage=used),
        r.TurnStarted(cause=(10, 0), turn="clerk#1", agent="clerk", attempt=3),
        r.AttemptStep(turn="clerk#1", attempt=3, n=3, usage=used, calls=("give_outputs",)),
        r.TurnFinished(source="agent", turn="clerk#1", attempt=3, outputs={"total": 5}, usage=used),
    ]


def attested() -> list[r.Record]:
    """A flow whose agent switches the branch of its work tree, and stays on it the second time."""
    here = r.TreePosition(top="/r/tree", repository="/r/.git", head="a" * 40, branch="coterie/x", main="b" * 40)
    away = r.TreePosition(top="/r/tree", repository="/r/.git", head="a" * 40, branch="feature", main="b" * 40)
    done = r.TreePosition(top="/r/tree", repository="/r/.git", head="c" * 40, branch="coterie/x", main="b" * 40)
    return [
        r.RunStarted(run="attested", engine="flow", topology="build", input={"prompt": "Ship it"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="build#1", agent="build"),
        r.AttemptQuiet(turn="build#1", attempt=1, signs=("event", "cpu"), seconds=600.0),
        r.AttemptQuiet(turn="build#1", attempt=1),
        r.TreeAttested(turn="build#1", attempt=1, before=here, after=away, problem="it is on the branch feature"),
        r.AttemptFailed(turn="build#1", attempt=1, kind="failed", reason="it is on the branch feature"),
        r.TurnStarted(cause=(7, 0), turn="build#1", agent="build", attempt=2),
        r.TreeAttested(turn="build#1", attempt=2, before=here, after=done),
        r.TurnFinished(source="agent", turn="build#1", attempt=2, text="done"),
    ]


def misreported() -> list[r.Record]:
    """A flow that an agent has begun, and whose agent forges what it has cost."""
    return [
        r.RunStarted(run="misreported", engine="flow", topology="build", begun_by=("outer/a#1.1", "7fffffffffffffff")),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="build#1", agent="build", reserved=0.5),
        r.AttemptMisreported(turn="build#1", attempt=1, reason="an amount is negative", usage=r.Usage(cost=0.5)),
        r.TurnFinished(source="agent", turn="build#1", attempt=1, text="done", usage=r.Usage(cost=0.5)),
    ]


def pattern() -> list[r.Record]:
    """A debate that told what was said, and one side of which somebody else stood in for."""
    argued = {"argument": LONG}
    return [
        r.RunStarted(run="pattern", engine="pattern", topology="tests", input={"question": "Tests?"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="proponent#1", agent="proponent"),
        r.TurnFinished(source="agent", turn="proponent#1", attempt=1, text=LONG),
        r.MessageSent(cause=(4, 0), sender="proponent", recipient="opponent", type="broadcast", content=argued),
        r.MessageSent(cause=(4, 1), sender="proponent", type="system", content={"round": 1}, round=1),
        r.TurnStarted(cause=(4, 2), turn="opponent#1", agent="opponent"),
        r.AttemptFailed(turn="opponent#1", attempt=1, kind="exit", reason="it ended with status 2"),
        r.TurnFailed(cause=(8, 0), turn="opponent#1", kind="exit", reason="it ended with status 2"),
        r.TurnStarted(cause=(9, 0), turn="opponent.spare#1", agent="spare"),
        r.TurnFinished(source="agent", turn="opponent.spare#1", attempt=1, text="No tests", usage=r.Usage(cost=0.1)),
        r.RunFinished(cause=(11, 0), outcome="completed", result={"text": "Tests", "outputs": {"debate": argued}}),
    ]


def asked() -> list[r.Record]:
    """A pattern of a user's own, whose questions are in the journal; the second was cut off."""
    more = "Check it:\n\nThe findings, one by one, and what to do about each of them. The findi … 1725 characters … and"
    return [
        r.RunStarted(run="asked", engine="pattern", engine_version=3, topology="mine", input={"prompt": "Tests?"}),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="writer#1", agent="writer", prompt="ab" * 32, asked="cd" * 32,
                      question="Answer this: Tests?"),
        r.TurnFinished(source="agent", turn="writer#1", attempt=1, text=LONG),
        r.TurnStarted(cause=(4, 0), turn="critic#1", agent="critic", prompt="ef" * 32, asked="01" * 32, question=more),
        r.AttemptInterrupted(turn="critic#1", attempt=1, reason="crash"),
        r.TurnStarted(cause=(6, 0), turn="critic#1", agent="critic", attempt=2, prompt="23" * 32),
        r.TurnFinished(source="agent", turn="critic#1", attempt=2, text="Fine"),
        r.RunFinished(cause=(8, 0), outcome="completed", result={"text": "Fine", "outputs": {"mine": {}}}),
    ]  # fmt: skip


def program() -> list[r.Record]:
    """A program that asks, tells, gives a call up and asks a team; it was killed, and began again."""
    request = {"model": "m", "messages": [{"role": "user", "content": LONG}], "max_tokens": 9, "temperature": 0.7}
    return [
        r.RunStarted(run="program", engine="program", topology="duo", plan='{"name":"duo"}', input={"task": "Count"}),
        r.RunOwned(epoch=1),
        r.CallAsked(source="agent", turn="a#1", agent="a", hash="ab" * 32, request=request, state={"asked": 1}),
        r.TurnStarted(cause=(3, 0), turn="a#1", agent="a"),
        r.StateChanged(source="agent", turn="a#1", agent="a", state={"asked": 1, "answered": 1}),
        r.TurnFinished(source="agent", turn="a#1", attempt=1, text=LONG, outputs={"_confidence": 0.5}),
        r.MessageSent(source="agent", sender="a", recipient="b", type="request", content={"n": 1}),
        r.CallAsked(source="agent", turn="b#1", agent="b", hash="cd" * 32, request=request),
        r.TurnStarted(cause=(8, 0), turn="b#1", agent="b"),
        r.CallDropped(source="agent", turn="b#1"),
        r.TurnCancelled(cause=(10, 0), turn="b#1", reason="the program no longer waits for it"),
        r.ResultRecorded(source="agent", id="a+1", agent="a", output={"n": 2}, confidence=0.9, reasoning="so",
                         tokens={"input_tokens": 3}),
        r.CallAsked(source="agent", turn="team#1", agent="team", hash="ef" * 32, given={"prompt": "?"}),
        r.TurnStarted(cause=(13, 0), turn="team#1", agent="team"),
        r.RunOwned(epoch=2),
        r.TurnFinished(turn="team#1", attempt=1, text="4", outputs={"text": "4"}),
        r.RunFinished(source="agent", outcome="completed", result={"text": "4", "outputs": {"pipeline": {"n": 4}}}),
    ]  # fmt: skip


def files() -> list[r.Record]:
    """A loop in a git work tree: what its files were at the end of turns, and what came back of a wave's."""
    branches = ("wave-1.1#1", "wave-1.2#1")
    kept = r.KeptTree(turn=branches[1], path="/tree", branch="autoloop/x.wave-1.2", reason="same", files=("a.py",))
    return [
        r.RunStarted(run="files", engine="loop", topology="autocode", input={"prompt": "Go"}, snapshots=True),
        r.RunOwned(epoch=1),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(cause=(3, 0), n=1, role="planner", event="loop.start", roles=("planner",)),
        r.TurnStarted(cause=(3, 1), turn="iteration#1", agent="planner"),
        r.EventEmitted(source="agent", turn="iteration#1", attempt=1, event="go.parallel", payload="- a\n- b"),
        r.TreeSaved(source="agent", turn="iteration#1", attempt=1, commit="ab" * 20),
        r.TurnFinished(source="agent", turn="iteration#1", attempt=1, text="planned"),
        r.WaveStarted(cause=(8, 0), wave=1, turn="iteration#1", event="go.parallel", objectives=("a", "b"),
                      turns=branches),
        r.TurnStarted(cause=(8, 1), turn=branches[0], agent="branch"),
        r.TurnStarted(cause=(8, 2), turn=branches[1], agent="branch"),
        r.TurnFinished(turn=branches[0], attempt=1, text="one"),
        r.TurnFinished(turn=branches[1], attempt=1, text="two"),
        r.WaveJoined(cause=(13, 0), wave=1, event="go", outcomes=tuple((name, "completed") for name in branches)),
        r.TreesJoined(turns=branches[:1], kept=(kept,)),
        r.ConfigKept(cause=(13, 1)),
        r.IterationStarted(cause=(16, 0), n=2, role="builder", event="go", roles=("builder",)),
        r.TurnStarted(cause=(16, 1), turn="iteration#2", agent="builder"),
        r.TreeSaved(source="agent", turn="iteration#2", attempt=1, problem="git add failed (128): the disk is full"),
        r.AttemptFailed(turn="iteration#2", attempt=1, kind="crashed", reason="gone"),
    ]  # fmt: skip


def held() -> list[r.Record]:
    """A loop whose confined agent was followed by a reading that held a weaker setting back; an operator took it."""
    plan, name = '{"max":3}', "event_loop.gates"
    return [
        r.RunStarted(run="held", engine="loop", topology="autocode", input={"prompt": "Go"}, cwd="/tree"),
        r.RunOwned(epoch=1),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(cause=(3, 0), n=1, role="planner", event="loop.start", roles=("planner",)),
        r.TurnStarted(cause=(3, 1), turn="iteration#1", agent="planner"),
        r.AttemptLaunched(turn="iteration#1", attempt=1, pid=4711, group=4711, started="8123456", confined=True),
        r.TurnFinished(source="agent", turn="iteration#1", attempt=1, text="planned"),
        r.ConfigHeld(cause=(7, 0), plan=plan, plan_hash="ef" * 32, held=((name, '[["make","test"]]', "[]"),)),
        r.OperatorSaid(source="operator", message="m1", what="take", turn="config"),
    ]  # fmt: skip


def prepared() -> list[r.Record]:
    """A loop whose work tree was prepared, and whose first attempt left it, so that its event does not count."""
    left = r.TreePosition(top="/tree", repository="/git", head="cd" * 20, branch="wip")
    return [
        r.RunStarted(run="prepared", engine="loop", topology="autocode", input={"prompt": "Go"}, cwd="/tree"),
        r.RunOwned(epoch=1),
        r.TreeMade(run="prepared", path="/tree", branch="autoloop/prepared", base="ab" * 20),
        r.TreePrepared(run="prepared", copied=(".env",), output="added 12 packages\n"),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(cause=(5, 0), n=1, role="planner", event="loop.start", roles=("planner",)),
        r.TurnStarted(cause=(5, 1), turn="iteration#1", agent="planner"),
        r.EventEmitted(source="agent", turn="iteration#1", attempt=1, event="task.complete"),
        r.TreeAttested(turn="iteration#1", attempt=1, after=left, problem="it is on the branch wip", voids=True),
        r.AttemptFailed(turn="iteration#1", attempt=1, kind="failed", reason="it is on the branch wip"),
        r.TreeCleared(path="/tree", branch="autoloop/prepared", ignored="data/ (11 bytes)"),
        r.RunFinished(cause=(10, 0), outcome="failed", reason="backend_failed"),
    ]  # fmt: skip


def closed() -> list[r.Record]:
    """A loop in a work tree that ends with the steps before its end, one of which fails it."""
    return [
        r.RunStarted(run="closed", engine="loop", topology="autocode", input={"prompt": "Go"}, cwd="/tree"),
        r.RunOwned(epoch=1),
        r.TreeMade(run="closed", path="/tree", branch="autoloop/closed", base="ab" * 20),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(cause=(4, 0), n=1, role="planner", event="loop.start", roles=("planner",)),
        r.TurnStarted(cause=(4, 1), turn="iteration#1", agent="planner"),
        r.EventEmitted(source="agent", turn="iteration#1", attempt=1, event="task.complete"),
        r.TurnFinished(source="agent", turn="iteration#1", attempt=1, text="done"),
        r.TreeMerged(status="conflict", path="/tree", branch="autoloop/closed", into="main", files=("a.py",),
                     reason="both changed it"),
        r.TreeCleared(path="/tree", branch="autoloop/closed", kept=True, problem="no permission"),
        r.RunNotified(status="failed", problem="notify.sh ended with 7"),
        r.RunFinished(cause=(8, 0), outcome="failed", result={"text": "done", "reason": "merge_conflict"},
                      reason="merge_conflict"),
    ]  # fmt: skip


def adopted() -> list[r.Record]:
    """A flow whose owner died while a command and an agent elsewhere worked; both were adopted."""
    return [
        r.RunStarted(run="adopted", engine="flow", topology="pair", plan='{"name":"pair"}'),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="a#1", agent="a"),
        r.TurnStarted(cause=(1, 1), turn="b#1", agent="b"),
        r.AttemptLaunched(turn="a#1", attempt=1, pid=4711, group=4711, started="8123456"),
        r.AttemptLaunched(turn="b#1", attempt=1, handle="worker-3/17"),
        r.RunOwned(epoch=2),
        r.AttemptAdopted(turn="a#1", attempt=1, epoch=2),
        r.AttemptAdopted(turn="b#1", attempt=1, epoch=2),
        r.TurnFinished(source="agent", turn="a#1", attempt=1, text="done"),
        r.TurnFinished(source="agent", turn="b#1", attempt=1, text="done"),
        r.RunFinished(cause=(10, 0), outcome="completed"),
    ]


def system() -> list[r.Record]:
    """A supervised system: an agent is restarted, a message is lost, a flow is asked, a limit is reached."""
    return [
        r.RunStarted(run="system", engine="system", topology="shop", cwd="/shop"),
        r.RunOwned(epoch=1),
        r.ActorStarted(name="root", kind="supervisor"),
        r.ActorStarted(name="clerk", path="root", type="shop.Clerk"),
        r.ActorStarted(name="review", kind="flow", path="root", process="worker"),
        r.CallAsked(turn="review#1", agent="review", given={"prompt": "Go"}),
        r.TurnStarted(cause=(6, 0), turn="review#1", agent="review"),
        r.ActorCrashed(name="clerk", error="KeyError: 'price'", trace="Traceback", message="m1", type="order",
                       sender="review"),
        r.LetterDead(id="m1", recipient="clerk", sender="review", type="order", reason="crashed",
                     detail="KeyError: 'price'"),
        r.RestartPlanned(supervisor="root", name="clerk", names=("clerk",), count=1, limit=1, delay=1.0),
        r.ActorStarted(name="clerk", path="root", type="shop.Clerk", incarnation=2),
        r.TurnFinished(source="agent", turn="review#1", attempt=1, text="done"),
        r.ActorCrashed(name="clerk", incarnation=2, error="OSError: no disk", during="task"),
        r.ActorStopped(name="review", reason="killed", error="ValueError: late"),
        r.SupervisorFailed(name="root", child="clerk", restarts=1, window=60.0,
                           reason="clerk crashed: OSError: no disk"),
        r.RunFinished(outcome="failed", reason="root gave up on clerk"),
    ]  # fmt: skip


def corrected() -> list[r.Record]:
    """A supervised system: an eval agent corrects an agent, up to its limit, then halts it."""
    return [
        r.RunStarted(run="corrected", engine="system", topology="shop", cwd="/shop"),
        r.RunOwned(epoch=1),
        r.ActorStarted(name="clerk", path="root", type="shop.Clerk"),
        r.ActorStarted(name="monitor", kind="eval_agent", path="root", type="shop.Monitor"),
        r.EvalReported(agent="clerk", type="answer", payload={"words": 900}),
        r.CorrectionSent(evaluator="monitor", agent="clerk", kind="nudge", reason="be brief", payload={"words": 500}),
        r.EvalReported(agent="clerk", type="answer"),
        r.CorrectionDropped(evaluator="monitor", agent="clerk", kind="nudge", reason="be brief",
                            problem="more than 1 within 60 s"),
        r.CallAsked(turn="review#1", agent="review", given={"prompt": "Go"}),
        r.TurnStarted(cause=(9, 0), turn="review#1", agent="review"),
        r.TurnFinished(source="agent", turn="review#1", attempt=1, text="done"),
        r.CorrectionSent(evaluator="monitor", agent="clerk", kind="halt"),
        r.ActorStopped(name="clerk"),
        r.RunFinished(outcome="completed", reason="stopped"),
    ]  # fmt: skip


def streamed() -> list[r.Record]:
    """A supervised system: one reply is streamed to its end, another ends with its agent's crash."""
    first, second = "5f" * 16, "6e" * 16
    return [
        r.RunStarted(run="streamed", engine="system", topology="shop", cwd="/shop"),
        r.RunOwned(epoch=1),
        r.ActorStarted(name="clerk", path="root", type="shop.Clerk"),
        r.ActorStarted(name="api", kind="http_gateway", path="root"),
        r.ReplyPiece(ask=first, agent="clerk", payload={"text": "Good"}),
        r.ReplyPiece(ask=second, agent="clerk", payload="Wait"),
        r.ReplyEnded(ask=first, agent="clerk", payload={"text": "Good day"}),
        r.ReplyEnded(ask=second, agent="clerk", kind="crashed", reason="KeyError: 'price'"),
        r.ActorStopped(name="api"),
        r.ActorStopped(name="clerk"),
        r.RunFinished(outcome="completed", reason="stopped"),
    ]


def steered() -> list[r.Record]:
    """A system that waits for a worker and serves HTTP; its agent is allowed something for good, and denied another."""
    ask = {"turn": "coder#1", "attempt": 1, "tool": "Bash"}
    return [
        r.RunStarted(run="steered", engine="system", topology="shop", cwd="/shop"),
        r.RunOwned(epoch=1),
        r.WorkerAwaited(process="worker", names=("clerk", "coder")),
        r.ActorStarted(name="api", kind="http_gateway", path="root", address="http://127.0.0.1:8080"),
        r.ActorStarted(name="clerk", path="root", type="shop.Clerk", process="worker"),
        r.CallAsked(turn="coder#1", agent="coder", given={"prompt": "Go"}),
        r.TurnStarted(cause=(6, 0), turn="coder#1", agent="coder"),
        r.AttentionAsked(id="coder#1?1", question="1", detail="make test", rule="Bash(make test)", **ask),
        r.OperatorSaid(source="operator", message="m1", what="project", text="Bash(make test)"),
        r.AttentionAnswered(source="operator", id="coder#1?1", turn="coder#1", attempt=1, answer="project",
                            message="m1"),
        r.AttentionAsked(id="coder#1?2", question="2", detail="rm -r x", rule="Bash(rm -r x)", **ask),
        r.AttentionAnswered(source="operator", id="coder#1?2", turn="coder#1", attempt=1, answer="deny",
                            message="m2", text="use make clean"),
        r.TurnFinished(source="agent", turn="coder#1", attempt=1, text="done"),
        r.RunFinished(outcome="completed", reason="stopped"),
    ]  # fmt: skip


def mapped() -> list[r.Record]:
    """A flow that maps a node over the first items of a list; one of them has no result."""
    hashes = ("ac" * 32, "bd" * 32)
    return [
        r.RunStarted(run="mapped", engine="flow", engine_version=3, topology="review", plan='{"name":"review"}'),
        r.RunOwned(epoch=1),
        r.TurnStarted(cause=(1, 0), turn="scout#1", agent="scout"),
        r.TurnFinished(source="agent", turn="scout#1", attempt=1, outputs={"files": ["a", "b", "c"]}),
        r.SetStarted(cause=(4, 0), set="reader@1", node="reader", items=2, first=1, inputs=("scout#1",),
                     given_by="scout#1", found=3),
        r.TurnStarted(cause=(5, 0), turn="reader#1", agent="reader", set="reader@1", item=(1, 2), item_hash=hashes[0]),
        r.TurnStarted(cause=(5, 1), turn="reader#2", agent="reader", set="reader@1", item=(2, 2), item_hash=hashes[1]),
        r.TurnFailed(cause=(7, 0), turn="reader#2", kind="exit", reason="exit status 1"),
        r.TurnFinished(source="agent", turn="reader#1", attempt=1, outputs={"verdict": "ok"}),
        r.SetEnded(cause=(9, 0), set="reader@1", outputs=("verdict",), done=1),
        r.PathEnded(cause=(10, 0), turn="reader@1"),
        r.RunFinished(cause=(10, 1), outcome="completed", result={"text": ""}),
    ]  # fmt: skip


def slept() -> list[r.Record]:
    """A program that notes, asks with a time limit, and sleeps; it is parked until it wakes."""
    return [
        r.RunStarted(run="slept", engine="generator", topology="triage", input={"text": "Hello"}, seed="slept"),
        r.RunOwned(epoch=1),
        r.ProgramNoted(cause=(1, 0), text="one message"),
        r.SleepStarted(cause=(1, 2), sleep="sleep 1", until=160.0),
        r.TurnStarted(cause=(1, 1), turn="clerk#1", agent="clerk", asked="ab" * 32, question="Hello"),
        r.TurnFinished(source="agent", turn="clerk#1", attempt=1, text="support"),
        r.SleepEnded(cause=(6, 0), sleep="sleep 1", early=True),
        r.SleepStarted(cause=(6, 1), sleep="sleep 2", until=4000.0),
        r.RunStopped(reason="asleep until 1970-01-01T01:06:40Z", until=4000.0),
        r.RunOwned(epoch=2),
        r.SleepEnded(cause=(6, 2), sleep="sleep 2"),
        r.RunFinished(cause=(11, 0), outcome="completed", result={"text": "support"}),
    ]


def suspended() -> list[r.Record]:
    """A run whose machine was suspended before it began, during a turn, and while it had no owner."""
    return [
        r.RunStarted(run="suspended", engine="flow", topology="review"),
        r.RunOwned(epoch=1, slept=120.5),
        r.TurnStarted(cause=(1, 0), turn="draft#1", agent="draft"),
        r.RunSuspended(seconds=30600.0),
        r.AttemptInterrupted(turn="draft#1", attempt=1, reason="interrupted"),
        r.RunStopped(reason="interrupted"),
        r.RunOwned(epoch=2, slept=35000.0),
        r.TurnStarted(cause=(5, 0), turn="draft#1", agent="draft", attempt=2),
        r.TurnFinished(source="agent", turn="draft#1", attempt=2, text="done"),
        r.RunFinished(cause=(9, 0), outcome="completed", result={"draft": "done"}),
    ]


HISTORIES = {
    "suspended": suspended,
    "stepped": stepped,
    "slept": slept,
    "mapped": mapped,
    "steered": steered,
    "streamed": streamed,
    "corrected": corrected,
    "adopted": adopted,
    "attested": attested,
    "misreported": misreported,
    "attention": attention,
    "budget": budget,
    "reopened": reopened,
    "parked": parked,
    "closed": closed,
    "prepared": prepared,
    "held": held,
    "program": program,
    "files": files,
    "gates": gates,
    "noted": noted,
    "waves": waves,
    "review": review,
    "nested": nested,
    "loop": loop,
    "reloaded": reloaded,
    "forked": forked,
    "pattern": pattern,
    "asked": asked,
    "system": system,
}


def numbered(records: list[r.Record]) -> list[r.Record]:
    """*records* with the seqs and times of a run that began at 1,000 s and took half a second a record."""
    return [msgspec.structs.replace(record, seq=n, at=1000.0 + n / 2) for n, record in enumerate(records, 1)]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in HISTORIES.items():
        with tempfile.TemporaryDirectory() as state:
            store = JsonlStore(Path(state))
            writer = store.claim(name)
            for record in numbered(make()):
                writer.append([record])
            asyncio.run(writer.close())
            with (folder / f"{name}.jsonl").open("xb") as file:
                file.write((store.folder(name) / "journal.jsonl").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""What needs a person, as the journals of a run and its child runs say it."""

import msgspec
from bundles import bundle
from nests import nested
from stage import flow

from coterie.history.journal import records as r
from coterie.history.views.attention import Attention, AttentionView
from coterie.team.planning.plan import AgentPlan, Plan, to_json

DEEP = "r/team#1.1/team#1.1"


class Told:
    """A view that is fed records, each a second after the last."""

    def __init__(self, plan: Plan) -> None:
        self.view, self._at = AttentionView(), 0.0
        self.tell(r.RunStarted(run="r", engine="flow", engine_version=1, plan=to_json(plan).decode(), plan_hash=""))
        self.tell(r.RunOwned(epoch=1))

    def tell(self, *records: r.Record, run: str = "r") -> "Told":
        for record in records:
            self._at += 1
            self.view.apply(run, msgspec.structs.replace(record, at=self._at))
        return self

    def open(self, *, is_owned: bool = True) -> list[Attention]:
        return self.view.open(is_owned=is_owned)

    @property
    def found(self) -> list[tuple[str, str, str]]:
        return [(one.kind, one.id, one.command) for one in self.open()]


def started(agent: str, attempt: int = 1) -> r.TurnStarted:
    return r.TurnStarted(turn=f"{agent}#1", agent=agent, attempt=attempt, prompt="")


def asks(n: int = 1, **values: object) -> r.AttentionAsked:
    asked = r.AttentionAsked(id=f"a#1?{n}", turn="a#1", attempt=1, tool="Bash", detail="make test", due=600.0)
    return msgspec.structs.replace(asked, **values)


def deep(leaf: Plan) -> Told:
    """A run in which *leaf* is two teams down, and has begun."""
    told = Told(flow("team -> after", team=nested(2, leaf)))
    for run in ("r", "r/team#1.1"):
        told.tell(started("team"), run=run)
        child = r.RunStarted(run=f"{run}/team#1.1", engine="flow", engine_version=1, plan="", plan_hash="", parent=run)
        told.tell(child, r.RunOwned(epoch=1), run=f"{run}/team#1.1")
    return told


def test_a_permission_of_a_child_run() -> None:
    """It has the address by which the root run knows it, its deadline, and the command that answers it."""
    told = deep(flow("a -> b")).tell(started("a"), asks(), run=DEEP)
    [one] = told.open()
    id = "team#1.1/team#1.1/a#1?1"
    assert (one.kind, one.run, one.id, one.turn, one.due, one.policy) == ("permission", DEEP, id, "a#1", 600.0, "deny")
    assert one.text == "a#1 asks for permission: Bash (make test)"
    assert one.command == f"coterie attention r '{id}' allow|deny|park|fail"
    assert told.tell(r.AttentionAnswered(id="a#1?1", turn="a#1", attempt=1, answer="deny"), run=DEEP).open() == []


@bundle(
    ("run", "end"),
    [
        (DEEP, r.AttemptInterrupted(turn="a#1", attempt=1, reason="crash")),
        (DEEP, r.AttemptFailed(turn="a#1", attempt=1, kind="exit", reason="no")),
        (DEEP, r.TurnFinished(turn="a#1", attempt=1, text="done")),
        (DEEP, r.RunFinished(outcome="cancelled")),
        ("r/team#1.1", r.TurnCancelled(turn="team#1")),
        ("r", r.TurnCancelled(turn="team#1")),
        ("r", r.RunFinished(outcome="failed")),
    ],
)
def test_the_end_of_an_attempt_voids_what_it_asked(run: str, end: r.Record) -> None:
    """So does that of a turn above it: what is below it was called off."""
    told = deep(flow("a -> b")).tell(started("a"), asks(), asks(2, kind="stall", detail="no output"), run=DEEP)
    assert [(one.kind, one.answers[0]) for one in told.open()] == [("permission", "allow"), ("stall", "wait")]
    assert told.tell(end, run=run).open() == []


def test_nothing_is_asked_without_an_owner() -> None:
    """The attempt ended with it, and the next one asks anew; humans can still answer."""
    told = Told(flow("a -> [b, c]", c=AgentPlan(name="c", kind="human", timeout=50.0)))
    told.tell(started("a"), asks(), started("c"))
    assert [one.kind for one in told.open()] == ["permission", "question"]
    [question] = told.open(is_owned=False)
    assert (question.id, question.due, question.policy) == ("c#1", 55.0, "fail")
    assert question.command == "coterie control respond r 'c#1' TEXT"


def test_a_child_run_may_be_read_after_its_attempt_has_ended() -> None:
    """Its plan is known from the attempt, so its humans are."""
    told = Told(flow("team -> after", team=nested(1, flow("a -> b", a=AgentPlan(name="a", kind="human")))))
    told.tell(started("team"), r.TurnFinished(turn="team#1", attempt=1))
    assert told.view.apply("r/team#1.1", r.RunStarted(run="r/team#1.1", engine="flow", parent="r")) == []
    [one] = told.view.apply("r/team#1.1", started("a"))

    assert (one.kind, one.id) == ("question", "team#1.1/a#1")
    assert told.open() == []


def test_a_parked_turn_waits_for_a_decision() -> None:
    """After a crash if its agent asks then, or if no person gave it permission in time; until it is tried again."""
    told = Told(flow("a -> b", a=AgentPlan(name="a", kind="gate", on_interrupt="ask")))
    cut = r.AttemptInterrupted(turn="a#1", attempt=1, reason="crash")
    parked = ("parked", "a#1", "coterie attention r 'a#1' retry|cancel")
    assert told.tell(started("a"), cut, r.RunOwned(epoch=2)).found == [parked]
    assert told.tell(r.OperatorSaid(message="m", what="retry", turn="a#1")).found == []
    assert told.tell(started("a", 2), r.AttemptInterrupted(turn="a#1", attempt=2, reason="interrupted")).found == []
    told.tell(started("b"), r.AttemptInterrupted(turn="b#1", attempt=1, reason="parked"))
    [one] = told.open(is_owned=False)
    assert (one.id, one.answers) == ("b#1", ("allow", "deny", "retry", "cancel"))
    assert told.tell(r.OperatorSaid(message="m", what="allow", turn="b#1")).found == []


def test_spent_quota_waits_until_the_run_is_resumed() -> None:
    """The reason says until when."""
    told = Told(flow("a -> b")).tell(r.RunStopped(reason="quota until 2026-11-22 20:00"))
    assert told.found == [("quota", "quota", "coterie resume --when-open r")]
    assert told.open()[0].text == "the run stopped: quota until 2026-11-22 20:00"
    assert told.tell(r.RunOwned(epoch=2)).found == []


def test_a_quota_that_a_child_run_has_spent_is_one_of_its_root_run() -> None:
    """All runs of a tree stop together, and the command for the root continues them."""
    told = deep(flow("a -> b"))
    for run in (DEEP, "r/team#1.1", "r"):
        told.tell(r.RunStopped(reason="quota until 2026-11-22 20:00"), run=run)

    assert told.found == [("quota", "quota", "coterie resume --when-open r")]


def test_a_merge_conflict_outlives_the_run() -> None:
    """Of the run's own work, and of a branch of a wave that was kept."""
    kept = r.KeptTree(turn="wave-1.2#1", path="/w/r/wave-1.2#1.1/tree", branch="coterie/x", files=("a.py",))
    conflict = r.TreeMerged(status="conflict", path="/w", branch="coterie/r", into="main", files=("b.py",))
    told = Told(flow("a -> b")).tell(r.TreesJoined(kept=(kept,)), conflict, r.RunFinished(outcome="failed"))
    assert told.found == [
        ("conflict", "coterie/x", "coterie worktree merge 'r/wave-1.2#1.1'"),
        ("conflict", "coterie/r", "coterie worktree merge r"),
    ]
    assert [one.text for one in told.open()] == [
        "the work on coterie/x was kept, not merged: conflicts in a.py",
        "the work on coterie/r could not be merged into main: conflicts in b.py",
    ]

"""The supervision tree of a system, as its run shows it."""

from pathlib import Path

from coterie.history.journal.codec import Decoder
from coterie.history.journal.records import ActorCrashed, ActorStarted, LetterDead, RestartPlanned, RunStarted
from coterie.history.views.run import RunView, fold
from coterie.history.views.tree import RunNode, tree
from coterie.history.views.why import why

HISTORY = Path(__file__).parents[2] / "histories" / "0.1" / "system.jsonl"


def rows(node: RunNode, depth: int = 0) -> list[str]:
    """The tree as indented lines."""
    own = f"{'  ' * depth}{node.label} {node.state}: {node.detail}"
    return [own, *(row for child in node.children for row in rows(child, depth + 1))]


def test_a_system_is_shown_as_its_tree_with_the_turns_below_their_actors() -> None:
    """Restarts, the last error, the worker, and how many messages were not handled."""
    with HISTORY.open("rb") as file:
        view = fold(Decoder(str(HISTORY)).read(file))

    assert rows(tree(view, {}, 1010.0)) == [
        "shop failed: root gave up on clerk; 1 message not handled",
        "  root failed: supervisor  gave up on clerk",
        "    clerk failed: restarted 1x  OSError: no disk",
        "    review stopped: flow  @worker",
        "      review#1 finished: “done”",
    ]


def test_an_actor_that_crashed_waits_until_it_runs_again() -> None:
    """Its time begins anew with each incarnation; the reason of the last crash stays."""
    view = RunView()
    view.apply(RunStarted(seq=1, at=1.0, run="r", engine="system", topology="shop"))
    view.apply(ActorStarted(seq=2, at=2.0, name="root", kind="supervisor"))
    view.apply(ActorStarted(seq=3, at=2.0, name="a", path="root"))
    view.apply(ActorCrashed(seq=4, at=3.0, name="a", error="ValueError: no"))
    assert view.actors.by_name["a"].state == "failed"
    view.apply(RestartPlanned(seq=5, at=3.0, supervisor="root", name="a", names=("a",)))
    assert view.actors.by_name["a"].state == "waiting"
    view.apply(ActorStarted(seq=6, at=5.0, name="a", path="root", incarnation=2))

    actor = view.actors.by_name["a"]
    assert (actor.state, actor.restarts, actor.seconds(8.0), actor.reason) == ("running", 1, 3.0, "ValueError: no")
    assert [one.name for one in view.actors.below("root")] == ["a"]


def test_messages_that_were_not_handled_are_counted_by_recipient_and_reason() -> None:
    """Each is a record of its own; the view only counts."""
    view = RunView()
    for n, reason in enumerate(("crashed", "crashed", "stopped"), 1):
        view.apply(LetterDead(seq=n, at=float(n), id=str(n), recipient="a", reason=reason))

    assert view.actors.letters == {("a", "crashed"): 2, ("a", "stopped"): 1}


def test_why_an_actor_was_restarted_goes_back_to_its_first_start() -> None:
    """The nearest first; a supervisor has what it did to its children."""
    with HISTORY.open("rb") as file:
        records = list(Decoder(str(HISTORY)).read(file))

    assert [reason.text.splitlines()[0] for reason in why(records, "clerk")] == [
        "root gave up on clerk: 1 restart in 1 min 00 s were allowed",
        "clerk crashed at its task: OSError: no disk",
        "clerk started again (incarnation 2)",
        "root restarts clerk in 1.0 s (restart 1 of 1 in its window)",
        "clerk crashed at a message from review: KeyError: 'price'",
        "clerk started",
    ]
    assert [reason.seq for reason in why(records, "root")] == [15, 10, 3]

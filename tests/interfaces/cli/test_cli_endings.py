"""How a command ends: its status, what it prints on which stream, and its last lines."""

import json
import time
from typing import Any

import msgspec
import pytest
from bundles import bundle
from command_line import Place

from coterie.execution.kernel.run_exit import Waiting
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import Usage
from coterie.interfaces.cli.run import print_outcome
from coterie.interfaces.cli.text import outcomes
from coterie.team.planning.plan import Limits

HERE = "inspect it with:\n  coterie inspect r1 --state-dir s\n"


@bundle(
    ("ended", "out", "err"),
    [
        (Outcome(run="r1", status="completed", result={"text": "Fine."}), "Fine.\n", "completed: 0 turns, worked "),
        (Outcome(run="r1", status="completed", result={"text": ""}), "", "completed: 0 turns"),
        (Outcome(run="r1", status="stopped", reason="max_turns", result={"text": "So far"}), "So far\n", "stopped ("),
        (Outcome(run="r1", status="failed", reason="no", result={"text": "It broke"}), "", "It broke\nfailed (no): "),
        (Outcome(run="r1", status="failed", reason="no", result={"kind": "exit"}), "", "failed (no): 0 turns"),
    ],
    ids=["completed", "without a text", "stopped", "failed", "failed without a text"],
)
def test_a_result_goes_to_standard_output_unless_the_run_failed(
    capsys: pytest.CaptureFixture[str], ended: Outcome, out: str, err: str
) -> None:
    """How the run ended and what to do next never mix with it."""
    print_outcome(ended, " --state-dir s")
    found = capsys.readouterr()

    assert found.out == out
    assert found.err.startswith(err)
    assert (ended.status == "completed") == (found.err.count("\n") == 1)


@bundle(
    ("reason", "limits", "more"),
    [
        ("max_turns", Limits(max_turns=4), " --max-turns 8"),
        ("max_turns", Limits(max_turns=0), " --max-turns 1"),
        ("max_turns", Limits(), " --max-turns N"),
        ("max_cost", Limits(max_cost=2.5), " --max-cost 5"),
        ("max_cost", Limits(max_cost=0.0), " --max-cost 1"),
        ("max_cost", Limits(), " --max-cost USD"),
        ("max_iterations", Limits(max_turns=4, max_cost=1.0), " --add-iterations N"),
        ("quota until 2026-11-28", Limits(max_turns=4), " --try-now"),
        ("interrupted", Limits(max_turns=4, max_cost=1.0), ""),
    ],
)
def test_the_command_that_continues_a_run_is_not_stopped_at_once_again(reason: str, limits: Limits, more: str) -> None:
    """The limit that stopped it is twice what it was, and no other one changes."""
    ended = Outcome(run="r1", status="stopped", reason=reason, limits=limits)

    assert outcomes.next_steps(ended, " --state-dir s").splitlines()[-1] == f"  coterie resume r1{more} --state-dir s"


@bundle(
    ("used", "seconds", "waited", "shown"),
    [
        (Usage(turns=1), 2.0, 0.0, "1 turn, worked 2.0 s"),
        (Usage(turns=2, cost=0.5), 2.0, 59.9, "2 turns, worked 2.0 s, $0.50"),
        (Usage(turns=2), 2.0, 60.0, "2 turns, worked 2.0 s, waited 1 min 00 s"),
        (Usage(turns=2, cost=0.5, unsettled=0.25), 2.0, 0.0, "2 turns, worked 2.0 s, $0.50, up to $0.25 more by lost "),
        (Usage(turns=2, unsettled=0.25), 2.0, 0.0, "2 turns, worked 2.0 s, up to $0.25 more by lost attempts"),
        (Usage(turns=2, input_tokens=7), 2.0, 0.0, "2 turns, worked 2.0 s, 7 tokens in, 0 out"),
        (Usage(turns=2, output_tokens=7), 2.0, 0.0, "2 turns, worked 2.0 s, 0 tokens in, 7 out"),
    ],
)
def test_the_last_line_has_all_that_was_used(used: Usage, seconds: float, waited: float, shown: str) -> None:
    """What is lost may have cost something, too; what is not known is left out."""
    whole = outcomes.usage(used, seconds, waited)

    assert whole.startswith(shown)
    assert whole.count(",") == shown.count(",")


@bundle(
    ("failed", "shown"),
    [
        ([], ""),
        (["a#1"], ", 1 failed turn skipped or replaced: a#1"),
        (["a#1", "a#1.1/b#1", "c#1"], ", 2 failed turns skipped or replaced: a#1 and c#1"),
        ([f"a#{n}" for n in range(1, 6)], ", 5 failed turns skipped or replaced: a#1, a#2, a#3, a#4 and a#5"),
        (
            [f"a#{n}" for n in range(1, 8)],
            ", 7 failed turns skipped or replaced: a#1, a#2, a#3, a#4, a#5 and 2 more",
        ),
    ],
)
def test_a_run_that_went_on_says_in_spite_of_what(failed: list[str], shown: str) -> None:
    """Turns within a failed turn are part of it; a run that failed has its reason."""
    ended = Outcome(run="r1", status="completed")

    assert outcomes.outcome(ended, failed).endswith(f"run r1{shown}")
    assert outcomes.outcome(msgspec.structs.replace(ended, status="failed", reason="no"), failed).endswith("run r1")


def test_what_is_over_budget_or_missing_is_said_at_the_end() -> None:
    """On the line of the outcome, and below it."""
    ended = Outcome(run="r1", status="completed", missing=("a.x", "b.y"), overshoot="$1 over")

    assert outcomes.outcome(ended).endswith("run r1; no value for a.x and b.y, which conditions read\n$1 over")


@bundle(
    ("way_on", "last"),
    [
        ("", HERE.rstrip()),
        ("retry", f"{HERE}retry what failed it with:\n  coterie resume r1 --retry --state-dir s"),
        ("fork", f"{HERE}begin again before that with:\n  coterie fork r1 --state-dir s"),
        ("merge", f"{HERE}merge its work with:\n  coterie worktree merge r1 --state-dir s"),
    ],
    ids=["none", "retry", "fork", "merge"],
)
def test_a_failed_run_says_what_may_help(way_on: str, last: str) -> None:
    """Only what can help."""
    assert outcomes.next_steps(Outcome(run="r1", status="failed", way_on=way_on), " --state-dir s") == last


@bundle(
    ("width", "shown"),
    [(None, 400), (80, 64), (10, 20)],
)
def test_a_question_fits_in_its_line(width: int | None, shown: int) -> None:
    """What does not fit can be read in full; a narrow terminal shows a few words."""
    prompt = "Shall we? " * 100
    question = Waiting(run="r1", turn="boss#1", agent="boss", prompt=prompt)
    ended = Outcome(run="r1", status="stopped", reason="waiting", exit=4, waiting=(question,))
    asked, full, *_ = outcomes.next_steps(ended, "", width).splitlines()

    assert len(asked) <= (width or 500) or width == 10
    assert abs(len(asked) - len("boss#1 asks: “”") - shown) <= 1
    assert full == "  coterie inspect r1 prompt 'boss#1'  # in full"
    short = Outcome(
        run="r1", status="stopped", reason="waiting", waiting=(msgspec.structs.replace(question, prompt="x" * 20),)
    )
    assert "in full" not in outcomes.next_steps(short, "", 10)


def test_a_run_that_waits_for_a_quota_says_how_it_goes_on_by_itself() -> None:
    """And how at once; a shortage is another reason to wait."""
    ended = Outcome(run="r1", status="stopped", reason="quota until 12:00", until=1.0)
    assert outcomes.next_steps(ended, "").splitlines() == [
        "the quota of its provider is used up until 1970-01-01T00:00:01Z",
        "continue it when its quota opens:",
        "  coterie resume --when-open r1",
        "continue with (at once, if the quota was raised):",
        "  coterie resume r1 --try-now",
    ]
    short = Outcome(run="r1", status="stopped", reason="shortage: no space left")
    assert outcomes.next_steps(short, "").splitlines()[:2] == [
        "the machine ran short: no space left",
        "continue with (once resources are available again):",
    ]


SPENT = """if [ ! -e "$COTERIE_RUN" ]; then
  touch "$COTERIE_RUN"
  echo 'Claude usage limit reached, try again in 2 hours' >&2
  exit 1
fi
if grep -q break; then exit 1; fi
echo done
"""


@pytest.mark.parametrize("words", [("Do it", "Do break"), ("Do break", "Do it")])
def test_the_status_of_several_runs_is_the_worst(
    place: Place, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    """Whatever the order in which they end."""
    (place.folder / "agent.sh").write_text(SPENT)
    (place.folder / "q.at").write_text(
        'topology q : [pipeline] { agent a { extensions { coterie { command: ["sh", "agent.sh"] } } }\n'
        'action b { commands: ["true"] } flow { a -> b } }'
    )
    really, jumped = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: really() + jumped[0])
    monkeypatch.setattr(
        "coterie.execution.runs.quotas.sleep_until", lambda due: jumped.__setitem__(0, jumped[0] + due - time.time())
    )
    for word in words:
        place.look("run", "q.at", word, status=3)
    runs = [one["run"] for one in json.loads(place.look("runs", "--json").out)]
    said = place.look("resume", "--when-open", *runs, status=1)

    ended = [line.partition(" ")[0] for line in said.err.splitlines()]
    assert [ended.count("completed:"), ended.count("failed")] == [1, 1], said.err


def test_an_event_for_a_run_that_has_ended_is_refused_and_gone(place: Place) -> None:
    """It must not be taken by the owner that retries the run."""
    place.look("run", "broken.at", status=1)
    [run] = (runs := Runs(place.folder / ".coterie")).list()
    waiting = runs.inbox(run) / "m1.json"
    waiting.parent.mkdir(exist_ok=True)
    waiting.write_text(json.dumps({"id": "m1", "kind": "emit", "event": "done"}))
    said = place.look("emit", "done", "--id", "m1", "--run", run, status=1)

    assert "the run has failed, so every attempt has ended (stale)" in said.err
    assert not waiting.exists()


def test_what_programs_read_is_alone_on_standard_output(place: Place) -> None:
    """With --json one document, whatever the status; else the result."""
    for team, status, ended in (("loop.at", 0, "completed"), ("broken.at", 1, "failed"), ("human.at", 4, "stopped")):
        found: Any = json.loads(place.look("run", team, "--json", status=status).out)
        assert (found["outcome"], found["exit"]) == (ended, status)
    said = place.look("run", "loop.at")
    assert said.out.startswith("publisher#1 read True")
    assert said.err.splitlines()[-1].startswith("completed: ")
    assert place.look("run", "broken.at", status=1).out == ""

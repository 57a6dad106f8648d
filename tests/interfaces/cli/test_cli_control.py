"""Loops on the command line: run, steered, resumed and looked at, with programs as agents."""

import json
import os
from typing import Any

import pytest
from command_line import AGENT as TEAM_AGENT
from command_line import Place

AGENT = """
import os, sys, time

turn = os.environ["COTERIE_TURN"]
with open("started.log", "a") as log:
    log.write(turn + "\\n")
if turn == "iteration#1" and os.path.exists("waits"):
    open("ready", "w").close()
    time.sleep(600)
guided = "Mind the tests" in sys.argv[-1]
print(f"{turn} was guided: {guided}", *sys.argv[1:-1])
if turn == "iteration#2":
    print("LOOP_COMPLETE")
"""
SETTINGS = """
event_loop.max_iterations = 3
event_loop.max_failures = 1
backend.kind = "command"
backend.command = "python3"
backend.args = ["looper.py"]
review.enabled = false
memory.prompt_budget_chars = 100
"""
TOPOLOGY = """
name = "pair"
[[role]]
id = "planner"
emits = ["tasks.ready", "task.complete"]
prompt = "You are the planner."
[handoff]
"loop.start" = ["planner"]
"""


@pytest.fixture
def loop(place: Place) -> Place:
    """A folder that holds the loop `pair`, whose second iteration says that it is done."""
    (place.folder / "looper.py").write_text(AGENT)
    (place.folder / "pair").mkdir()
    (place.folder / "pair" / "autoloops.toml").write_text(SETTINGS)
    (place.folder / "pair" / "topology.toml").write_text(TOPOLOGY)
    return place


def projection(place: Place) -> list[dict[str, Any]]:
    """The lines of `core.journal_file`."""
    text = (place.folder / ".autoloop" / "journal.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_a_loop_runs_to_its_end_and_tells_the_earlier_system_too(loop: Place) -> None:
    """It is kept in .autoloop, where its page says, and found there without being told."""
    said = loop.call("run", "pair", "Fix", "it")

    assert loop.started() == ["iteration#1", "iteration#2"]
    assert said.err.splitlines()[-1].startswith("completed")
    assert [line["topic"] for line in projection(loop)] == [
        "loop.start",
        *["iteration.start", "backend.start", "backend.finish", "iteration.finish"] * 2,
        "loop.complete",
    ]
    assert projection(loop)[0]["fields"]["objective"] == "Fix it"
    assert "Objective:\nFix it" in projection(loop)[1]["fields"]["prompt"]
    assert "completed" in loop.look("runs").out


def test_a_limit_stops_a_loop_and_iterations_can_be_added(loop: Place) -> None:
    """Status 3; the way on is told; the projection goes on where it was."""
    said = loop.call("run", "pair", "-i", "1", status=3)
    assert "--add-iterations" in said.err
    loop.call("resume", "last", "--add-iterations", "1")

    assert loop.started() == ["iteration#1", "iteration#2"]
    topics = [line["topic"] for line in projection(loop)]
    assert topics.count("loop.start") == topics.count("loop.resume") == topics.count("loop.complete") == 1
    assert "config.changed" not in topics


def test_what_stands_behind_two_dashes_reaches_the_program_word_by_word(loop: Place) -> None:
    """Defect H: a comma or a space does not take an argument apart, and the objective is not touched."""
    said = loop.call("run", "pair", "-i", "1", "Fix it", "--", "--model", "a,b c", "--json", status=3)

    assert "guided: False --model a,b c --json" in said.err
    assert projection(loop)[0]["fields"]["objective"] == "Fix it"


def test_a_loop_is_guided_and_interrupted_and_goes_on(loop: Place) -> None:
    """Defect M: neither ends the run of programs, nor counts as a failure; the next iteration hears what was said."""
    (loop.folder / "waits").touch()
    process = loop.start("run", "pair", "-v")
    (loop.folder / "ready").read_text()  # a pipe: opened once the agent opens its end
    assert "accepted" in loop.look("control", "guide", "last", "Mind", "the", "tests", "--interrupt").out
    _, told = process.communicate(timeout=60)

    assert process.returncode == 0, told
    assert loop.started() == ["iteration#1", "iteration#2"]
    assert "iteration#2 was guided: True" in told
    assert [line["payload"] for line in projection(loop) if line["topic"] == "operator.guidance"] == ["Mind the tests"]


def test_guidance_waits_for_a_loop_that_is_stopped_and_no_human_takes_it(loop: Place) -> None:
    """A question to a human is answered, not guided."""
    loop.call("run", "pair", "-i", "1", status=3)
    assert "queued" in loop.look("control", "guide", "last", "Mind the tests").out
    assert "iteration#2 was guided: True" in loop.call("resume", "last", "--add-iterations", "1").err
    assert "completed" in loop.look("control", "guide", "last", "Too late", status=1).err

    process = loop.start("run", "human.at", "--no-park")
    lines = iter(process.stderr or ())
    next(line for line in lines if "boss#1 started" in line)
    refused = loop.look("control", "guide", "last", "Hear", "--interrupt", status=1)
    assert "no turn that takes guidance is running" in refused.err
    process.terminate()
    process.communicate(timeout=60)
    newest = max((loop.folder / ".autoloop/runs").glob("*/journal.jsonl"), key=os.path.getmtime)
    assert "boss#1" in newest.read_text()
    assert "operator.said" not in newest.read_text()  # no interrupt either


def test_guidance_that_is_repeated_while_it_waits_is_one_and_can_be_withdrawn(loop: Place) -> None:
    """Once it was taken, the same words are new guidance, and there is nothing to withdraw."""
    loop.call("run", "pair", "-i", "1", status=3)
    said = loop.look("control", "guide", "last", "Mind the tests")
    assert "queued" in said.out
    assert said.err.startswith("`coterie control withdraw ")
    assert "1 removed from its inbox" in loop.look("control", "withdraw", "last").out
    assert "no message waits in its inbox" in loop.look("control", "withdraw", "last", status=1).err
    for _ in range(2):
        assert "queued" in loop.look("control", "guide", "last", "Be brief").out
    assert "guided: False" in loop.call("resume", "last", "--add-iterations", "1").err
    guided = [line["payload"] for line in projection(loop) if line["topic"] == "operator.guidance"]
    assert guided == ["Be brief"]


def test_a_resume_waits_for_an_accepted_stop(place: Place) -> None:
    """An agent may take its time to end."""
    (place.folder / "agent.sh").write_text(
        f"trap 'sleep 1; exit 3' TERM\n{TEAM_AGENT.replace('exec sleep 600', STUBBORN)}"
    )
    owner = place.start_slow()
    assert "accepted" in place.look("control", "stop", "last").out
    assert "completed" in place.call("resume", "last").err
    owner.communicate(timeout=60)
    assert owner.returncode == 3


STUBBORN = "while :; do sleep 0.05; done"
GATES = """
topology gates : [pipeline] {
  human ada { outputs { verdict: yes | no } }
  human bob { outputs { verdict: yes | no } }
  flow { [ada, bob] }
}
"""


def test_answers_to_a_parked_run_are_checked_at_once(place: Place) -> None:
    """What the next owner would refuse is refused now, also while an answer to another question waits."""
    (place.folder / "gates.at").write_text(GATES)
    place.call("run", "gates.at", status=4)

    def respond(*words: str, status: int = 0) -> str:
        said = place.look("control", "respond", "last", *words, status=status)
        return said.err if status else said.out

    assert "unknown output 'verdct'; ada#1 asks for: verdict" in respond(
        "ada#1", "ok", "--output", "verdct=yes", status=1
    )
    assert "queued" in respond("ada#1", "Yes.")
    assert "ada#1 has an answer already" in respond("ada#1", "no", status=1)
    assert "expected the output 'verdict'" in respond("bob#1", "maybe", status=1)
    assert "is not waiting for an answer" in respond("eve#1", "yes", status=1)
    assert "queued" in respond("bob#1", "no")

    done = json.loads(place.call("resume", "last", "--json").out)
    assert done["result"]["outputs"] == {"ada": {"verdict": "yes"}, "bob": {"verdict": "no"}}


INNER = """
topology inner : [pipeline] {
  human boss { outputs { verdict: yes | no } }
  flow { boss }
}
"""
OUTER = """
topology outer : [pipeline] {
  human eve { outputs { verdict: yes | no } }
  agent team { extensions { coterie { topology: "inner.at" } } }
  flow { [eve, team] }
}
"""


@pytest.mark.parametrize("owned", [False, True])
def test_an_answer_to_a_child_run_reaches_its_only_question(place: Place, owned: bool) -> None:
    """Parked or not, an answer that names no turn is for the only question of that run, else it is refused at once."""
    (place.folder / "inner.at").write_text(INNER)
    (place.folder / "outer.at").write_text(OUTER)
    if owned:
        process = place.start("run", "outer.at", "--no-park")
        lines, asked = iter(process.stderr or ()), {"boss#1 started", "eve#1 started"}
        while asked:
            line = next(lines)
            asked -= {one for one in asked if one in line}
    else:
        place.call("run", "outer.at", status=4)
    taken = "accepted" if owned else "queued"

    refused = place.look("control", "respond", "last", "yes", status=1).err
    assert "say which turn the answer is for: eve#1, team#1.1/boss#1; answer with: coterie control respond" in refused
    bad = place.look("control", "respond", "last/team#1.1", "maybe", status=1).err
    assert "expected the output 'verdict'" in bad
    wrong = place.look("control", "respond", "last/team#1.1", "eve#1", "yes", status=1).err
    assert "turn 'team#1.1/eve#1' is not waiting for an answer; waiting turns: eve#1, team#1.1/boss#1" in wrong
    assert taken in place.look("control", "respond", "last/team#1.1", "no").out
    place.look("control", "respond", "last/team#1.1", "no", status=int(owned))  # while it waits, it is the same answer
    assert place.look("control", "respond", "last/team#1.1", "yes", status=1).err
    assert taken in place.look("control", "respond", "last", "eve#1", "yes").out
    if owned:
        process.communicate(timeout=60)
    else:
        place.call("resume", "last")
    answers = place.look("inspect", "last/team#1.1").out, place.look("inspect", "last").out
    assert 'boss#1 answered verdict = "no"' in answers[0]
    assert 'eve#1 answered verdict = "yes"' in answers[1]


UNTYPED = """
topology untyped : [pipeline] {
  human boss { prompt: "May it go?" }
  agent pub { extensions { coterie { command: ["echo", "published"] } } }
  flow { boss -> pub [when boss.verdict == approve] }
}
"""


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("I like it.\nVerdict: **Approve.**", "pub#1 answered"),
        ("I like it.\nverdict: not yet", 'no arrow\'s condition held (boss.verdict is "not yet")'),
    ],
)
def test_an_answer_of_several_lines_gives_an_undeclared_output(place: Place, text: str, then: str) -> None:
    """What only conditions read is untyped: any value is taken, and the run says what its conditions found."""
    (place.folder / "untyped.at").write_text(UNTYPED)
    place.call("run", "untyped.at", status=4)

    refused = place.look("control", "respond", "last", "I like it.\nReally.", status=1)
    assert "expected the output 'verdict'" in refused.out + refused.err
    assert "queued" in place.look("control", "respond", "last", text).out
    assert then in place.call("resume", "last").err


def test_what_an_iteration_was_asked_and_answered_is_looked_up_by_its_number(loop: Place) -> None:
    """Its exact prompt, although the memory of the loop has changed since."""
    loop.call("run", "pair", "Fix it")
    (loop.folder / ".autoloop" / "memory.jsonl").write_text(
        '{"id":"mem-1","type":"learning","text":"Later is too late.","source":"me","created":"2026-01-01T00:00:00Z"}\n'
    )

    asked = json.loads(loop.look("inspect", "last", "prompt", "2", "--json").out)
    assert (asked["turn"], asked["prompt_is_exact"]) == ("iteration#2", True)
    assert "Later is too late" not in asked["prompt"]
    assert loop.look("inspect", "last", "prompt", "iteration#2").out == asked["prompt"] + "\n"
    assert loop.look("inspect", "last", "output", "1").out == "iteration#1 was guided: False\n"
    assert json.loads(loop.look("inspect", "last", "output", "2", "--json").out)["text"].endswith("LOOP_COMPLETE\n")
    assert "has no turn 'iteration#9'" in loop.look("inspect", "last", "prompt", "9", status=1).err

    [question] = (loop.folder / ".autoloop" / "runs").glob("*/turns/iteration#2.1/asked.md")
    question.unlink()  # then it is built again from the parts that the journal holds
    assert loop.look("inspect", "last", "prompt", "2").out == asked["prompt"] + "\n"


FAILS = """
import os, signal, sys, time

turn, prompt = os.environ["COTERIE_TURN"], sys.argv[-1]
with open(f"asked-{turn}", "w") as file:
    file.write(prompt)
key = os.environ["MY_API_KEY"]
if turn == "iteration#1":
    print(f"half of the work with {key}", flush=True)
    print(f"a warning about {key}", file=sys.stderr, flush=True)
    os.kill(os.getpid(), 9)
if turn == "iteration#2":
    print("LOOP_COMPLETE", "and on", flush=True)
    print("LOOP_COMPLETE", flush=True)
    time.sleep(600)
if turn == "iteration#3":
    sys.exit("HTTP 401: the key is not valid")
"""


@pytest.mark.slow  # it waits for a time-out
def test_what_a_failed_iteration_printed_is_kept_and_shown(loop: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live, by `inspect`, in the earlier system's journal with the real exit code, and in the next prompt."""
    monkeypatch.setenv("MY_API_KEY", "secret-1234567890")
    (loop.folder / "looper.py").write_text(FAILS)
    settings = SETTINGS.replace("max_failures = 1", "max_failures = 9") + "backend.timeout_ms = 10000\n"
    (loop.folder / "pair" / "autoloops.toml").write_text(settings)
    said = loop.call("run", "pair", "Fix it", status=1)

    assert said.err.count("HTTP 401: the key is not valid (`python3 looper.py` ended") == 1
    assert "\nfailed (iteration#3 failed (auth)): " in said.err
    assert "failed (exit 137 (SIGKILL)): a warning about *** (`python3 looper.py` was ended by SIGKILL (9))" in said.err
    assert "its last line was “half of the work with ***”" in said.err
    assert "failed (timeout, exit 143 (SIGTERM))" in said.err
    printed = "half of the work with ***\n── standard error ──\na warning about ***"
    shown = loop.look("inspect", "last", "output", "1").out
    assert shown.startswith(f"{printed}\n(failed: ")
    failed = json.loads(loop.look("inspect", "last", "output", "1", "--json").out)["failed"]
    assert (failed["exit_code"], failed["signal"]) == (137, "SIGKILL")
    assert (failed["text"], failed["log"]) == ("half of the work with ***\n", "a warning about ***\n")
    turn = loop.look("inspect", "last", "turn", "1").out
    assert "(exit, exit 137 (SIGKILL): a warning" in turn
    assert f"── output of attempt 1 ──\n{printed}" in turn
    ends = [line["fields"] for line in projection(loop) if line["topic"] == "iteration.finish"]
    assert [(end["exit_code"], end["timed_out"]) for end in ends] == [("137", False), ("143", True), ("1", False)]
    assert ends[0]["output"] == "half of the work with ***\na warning about ***\n"
    assert "half of the work with ***" in (loop.folder / "asked-iteration#2").read_text()
    assert "`LOOP_COMPLETE`" in (loop.folder / "asked-iteration#3").read_text()
    assert not (loop.folder / "asked-iteration#4").exists()
    everything = [path.read_bytes() for path in (loop.folder / ".autoloop").rglob("*") if path.is_file()]
    assert not any(b"secret-1234567890" in text for text in everything)


def test_a_loop_whose_program_does_not_exist_ends_at_once(loop: Place) -> None:
    """Asking again cannot mend it."""
    settings = SETTINGS.replace("max_failures = 1", "max_failures = 9").replace('"python3"', '"no-such-program"')
    (loop.folder / "pair" / "autoloops.toml").write_text(settings)
    said = loop.call("run", "pair", "Fix it", status=1)

    assert "program not found" in said.err
    assert [line["topic"] for line in projection(loop)].count("backend.start") == 1


def test_a_loop_is_looked_into(loop: Place) -> None:
    """Its roles and where events lead, what it remembers and has to do: each as text and as JSON."""
    loop.call("run", "pair", "-i", "1", "--set", "event_loop.required_events=tasks.ready", status=3)
    shown = loop.look("inspect", "last", "topology").out
    plan = json.loads(loop.look("inspect", "last", "topology", "--json").out)

    assert "planner  tasks.ready, task.complete" in shown
    assert "loop.start  planner" in shown
    assert "completes with: task.complete, after tasks.ready" in shown
    assert plan["coordination"]["max_iterations"] == 1
    for view in ("memory", "tasks"):
        assert json.loads(loop.look("inspect", "last", view, "--json").out) == []
        assert loop.look("inspect", "last", view).out


def test_the_topology_of_a_flow_is_looked_into(place: Place) -> None:
    """Its agents and its arrows."""
    place.call("run", "broken.at", status=1)
    shown = place.look("inspect", "last", "topology").out

    assert "writer -> broken" in shown
    assert "agent.sh" in shown


def test_all_runs_are_added_up(loop: Place) -> None:
    """By outcome and by team; a journal that cannot be read is counted as such."""
    loop.call("run", "pair", "-i", "1", status=3)
    loop.call("run", "broken.at", status=1)
    [journal] = (
        path for path in (loop.folder / ".autoloop/runs").glob("*/journal.jsonl") if "broken" in path.read_text()
    )
    found = json.loads(loop.look("stats", "--json").out)

    ran = found["teams"]["pair"]
    assert (ran["runs"], ran["turns"], ran["iterations"]) == (1, 1, 1)
    assert found["outcomes"]["stopped"]["runs"] == 1
    assert found["outcomes"]["failed"]["runs"] == 1
    assert sum(one["runs"] for one in found["outcomes"].values()) == found["total"]["runs"]
    assert loop.look("stats").out.splitlines()[-1].startswith("all")
    journal.write_text("no journal\n" + journal.read_text())
    assert json.loads(loop.look("stats", "--json").out)["outcomes"]["unreadable"]["runs"] == 1


def test_a_team_inside_a_team_counts_by_its_own_turns(place: Place) -> None:
    """As in what the run itself says it used."""
    used = json.loads(place.call("run", "nested.at", "--json").out)["usage"]

    assert json.loads(place.look("stats", "--json").out)["total"]["turns"] == used["turns"] == 7


def test_usage_is_added_up_by_role_model_backend_and_run(place: Place) -> None:
    """Turns of child runs count where they ran, and nothing counts twice; `stats` does the same for all runs."""
    used = json.loads(place.call("run", "nested.at", "--json").out)["usage"]

    for by in ("role", "model", "backend", "run"):
        one = json.loads(place.look("inspect", "last", "usage", "--by", by, "--json").out)
        assert one["total"]["turns"] == used["turns"] == sum(each["turns"] for each in one["used"].values())
        assert json.loads(place.look("stats", "--by", by, "--json").out)["used"] == one["used"]
    assert set(json.loads(place.look("stats", "--by", "backend", "--json").out)["used"]) == {"command"}
    assert place.look("inspect", "last", "usage", "--by", "run").out.startswith("run ")
    assert "--by is for `inspect RUN usage`" in place.look("inspect", "last", "--by", "run", status=2).err


def test_a_run_that_goes_on_is_left_out_of_a_rebuild(loop: Place) -> None:
    """It would write some of its lines once more."""
    (loop.folder / "waits").touch()
    process = loop.start("run", "pair", "-i", "1")
    (loop.folder / "ready").read_text()
    was = (loop.folder / ".autoloop" / "journal.jsonl").read_bytes()
    said = loop.look("state", "rebuild")
    process.terminate()
    process.communicate(timeout=60)

    assert "is active and writes its lines itself" in said.err
    assert (loop.folder / ".autoloop" / "journal.jsonl").read_bytes().startswith(was)


def test_a_run_is_watched_from_elsewhere_until_it_ends(loop: Place) -> None:
    """From its beginning, its child runs included; the run does not notice."""
    (loop.folder / "waits").touch()
    process = loop.start("run", "pair")
    (loop.folder / "ready").read_text()
    watching = loop.start("watch")
    assert watching.stdout is not None
    first = watching.stdout.readline()
    loop.look("control", "interrupt", "last")
    out, _ = watching.communicate(timeout=60)
    process.communicate(timeout=60)

    assert (process.returncode, watching.returncode) == (0, 0)
    assert "of the team pair began" in first
    assert "iteration#2 answered" in out
    assert out.splitlines()[-1].endswith(": completed")


def test_watching_a_run_that_is_over_shows_all_of_it(place: Place) -> None:
    """Each record of the run and of its child runs, and a child's after the one that its turn started with."""
    place.call("run", "nested.at")
    records = [json.loads(line) for line in place.call("watch", "last", "--json").out.splitlines()]

    runs = list(dict.fromkeys(one["run"] for one in records))
    assert len(runs) == 2
    assert runs[1] == f"{runs[0]}/inner#1.1"
    begins = [(one["record"]["topic"], one["record"].get("turn")) for one in records]
    assert begins.index(("turn.started", "inner#1")) < begins.index(("run.started", None), 1)
    for run in runs:
        seqs = [one["record"]["seq"] for one in records if one["run"] == run]
        assert seqs == list(range(1, len(seqs) + 1))


def test_the_earlier_systems_journal_is_made_anew(loop: Place) -> None:
    """From the journals alone, to the letter."""
    assert "no loop here" in loop.look("state", "rebuild").out
    loop.call("run", "pair", "-i", "1", status=3)
    loop.call("run", "pair")
    file = loop.folder / ".autoloop" / "journal.jsonl"
    was = sorted(file.read_bytes().splitlines())
    file.unlink()

    assert "2 runs" in loop.look("state", "rebuild").out
    assert sorted(file.read_bytes().splitlines()) == was
    assert json.loads(loop.look("state", "rebuild", "--json").out) == [{"file": str(file), "runs": 2}]

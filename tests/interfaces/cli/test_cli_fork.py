"""`coterie fork`: another end for a run, with another prompt or other rules."""

import json
from pathlib import Path

import preforked
from command_line import Place

LOOP = ["writer#1", "reviewer#1", "writer#2", "reviewer#2", "publisher#1"]
ECHO = """
topology echo : [pipeline] {
  extensions { coterie { command: ["cat"] } }
  agent first { model: small prompt: "Be first." }
  agent second { model: small prompt: "Be second." }
  flow { first -> second }
}
"""


def runs(place: Place) -> list[str]:
    """The runs, newest first."""
    return [one["run"] for one in json.loads(place.look("runs", "--json").out)]


def seq_of(place: Place, topic: str, turn: str) -> int:
    """The record of the first run on *turn*."""
    records = json.loads(place.look("inspect", runs(place)[-1], "journal", "--json").out)
    return next(int(one["seq"]) for one in records if (one["topic"], one.get("turn")) == (topic, turn))


def test_a_fork_does_again_what_came_after_its_record(place: Place) -> None:
    """And says where it comes from, on standard error and in its timeline."""
    place.call("run", "loop.at", "Do it")
    [origin] = runs(place)
    seq = seq_of(place, "turn.finished", "reviewer#1")
    said = place.call("fork", "last", "--at", str(seq))

    assert place.started() == [*LOOP, *LOOP[2:]]
    fork = runs(place)[0]
    assert f"forked {origin} at record {seq} as {fork}" in said.err
    assert f"forked from {origin} at record {seq}" in place.look("inspect", "last").out
    assert "agrees" in place.look("replay", fork).out


def test_a_fork_with_another_prompt_asks_it(place: Place) -> None:
    """What stands before the record keeps its own."""
    (place.folder / "echo.at").write_text(ECHO)
    (place.folder / "other.md").write_text("Be quite another.\n")
    place.call("run", "echo.at", "Hi")
    seq = seq_of(place, "turn.finished", "first#1")
    place.call("fork", "last", "--at", str(seq), "--prompt", "second=other.md", "--prompt", "first=other.md")

    document = json.loads(place.look("inspect", "last", "turn", "second#1", "--json").out)
    assert document["prompt"].startswith("Be quite another.")
    assert "Be second." not in document["text"]
    assert "Be quite another." in document["text"]
    before = json.loads(place.look("inspect", "last", "turn", "first#1", "--json").out)
    assert before["prompt"].startswith("Be first.")
    assert before["prompt_is_exact"]


def test_a_fork_with_json_prints_the_outcome_of_the_new_run(place: Place) -> None:
    """One document on standard output; limits hold for it."""
    place.call("run", "loop.at")
    seq = seq_of(place, "turn.finished", "writer#1")
    said = place.call("fork", "last", "--at", str(seq), "--max-turns", "2", "--json", status=3)

    document = json.loads(said.out)
    assert document["run"] == runs(place)[0]
    assert (document["outcome"], document["usage"]["turns"]) == ("stopped", 2)


def test_a_model_for_all_comes_before_those_for_single_agents(place: Place) -> None:
    """In whichever order they are given."""
    (place.folder / "echo.at").write_text(ECHO)
    place.call("run", "echo.at")
    place.call("fork", "last", "--at", "3", "--model", "second=huge", "--model", "large")

    records = json.loads(place.look("inspect", "last", "journal", "--json").out)
    [reloaded] = [one for one in records if one["topic"] == "plan.reloaded"]
    agents = json.loads(reloaded["plan"])["agents"]
    assert {name: agent["model"] for name, agent in agents.items()} == {"first": "large", "second": "huge"}


def test_a_nested_agent_is_named_by_its_node(place: Place) -> None:
    """`inner/reviewer` of the team that answers at `inner`."""
    place.call("run", "nested.at")
    place.call("fork", "last", "--at", "3", "--set", "inner/reviewer.timeout=1h", "--set", "inner/writer.env.X=1")

    records = json.loads(place.look("inspect", "last", "journal", "--json").out)
    [reloaded] = [one for one in records if one["topic"] == "plan.reloaded"]
    inner = json.loads(reloaded["plan"])["agents"]["inner"]["child"]["agents"]
    assert (inner["reviewer"]["timeout"], inner["writer"]["env"]) == (3600.0, {"X": "1"})


def test_changes_that_contradict_what_happened_name_where_to_fork(place: Place) -> None:
    """With that, it works."""
    (place.folder / "flaky.py").write_text('import os, sys; sys.exit(os.environ["COTERIE_ATTEMPT"] == "1")')
    flaky = 'agent flaky { retry: 1 extensions { coterie { command: ["{python}", "{here}/flaky.py"] } } }'
    team = f"topology flaky : [pipeline] {{ {flaky} action end {{ commands: [true] }} flow {{ flaky -> end }} }}"
    (place.folder / "flaky.at").write_text(team)
    place.call("run", "flaky.at")
    said = place.call("fork", "last", "--set", "flaky.retry=0", status=1)
    assert "with the changes, this would have been decided differently: fork the run at 5 or earlier" in said.err
    assert len(runs(place)) == 1

    place.call("fork", "last", "--at", "5", "--set", "flaky.retry=0", status=1)
    assert "failed for good" in place.look("inspect", "last").out


def test_words_that_do_not_fit_are_told(place: Place) -> None:
    """Status 2; no run is made."""
    place.call("run", "loop.at")
    for word, told in (
        ("--prompt=writer", "write --prompt AGENT=FILE"),
        ("--prompt=writer=nowhere.md", "cannot be read: No such file"),
        ("--set=retri=3", "did you mean 'retry'?"),
        ("--set=retry", "write name=text"),
        ("--set=writr.retry=3", "did you mean 'writer'?"),
        ("--model=writr=x", "did you mean 'writer'?"),
        ("--backend=comand", "did you mean 'command'?"),
        ("--at=99", "the last one is 17"),
    ):
        assert told in place.look("fork", "last", word, status=2).err
    assert len(runs(place)) == 1


def test_a_living_run_can_be_forked_and_goes_on(place: Place) -> None:
    """Its agents live on: the fork asks its own."""
    process = place.start_slow()
    try:
        said = place.call("fork", "last")
        assert "will retry: slow#1" in said.err
        assert process.poll() is None
        assert "runs as process" in place.look("inspect", runs(place)[-1]).out
        [pid] = [
            one["pid"]
            for one in json.loads(place.look("inspect", runs(place)[-1], "journal", "--json").out)
            if one["topic"] == "attempt.launched" and one["turn"] == "slow#1"
        ]
        assert Path(f"/proc/{pid}").exists() or not Path("/proc/self").exists()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert place.started().count("slow#1") == 2


def test_a_fork_that_is_killed_while_it_is_made_is_no_run(place: Place) -> None:
    """Nothing is listed, and the original can be forked again."""
    place.call("run", "loop.at")
    before = runs(place)
    for where in ("append:1", "append:2", "sync:1"):
        dead = preforked.run("fork", "last", "--at", "6", cwd=place.folder, kill=where)
        assert dead.returncode == -9
        assert runs(place) == before

    place.call("fork", "last", "--at", "6")
    assert len(runs(place)) == 2

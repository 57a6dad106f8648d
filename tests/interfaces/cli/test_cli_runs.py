import json
import os
import pty
import select
import signal
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
from command_line import Place
from until import until

from coterie.history.journal.lock import RunLock
from coterie.interfaces.cli import views

LACKING = """topology t : [pipeline] {
  agent a { extensions { coterie { command: ["true"] } } }
  agent b { extensions { coterie { command: ["no-such-program"] } } }
  flow { a -> b }
}
"""
LOOP = ["writer#1", "reviewer#1", "writer#2", "reviewer#2", "publisher#1"]


def wait_for(stream: IO[str] | None, text: str) -> str:
    """Read lines from *stream* up to the one that holds *text*."""
    assert stream is not None
    lines = ""
    for line in stream:
        lines += line
        if text in line:
            return lines
    raise AssertionError(f"{text!r} did not come:\n{lines}")


def read_until(terminal: int, text: str) -> str:
    """What *terminal* shows up to *text*."""
    shown = b""
    while text.encode() not in shown:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, shown.decode()
        shown += os.read(terminal, 65536)
    return shown.decode(errors="replace")


def test_a_run_into_a_pipe_prints_its_result_and_tells_lines(place: Place) -> None:
    """Standard output holds the result and nothing else; what happens and the outcome go to standard error."""
    said = place.call("run", "loop.at", "Do it")

    assert place.started() == LOOP
    assert said.out == 'publisher#1 read True\n{"verdict": "approve"}\n'
    lines = said.err.splitlines()
    assert [line.split()[1] for line in lines if " started" in line] == LOOP
    assert lines[-1].startswith("completed: 5 turns, ")


def test_a_run_with_json_prints_one_document(place: Place) -> None:
    """And nothing else."""
    document = json.loads(place.call("run", "loop.at", "--json").out)

    assert (document["outcome"], document["exit"], document["reason"], document["waiting"]) == ("completed", 0, "", [])
    assert document["usage"]["turns"] == 5
    assert "publisher#1 read" in document["result"]["text"]
    assert (place.folder / ".coterie" / "runs" / document["run"] / "journal.jsonl").exists()


def test_a_limit_stops_with_3_and_resume_goes_on_from_there(place: Place) -> None:
    """What was finished is not done again; the limit stays until the printed line raises it, or `none` lifts it."""
    said = place.call("run", "loop.at", "--max-turns", "3", status=3)
    assert place.started() == LOOP[:3]
    assert said.out == ""
    assert "stopped (max_turns)" in said.err

    for _ in range(2):
        said = place.call("resume", "last", status=3)
        assert place.started() == LOOP[:3]
    [line] = [line for line in said.err.splitlines() if line.startswith("  coterie resume ")]
    assert line.endswith(" --max-turns 6")
    place.call(*line.split()[1:-1], "4", status=3)
    assert place.started() == LOOP[:4]
    place.call("resume", "last", "--max-turns", "none")
    assert place.started() == LOOP


def test_a_finished_run_cannot_be_resumed(place: Place) -> None:
    """The error says what can be done with it."""
    place.call("run", "loop.at")

    assert "cannot be continued" in place.call("resume", "last", status=1).err


def test_a_failed_run_ends_with_1_and_says_why(place: Place) -> None:
    """The reason is the failing agent's own last line; standard output is empty, so that no script takes it."""
    said = place.call("run", "broken.at", status=1)

    assert "failed (" in said.err
    assert said.out == ""
    assert "it is broken" in said.err
    assert "coterie inspect" in said.err
    assert place.started() == ["writer#1", "broken#1"]


def test_the_cause_of_a_failure_is_printed_once(place: Place) -> None:
    """Where it happens; the lines after it refer to the turn."""
    said = place.call("run", "broken.at", status=1)

    assert said.err.count("it is broken") == 1
    assert "\nfailed (broken#1 failed (exit)): " in said.err


def test_ctrl_c_ends_with_130_and_the_turn_that_was_cut_off_is_asked_again(place: Place) -> None:
    """Only that turn."""
    process = place.start_slow()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "coterie resume" in told

    place.call("resume", "last")
    assert place.started().count("writer#1") == place.started().count("publisher#1") == 1


def test_a_question_to_a_human_parks_the_run(place: Place) -> None:
    """Status 4; the answer is given in words, waits, and is taken at resume."""
    said = place.call("run", "human.at", status=4)
    assert "boss#1 asks:" in said.err
    assert "coterie control respond" in said.err

    assert "queued" in place.call("control", "respond", "last", "Go ahead", "--output", "verdict=approve").out
    place.call("resume", "last")
    assert place.started() == ["writer#1", "publisher#1"]


def test_a_living_run_takes_an_answer_at_once(place: Place) -> None:
    """One that does not fit is refused, with the reason, and the question stays open."""
    process = place.start("run", "human.at", "--no-park")
    wait_for(process.stderr, "boss#1 started")

    refused = place.call("control", "respond", "last", "boss#1", "Well", "--output", "verdict=maybe", status=1)
    assert "refused" in refused.err
    accepted = place.call("control", "respond", "last", "-", "--output", "verdict=approve", "--json", status=0)
    assert json.loads(accepted.out)["status"] == "accepted"
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_turn_is_cut_off_from_elsewhere_and_asked_again(place: Place) -> None:
    """`control interrupt` counts as no failure."""
    process = place.start_slow()

    assert "accepted" in place.call("control", "interrupt", "last", "slow#1").out
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "publisher#1" in out


def test_a_run_belongs_to_one_process(place: Place) -> None:
    """A second one is refused, clearly, and the list of runs says that it is running."""
    process = place.start_slow()
    try:
        assert "is owned by a living process" in place.call("resume", "last", status=1).err
        assert "  running  " in place.look("runs").out
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_a_killed_run_is_cut_off_until_it_is_resumed(place: Place) -> None:
    """The list of runs tells it from one that stopped in good order."""
    process = place.start_slow()
    process.kill()
    process.communicate(timeout=60)
    # a child that it was about to start holds its lock for another moment
    until(lambda: json.loads(place.look("runs", "--json").out)[0]["state"] == "cut off")

    place.call("resume", "last")
    assert json.loads(place.look("runs", "--json").out)[0]["state"] == "completed"


def test_a_reader_that_goes_away_does_not_end_a_run(place: Place) -> None:
    """`coterie run … | head -1` still does all the work."""
    read, write = os.pipe()
    process = place.start("run", "loop.at", stdout=write)
    os.close(write)
    os.close(read)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 0
    assert told.splitlines()[-1].startswith("completed: 5 turns")
    assert "cannot write" not in told
    assert place.started() == LOOP


def test_an_answer_to_a_run_that_is_over_is_refused(place: Place) -> None:
    """It would wait for ever."""
    place.call("run", "loop.at")

    assert "completed" in place.call("control", "respond", "last", "Go", status=1).err


def test_nobody_who_thinks_is_an_error_before_anything_starts(place: Place) -> None:
    """It names the agents and the ways out."""
    (place.folder / "mute.at").write_text(
        "topology mute : [pipeline] { agent a { model: m } agent b { model: m } flow { a -> b } }"
    )
    told = place.call("run", "mute.at", status=1).err

    assert "no-backend" in told
    assert "--rehearse" in told
    assert not (place.folder / ".coterie").exists()


def test_a_file_that_is_wrong_is_shown_where_it_is(place: Place) -> None:
    """With a caret, and nothing starts."""
    (place.folder / "wrong.at").write_text(
        "topology wrong : [pipeline] {\n  agent a { model: m }\n  flow { a -> bb }\n}\n"
    )
    told = place.look("run", "wrong.at", "--rehearse", status=1).err

    assert "wrong.at:3:15: error[" in told
    assert "^^" in told


def test_warnings_are_told_and_do_not_stop(place: Place) -> None:
    """On standard error, before the run."""
    (place.folder / "odd.at").write_text(
        "topology odd : [pipeline] {\n  agent a { model: m  modle: n }\n  agent b { model: m }\n  flow { a -> b }\n}\n"
    )

    assert "warning[unknown-field]" in place.look("run", "odd.at", "--rehearse").err


def test_a_rehearsal_is_one_document_in_virtual_time(place: Place) -> None:
    """No process is started and nothing is written."""
    document = json.loads(place.look("run", "loop.at", "--rehearse", "--json").out)

    assert (document["outcome"], document["exit"]) == ("completed", 0)
    assert [f"{turn['agent']}#{turn['n']}" for turn in document["turns"]]
    assert place.started() == []
    assert not (place.folder / ".coterie").exists()


@pytest.mark.parametrize("words", [["--rehearse", "script.json", "Go"], ["Go", "--rehearse=script.json"]])
def test_a_script_says_what_is_answered(place: Place, words: list[str]) -> None:
    """The word after `--rehearse` is the script when it ends in .json, and the prompt otherwise."""
    script = {"reviewer": [{"outputs": {"verdict": "approve"}, "seconds": 2}]}
    (place.folder / "script.json").write_text(json.dumps(script))
    document = json.loads(place.look("run", "loop.at", *words, "--json").out)

    assert [turn["agent"] for turn in document["turns"]] == ["writer", "reviewer", "publisher"]
    assert document["turns"][2]["started"] == 3.0
    shown = place.look("run", "loop.at", *words).out
    assert "00:01.0 – 00:03.0  reviewer#1 <- writer" in shown
    assert shown.endswith("completed (rehearsed: no backend was called)\n")


def test_a_rehearsal_that_fails_has_the_status_of_a_failure(place: Place) -> None:
    """The same statuses as a run."""
    (place.folder / "script.json").write_text('{"writer": [{"fail": "exit"}]}')

    assert "failed" in place.look("run", "loop.at", "--rehearse", "script.json", status=1).out


def test_a_script_that_cannot_be_used_is_a_usage_error(place: Place) -> None:
    """It names the file and the entry."""
    (place.folder / "script.json").write_text('{"writr": [{}]}')

    assert "did you mean 'writer'?" in place.look("run", "loop.at", "--rehearse", "script.json", status=2).err


def test_inspect_shows_what_happened(place: Place) -> None:
    """Every view, in words and as JSON."""
    place.call("run", "loop.at", "Do it", "--input", "budget:=3")

    timeline = place.look("inspect", "last").out.splitlines()
    records = json.loads(place.look("inspect", "last", "journal", "--json").out)
    assert len(timeline) == len(records) == len(json.loads(place.look("inspect", "last", "--json").out))
    assert records[0]["topic"] == "run.started"
    lines = [json.loads(line) for line in place.look("inspect", "last", "journal").out.splitlines()]
    assert [line["seq"] for line in lines if line["topic"] != "text"] == [record["seq"] for record in records]

    turn = json.loads(place.look("inspect", "last", "turn", "writer#2", "--json").out)
    assert turn["prompt_is_exact"] is True
    assert "Do it" in turn["prompt"]
    assert "# Result of reviewer (reviewer#1)" in turn["prompt"]
    assert turn["inputs"] == ["reviewer#1"]
    assert [one["state"] for one in turn["attempts"]] == ["finished"]
    shown = place.look("inspect", "last", "turn", "writer#2").out
    assert shown.startswith("writer#2: finished\nmarked by reviewer#1\nattempt 1: finished, ")
    assert turn["prompt"] in shown

    why = json.loads(place.look("inspect", "last", "why", "publisher#1", "--json").out)
    assert why[0]["turn"] == "publisher#1"
    assert "reviewer#2" in place.look("inspect", "last", "why", "publisher#1").out
    usage = json.loads(place.look("inspect", "last", "usage", "--json").out)
    assert {name: one["turns"] for name, one in usage["agents"].items()} == {"writer": 2, "reviewer": 2, "publisher": 1}
    assert place.look("inspect", "last", "usage").out.splitlines()[-1].startswith("total")
    assert "has no turn 'writer#9'" in place.look("inspect", "last", "turn", "writer#9", status=1).err


def test_a_child_run_is_inspected_by_its_turn(place: Place) -> None:
    """RUN/TURN.ATTEMPT is the child; the turn that it is names it."""
    run = json.loads(place.call("run", "nested.at", "Deep", "--json").out)["run"]

    assert f"coterie inspect '{run}/inner#1.1'" in place.look("inspect", "last", "turn", "inner#1").out
    turn = json.loads(place.look("inspect", "last/inner#1.1", "turn", "reviewer#2", "--json").out)
    assert (turn["run"], turn["state"], turn["prompt_is_exact"]) == (f"{run}/inner#1.1", "finished", True)
    assert "there is no run" in place.look("inspect", "last/inner#1.2", status=1).err
    assert place.started() == ["writer#1", *LOOP, "publisher#1"]


def test_replay_agrees_with_a_run_and_with_half_of_one(place: Place) -> None:
    """What is left to do is told; a journal that was tampered with is not agreed with."""
    place.call("run", "loop.at", "--max-turns", "2", status=3)
    assert json.loads(place.look("replay", "last", "--json").out)["left"] == ["start writer#2"]
    place.call("resume", "last", "--max-turns", "none")
    assert "the current engine agrees with" in place.look("replay", "last").out
    assert json.loads(place.look("replay", "last", "--json").out)["left"] == []

    (journal,) = (place.folder / ".coterie" / "runs").glob("*/journal.jsonl")
    journal.write_text(journal.read_text().replace('"turn":"writer#2"', '"turn":"writer#3"'))
    assert "its checksum is missing or wrong" in place.look("replay", "last", status=1).err


def test_a_run_that_never_began_is_told_from_one_with_nothing_to_say(place: Place) -> None:
    """Its owner was killed before the first record; each view says so."""
    place.call("run", "loop.at")
    [journal] = (place.folder / ".coterie" / "runs").glob("*/journal.jsonl")
    journal.write_text("")

    for view in ("timeline", "usage", "journal"):
        assert "the run never began; start it anew" in place.look("inspect", "last", view, status=1).err


def test_a_run_that_a_process_has_just_started_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a folder and an owner before its first record."""
    place.call("run", "loop.at")
    [journal] = (place.folder / ".coterie" / "runs").glob("*/journal.jsonl")
    records = journal.read_text()
    journal.write_text("")
    monkeypatch.setattr(views.time, "sleep", lambda seconds: journal.write_text(records))

    owner = RunLock(journal.parent.name, journal.parent / "lock")
    try:
        assert "the run has completed" in place.look("inspect", "last", "timeline").out
    finally:
        owner.release()


def test_a_run_is_named_by_the_beginning_of_its_id(place: Place) -> None:
    """As long as no other run begins so."""
    run = json.loads(place.call("run", "loop.at", "--json").out)["run"]

    assert place.look("inspect", run[:-2]).out == place.look("inspect", run).out
    assert "there is no run 'nothing'" in place.look("inspect", "nothing", status=1).err


def test_an_answer_that_cannot_be_used_is_refused_though_nobody_runs_the_run(place: Place) -> None:
    """It would be at the next resume. One that can be used waits, and so does one for a turn that may follow it."""
    place.call("run", "human.at", status=4)
    unfit = place.call("control", "respond", "last", "Well", "--output", "verdict=maybe", status=1)
    nobody = place.call("control", "respond", "last", "boss", "approve", status=1)
    [folder] = (place.folder / ".coterie" / "runs").iterdir()

    assert "refused: expected the output 'verdict' to be one of" in unfit.err
    assert (
        nobody.err == f"run {folder.name}: refused: turn 'boss' is not waiting for an answer; waiting turns: boss#1; "
        f"answer with: coterie control respond {folder.name} 'boss#1' TEXT\n"
    )
    assert not list((folder / "inbox").glob("*.json"))
    place.call("control", "respond", "last", "boss#1", "Go", "--output", "verdict=approve")
    assert "is not waiting" in place.call("control", "respond", "last", "boss", "approve", status=1).err
    assert "queued" in place.call("control", "respond", "last", "boss#2", "approve").out
    place.call("resume", "last")


def test_where_nothing_can_be_written_nobody_is_sent_to_resume(place: Place) -> None:
    """The run never began: there is nothing to take up. No file may lie where the state directory is to be."""
    (place.folder / "taken").write_text("")
    told = place.call("run", "loop.at", "--state-dir", "taken/state", status=1).err

    assert "the run never began: fix that, or choose another --state-dir, then start it again" in told
    assert "coterie resume" not in told


def test_another_state_directory_is_named_in_what_to_do_next(place: Place) -> None:
    """The commands that are suggested work as they stand."""
    told = place.call("run", "loop.at", "--max-turns", "1", "--state-dir", "kept", status=3).err

    assert "--state-dir kept" in told
    assert (place.folder / "kept" / "runs").is_dir()
    place.call("resume", "last", "--state-dir", "kept", "--max-turns", "none")


def test_resume_can_take_the_file_as_it_is_now(place: Place) -> None:
    """With --reload; an ordinary resume obeys the plan that was recorded."""
    place.call("run", "slow.at", "--max-turns", "1", status=3)
    team = place.folder / "slow.at"
    team.write_text(team.read_text().replace("/agent.sh", "/gone.sh"))
    place.call("resume", "last", "--max-turns", "1", status=3)

    place.call("resume", "last", "--max-turns", "1", "--reload", "slow.at", status=3)
    assert "gone.sh" in place.call("resume", "last", "--max-turns", "none", status=1).err


def test_a_terminal_shows_the_tree_and_asks(place: Place) -> None:
    """The whole conversation at a terminal: the question, the answer, its output, and how it ended."""
    keyboard, line = pty.openpty()
    process = place.start("run", "human.at", stdin=line, stdout=line, stderr=line)
    os.close(line)
    shown = typed = ""
    for question, answer in (("> ", "Go ahead\n"), ("verdict (approve | revise): ", "approve\n")):
        shown += read_until(keyboard, question)
        os.write(keyboard, answer.encode())
        typed += answer
    shown += read_until(keyboard, "completed: ")
    process.wait(timeout=60)
    os.close(keyboard)

    assert process.returncode == 0
    assert "▶ human" in shown
    assert "✓ publisher#1" in shown


def test_ctrl_c_at_a_question_leaves_it_open(place: Place) -> None:
    """The terminal is given back, and the run can be resumed or answered."""
    keyboard, line = pty.openpty()
    process = place.start("run", "human.at", stdin=line, stdout=line, stderr=line)
    os.close(line)
    shown = read_until(keyboard, "> ")
    process.send_signal(signal.SIGINT)
    shown += read_until(keyboard, "continue with:")
    process.wait(timeout=60)
    os.close(keyboard)

    assert process.returncode == 130
    assert "interrupting the run" in shown
    place.call("control", "respond", "last", "Go", "--output", "verdict=approve")
    place.call("resume", "last")
    assert place.started() == ["writer#1", "publisher#1"]


def test_what_a_run_will_lack_is_told_at_its_start(place: Place) -> None:
    """A program that an agent needs."""
    (place.folder / "t.at").write_text(LACKING)
    program = "the program 'no-such-program' is not on the PATH yet; b will need it"
    began = place.call("run", "t.at", "hi", "--max-turns", "1", status=3).err
    went_on = place.call("resume", "last", "--max-turns", "none", status=1).err

    assert (began.count(program), went_on.count(program)) == (1, 1)


def test_runs_of_another_user_are_said_to_be_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that there are none; nor is one begun beside them."""
    (place.folder / ".coterie" / "runs").mkdir(parents=True)
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, partial(denied_in_runs, getattr(os, name)))
    for words in (["runs"], ["inspect", "last"], ["resume", "last", "--retry"], ["run", "slow.at", "again"]):
        said = place.look(*words, status=2).err
        assert said == (
            "coterie: the runs in .coterie are those of another user, and you may not read them: "
            "work as that user, or keep yours elsewhere with --state-dir DIR\n"
        ), words


def denied_in_runs(look: Any, path: Any = ".") -> Any:
    if Path(path).name == "runs":
        raise PermissionError(13, "Permission denied", str(path))
    return look(path)

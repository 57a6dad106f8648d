"""`coterie simulate`: a verdict, or the seed that breaks a promise and how to repeat it."""

import contextlib
import json
import os
import pty
import signal
from pathlib import Path

import pytest
from command_line import Place

from coterie.testing.simulated import SimulatedWriter


def test_a_team_that_survives_gets_a_verdict(place: Place) -> None:
    """Counts, worst cases, and what held; nobody was asked, and nothing was written."""
    said = place.look("simulate", "loop.at", "--seeds", "40", "--jobs", "1")

    assert said.out.startswith("survived 40 crash schedules (")
    assert "worst case: " in said.out
    assert "no turn with a durable result was started again (" in said.out
    assert "publisher had no second turn" in said.out
    assert said.err.startswith("40 of 40 schedules, ")
    assert place.started() == []
    assert not (place.folder / ".coterie").exists()


@pytest.mark.slow  # processes of the pool load the library anew
def test_the_verdict_depends_on_the_seeds_alone(place: Place) -> None:
    """However many processes there are; a team inside the team is played as well."""
    documents = []
    for jobs in ("1", "2"):
        said = place.call("simulate", "nested.at", "--seeds", "60", "--from", "3", "--jobs", jobs, "--json")
        documents.append(json.loads(said.out))
        took = documents[-1].pop("took")
        assert took["jobs"] == int(jobs)

    assert documents[0] == documents[1]
    assert documents[0]["schedules"] == 60
    assert set(documents[0]["agents"]) == {"writer", "inner/writer", "inner/reviewer", "inner/publisher", "publisher"}


def test_a_broken_promise_tells_its_seed_its_records_and_how_to_repeat_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 1; the command that it names breaks the same promise again. The first schedule keeps it."""
    monkeypatch.setattr(SimulatedWriter, "begin", lambda writer: True)
    said = place.look("simulate", "loop.at", "--seeds", "60", "--from", "5", "--jobs", "1", status=1)

    told = said.out.splitlines()
    seed = int(next(line for line in told if " violated a guarantee: " in line).split()[1])
    assert seed > 5
    file = Path(next(line for line in told if line.startswith("its records: ")).removeprefix("its records: "))
    records = [json.loads(line) for line in (place.folder / file).read_text().splitlines()]
    assert records[0]["run"] == "R"
    assert records[0]["record"]["topic"] == "run.started"
    assert told[-1] == f"  coterie simulate loop.at --seeds 1 --from {seed}"

    again = json.loads(place.look(*told[-1].split()[1:], "--json", status=1).out)
    assert (again["schedules"], again["broken"]["seed"]) == (0, seed)
    assert again["broken"]["what"] in said.out


def test_the_parameters_of_a_team_are_given_as_for_a_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And come back in the command that repeats a schedule."""
    (place.folder / "param.at").write_text(
        'topology param : [pipeline] { params { tone: string } agent a { model: m prompt: "${param.tone}" } '
        "agent b { model: m } flow { a -> b } }"
    )
    assert "survived 5" in place.look("simulate", "param.at", "--seeds", "5", "--set", "tone=dry").out
    assert "tone" in place.look("simulate", "param.at", "--set", "tune=dry", status=1).err
    monkeypatch.setattr(SimulatedWriter, "is_durable", lambda writer, seq: True)
    told = place.look("simulate", "param.at", "--jobs", "1", "--set", "tone=dry", status=1).out
    assert "coterie simulate param.at --set tone=dry --seeds 1 --from " in told


def test_a_file_that_is_wrong_is_not_simulated(place: Place) -> None:
    """Its findings are told instead."""
    (place.folder / "wrong.at").write_text("topology wrong : [pipeline] { flow { a -> b } }")

    assert "error[" in place.look("simulate", "wrong.at", status=1).err
    said = place.look("simulate", "wrong.at", "--json", status=1)
    document = json.loads(said.out)
    assert (document["file"], document["valid"], said.err) == ("wrong.at", False, "")
    assert {one["code"] for one in document["diagnostics"]} == {"unknown-agent"}
    assert "there is no file" in place.look("simulate", "nowhere.at", status=2).err


@pytest.mark.slow
def test_ctrl_c_tells_what_was_done(place: Place) -> None:
    """On a terminal the progress is shown; the verdict is on the schedules that were run."""
    terminal, other = pty.openpty()
    process = place.start("simulate", "loop.at", "--seeds", "1000000", stderr=other)
    os.close(other)
    shown = b""
    while b" of 1,000,000 schedules" not in shown:
        shown += os.read(terminal, 4096)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # the terminal's other end is gone
        while part := os.read(terminal, 4096):
            shown += part
    out = process.communicate(timeout=60)[0]
    os.close(terminal)

    assert process.returncode == 130
    assert out.startswith("survived ")
    assert b", interrupted" in shown
    assert b"Traceback" not in shown

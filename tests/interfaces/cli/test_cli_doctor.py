"""`coterie doctor`: what does not work is found, with what to do; the rest is left in peace."""

import contextlib
import json
import os
import re
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import without_subreaper
from bundles import bundle
from command_line import Place

from coterie.agents.backends.coding import probes
from coterie.execution.runs import checkups, index
from coterie.execution.runs.messages.doorbell import socket_path
from coterie.history.journal import lock
from coterie.team.options.backends import KINDS
from coterie.team.options.extras import Extra

REAL_OUTPUT = probes._output


@pytest.fixture(autouse=True)
def quick_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coding agents that are installed here are not started: it takes seconds, and has tests of its own."""
    monkeypatch.setattr(probes, "_output", lambda argv, said="", stderr=None: "1.0")


def doctor(place: Place, *words: str, status: int = 0) -> dict[str, dict[str, Any]]:
    """What was found, by check."""
    document = json.loads(place.look("doctor", "--json", *words, status=status).out)
    assert document["ok"] == (status == 0)
    return {one["check"]: one for one in document["findings"]}


def test_where_all_is_well_nothing_stands_in_the_way(place: Place) -> None:
    """Every check has a line; nothing is changed."""
    before = sorted(place.folder.rglob("*"))
    said = place.look("doctor")

    found = doctor(place)
    statuses = {check: one["status"] for check, one in found.items()}
    has_sandbox = statuses.pop("sandbox", "ok") == "ok"  # macOS has none
    assert has_sandbox or sys.platform != "linux"
    assert re.search(r"no problems(, \d warnings?)?\n$", said.out)
    assert statuses.pop("disk") in ("ok", "warn")  # a busy machine syncs slowly
    assert set(statuses.values()) <= {"ok", "note"}
    assert {"python", "coterie", "git", "state directory", "locks", "disk", "doorbell", "processes", "runs"} <= {*found}
    assert "list of runs" in found
    assert found["loop.at"]["found"] == "1 warning"  # its reviewer declares no outputs
    assert sorted(place.folder.rglob("*")) == before


def test_what_does_not_work_makes_the_status_1(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is told with the next step."""
    monkeypatch.setattr(checkups, "OLDEST_PYTHON", (99, 1))
    found = doctor(place, status=1)["python"]

    assert (found["status"], found["next"]) == ("fail", "install Python 99.1 or newer")
    assert sys.executable in found["found"]
    assert "1 problem" in place.look("doctor", status=1).out


@bundle(("answer", "status", "said"), [("true", "ok", ", logged in"), ("false", "warn", ", not logged in")])
def test_a_program_that_is_not_logged_in_is_warned_of(
    answer: str, status: str, said: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run would find it out; a run of the program is not needed to know."""
    script = f"#!/bin/sh\n[ $1 = auth ] && echo '{{\"loggedIn\": {answer}}}' || echo '2.1.0 (Claude Code)'\n"
    (tmp_path / "claude").write_text(script)
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(probes, "_output", REAL_OUTPUT)
    monkeypatch.setattr(probes, "DEADLINE", 60.0)
    found = doctor(place)["backend command"]

    assert found["status"] == status
    assert found["found"] == f"-b command runs {tmp_path}/claude: 2.1.0 (Claude Code){said}"
    assert found.get("next", "") == ("" if status == "ok" else probes.LOG_IN)


def test_a_state_directory_that_cannot_be_made_is_found(place: Place) -> None:
    """A file is in the way."""
    found = doctor(place, "--state-dir", "loop.at/state", status=1)
    assert found["state directory"]["status"] == "fail"
    assert "Not a directory" in found["state directory"]["found"]


def test_a_state_directory_that_cannot_be_private_is_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run would not begin there."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    found = doctor(place, status=1)["state directory"]

    assert (found["status"], found["found"]) == ("fail", ".coterie cannot be written: Operation not permitted")


def test_a_socket_that_cannot_be_bound_is_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is taken, here by a folder; runs do without a doorbell. Where it can be bound, none is left."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, contextlib.chdir(place.folder):
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        assert doctor(place)["doorbell"]["status"] == "ok"
        path = socket_path(Path(".coterie/runs/doctor"))
        assert path.parent.is_relative_to(folder)
        assert [*path.parent.iterdir()] == []
        path.mkdir()
        found = doctor(place)["doorbell"]

        assert (found["status"], found["found"].startswith(f"no socket can be bound in {path.parent}: ")) == (
            "warn",
            True,
        )


def test_locks_that_do_not_work_are_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them two owners could not be told apart."""
    monkeypatch.setattr(lock, "fcntl", None)
    assert "no flock" in doctor(place, status=1)["locks"]["found"]


@pytest.mark.skipif(without_subreaper.PRCTL is None or sys.platform != "linux", reason="seccomp of a known machine")
def test_where_what_hides_can_outlive_its_attempt_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process cannot become a subreaper on every kernel, and in every container."""
    assert doctor(place)["processes"]["status"] == "ok"
    refused = tmp_path / "python"
    refused.write_text(f'#!/bin/sh\nexec {sys.executable} {without_subreaper.__file__} {sys.executable} "$@"\n')
    refused.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(refused))

    found = doctor(place)["processes"]
    assert found["status"] == "note"
    assert "outlives its attempt" in found["found"]
    assert "bubblewrap" in found["next"]


def test_a_slow_disk_and_a_long_path_are_warned_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """They work all the same."""
    monkeypatch.setattr(checkups, "SLOW_SYNC", -1.0)
    monkeypatch.setattr(checkups, "SOCKET_PATH_MOST", 3)
    found = doctor(place)

    assert found["disk"]["status"] == found["doorbell"]["status"] == "warn"
    warned = [one["status"] for one in found.values()].count("warn")
    assert f"no problems, {warned} warnings" in place.look("doctor").out


def test_extras_that_are_not_installed_are_named_with_how_to_get_them(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fault not to have them."""
    dreams = Extra("for agents that dream", {"dreams": "no-such-library"})
    half = Extra("for agents that nap", {"pytest": "pytest", "naps": "no-such-naps"})
    monkeypatch.setattr(checkups, "EXTRAS", {"dreams": dreams, "naps": half})
    found = doctor(place)

    assert found["extra dreams"] == {
        "check": "extra dreams",
        "status": "note",
        "found": "not installed",
        "next": "pip install 'coterie[dreams]', for agents that dream",
    }
    assert found["extra naps"]["found"] == "incomplete: no-such-naps is not installed"


def test_configured_servers_are_reachable_or_not(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the cluster that the environment names, and of a system in this folder; each is only connected to."""
    pool = "{name: root, children: [{type: dynamic_supervisor, name: pool}]}"
    system = f"transport: {{type: nats, servers: [nats://127.0.0.1:1]}}\nsupervision: {pool}\n"
    (place.folder / "topology.yaml").write_text(system)
    with socket.create_server(("127.0.0.1", 0)) as temporal:
        here = f"127.0.0.1:{temporal.getsockname()[1]}"
        monkeypatch.setenv("COTERIE_CLUSTER", f"temporal://{here}/x?export=postgresql://ada:secret@127.0.0.1:1/runs")
        found = doctor(place)

    assert found["Temporal"]["found"] == f"temporal://{here} can be reached"
    assert found["PostgreSQL"]["status"] == found["NATS"]["status"] == "warn"
    assert found["PostgreSQL"]["found"] == "postgresql://127.0.0.1:1/runs cannot be reached: Connection refused"
    assert found["NATS"]["found"] == "nats://127.0.0.1:1 cannot be reached: Connection refused"

    monkeypatch.setenv("COTERIE_CLUSTER", "temporal://h/x")
    assert "says no export" in doctor(place)["cluster"]["found"]


def test_both_state_directories_are_tried(place: Place) -> None:
    """That of loops is beside the usual one."""
    (place.folder / ".autoloop").write_text("a file is in the way")
    found = doctor(place, status=1)

    assert found["state directory"]["status"] == "ok"
    assert found["state of loops"]["status"] == "fail"


def test_the_backends_that_can_be_used_are_shown_with_their_options(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And those that cannot, with the reason; each backend of a loop is in one of the lines."""
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = doctor(place)
    assert found["backend command"]["found"] == "-b PROGRAM runs any program; `claude` is not on the PATH"
    assert (found["backend model"]["status"], found["backend model"]["found"]) == ("note", "lacks a key")
    named = {check.removeprefix("backend ") for check in found if check.startswith("backend ")}
    assert named == set(KINDS)
    assert found["backend pi"]["status"] == "note"
    assert "npm" in found["backend pi"]["next"]

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").touch(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    found = doctor(place)
    assert found["backend command"]["found"].startswith(f"-b command runs {tmp_path}/bin/claude: 1.0, ")
    assert found["backend model"]["found"] == "-b model --set backend.model=openai/NAME"


def test_lines_are_at_most_80_columns(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless one word, such as a path, is longer; what continues begins below the text."""
    monkeypatch.setattr(checkups, "SLOW_SYNC", -1.0)
    lines = place.look("doctor").out.splitlines()

    assert all(len(line) <= 80 for line in lines if len(line.split()) > 1)
    assert any(line.startswith(" " * 20) for line in lines)


def test_keys_are_named_and_never_shown(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses are shown without what they may hold of secrets."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "topsecret")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://user:hidden@models.example:8443/v1?token=hidden")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said = place.look("doctor")

    found = doctor(place)
    assert found["ANTHROPIC_API_KEY"]["found"] == "is set, at https://models.example:8443/v1; no call has tried it"
    assert found["OPENAI_API_KEY"]["status"] == "note"
    assert "topsecret" not in said.out
    assert "hidden" not in said.out


def test_runs_that_did_not_end_are_told_with_how_to_go_on(place: Place) -> None:
    """Those that wait for a person, those that were stopped; what a killed fork left."""
    place.call("run", "human.at", status=4)
    place.call("run", "loop.at", "--max-turns", "1", status=3)
    place.call("run", "loop.at")
    (place.folder / ".coterie" / "forks" / "half").mkdir(parents=True)
    found = doctor(place)

    assert found["runs"]["found"] == "1 ended, 2 did not yet"
    steps = {one["found"]: one["next"] for check, one in found.items() if check.startswith("run 2")}
    assert set(steps) == {"stopped: waiting", "stopped: max_turns"}
    assert "control respond" in steps["stopped: waiting"]
    assert steps["stopped: max_turns"].startswith("coterie resume ")
    assert "is incomplete: its creation was interrupted" in found["forks"]["found"]


def test_a_damaged_journal_and_entries_that_lead_nowhere_are_found(place: Place, own_home: Path) -> None:
    """The journal's line is named."""
    place.call("run", "loop.at")
    [folder] = (place.folder / ".coterie" / "runs").iterdir()
    journal = folder / "journal.jsonl"
    journal.write_text("{}\n" + journal.read_text())
    index.add(index.Entry(run="gone", folder=str(place.folder / "nowhere")))
    with index.path().open("a") as file:
        file.write("{torn\n")
    found = doctor(place)

    assert found[f"run {folder.name}"]["status"] == "warn"
    assert "journal.jsonl:1: this journal cannot be read" in found[f"run {folder.name}"]["found"]
    assert found["runs"]["found"] == "0 ended, 0 did not yet, 1 cannot be read"
    assert "2 runs" in found["list of runs"]["found"]
    assert "1 of them are gone, 1 line cannot be read" in found["list of runs"]["found"]


def test_nobody_is_sent_to_resume_a_run_that_never_began(place: Place) -> None:
    """Its owner was killed before the first record: there is one finding, and no `resume` in it."""
    place.call("run", "loop.at")
    [folder] = (place.folder / ".coterie" / "runs").iterdir()
    (folder / "journal.jsonl").write_text("")
    told = [one for one in json.loads(place.look("doctor", "--json").out)["findings"] if folder.name in one["check"]]

    assert [one["status"] for one in told] == ["warn"]
    assert "start it anew" in told[0]["found"]
    assert told[0]["next"] == f"look at {folder}"


def test_the_teams_of_the_folder_are_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with them, and who in them cannot be asked here."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (place.folder / "topology.yaml").write_text("supervision: {name: root, children: []}")
    (place.folder / "wrong.at").write_text("topology wrong : [pipeline] { flow { a -> b } }")
    thinker = 'agent a { model: sonnet prompt: "Think." extensions { coterie { backend: model } } }'
    (place.folder / "model.at").write_text(
        f"topology model : [pipeline] {{ {thinker} action b {{ commands: [true] }} flow {{ a -> b }} }}"
    )
    found = doctor(place)

    assert found["wrong.at"]["status"] == "warn"
    assert found["topology.yaml"]["found"] == "1 error"
    assert found["wrong.at"]["found"].endswith("2 errors")
    assert found["wrong.at"]["next"] == "coterie topology validate wrong.at"
    assert "ANTHROPIC_API_KEY is not set, but a cannot run" in found["model.at"]["found"]


@pytest.mark.parametrize(
    ("version", "status", "says"),
    [("2.29.1", "note", "no run can work"), ("2.37.0", "note", "by hand"), ("2.38.0", "ok", "")],
)
def test_what_an_old_git_cannot_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, status: str, says: str
) -> None:
    """With the version that can."""
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\necho git version {version}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    [found] = checkups.git(None)  # type: ignore[arg-type]

    assert found.status == status
    assert says in found.next
    assert ("2.38" in found.next) == bool(says)

"""`coterie run` of a supervised system: until it is stopped, until its root gives up, or for one answer."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Place

AGENTS = '''
import asyncio
import os

from coterie.agents.actors.message import Message
from coterie.agents.actors.process import AgentProcess


class Idle(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        return self.reply(f"{self.name}: {message.payload}")


class Front(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        reply = await self.ask("back", message.payload)
        return self.reply(reply.payload)


class Keeper(AgentProcess):
    def __init__(self, name: str, login: dict[str, str]) -> None:
        super().__init__(name)
        self.login = login

    async def handle(self, message: Message) -> Message | None:
        return self.reply(f"{len(self.login['password'])} letters, {self.login['password'][::-1]}")


class Bad(AgentProcess):
    async def on_start(self) -> None:
        self.send_after(0.01, "boom")

    async def handle(self, message: Message) -> Message | None:
        raise ValueError(message.payload)


class Stubborn(AgentProcess):
    async def on_start(self) -> None:
        self.send_after(0.01, "stay")

    async def handle(self, message: Message) -> Message | None:
        open("ready", "w").close()
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                pass


class Unready(AgentProcess):
    async def on_start(self) -> None:
        raise OSError("no printer")


class Slow(AgentProcess):
    async def on_start(self) -> None:
        await asyncio.sleep(600)


class Boss(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        reply = await self.ask("team", message.payload, timeout=None)
        return self.reply(reply.payload)


class Opener(AgentProcess):
    """Asks the team once, at its start."""

    async def on_start(self) -> None:
        await self.send(self.name, "go")

    async def handle(self, message: Message) -> Message | None:
        if not os.path.exists("resumed"):
            await self.ask("team", {"prompt": "Go"}, timeout=None)
'''

FILES = {
    "idle": ["idle: staff.Idle"],
    "asked": ["back: staff.Idle", "front: staff.Front"],
    "bad": ["bad: staff.Bad"],
    "unready": ["a: staff.Idle", "b: staff.Unready"],
    "slow": ["a: staff.Idle", "b: staff.Slow"],
    "stubborn": ["a: staff.Stubborn, shutdown: 0.1"],
    "missing": ["a: staff.Nobody"],
    "team": ["opener: staff.Opener"],
    "boss": ["front: staff.Boss"],
}

TEAM = """
topology team : [pipeline] {
  agent first { extensions { coterie { command: ["sh", "-c", "echo first >> log; echo one"] } } }
  agent second {
    extensions { coterie { command: ["sh", "-c", "echo second >> log; test -e resumed || (touch ready; sleep 600)"] } }
  }
  flow { first -> second }
}
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder with systems, and their agents beside them."""
    (tmp_path / "staff.py").write_text(AGENTS)
    (tmp_path / "team.at").write_text(TEAM)
    for name, agents in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(system(name, agents))
    return Place(tmp_path)


def system(name: str, agents: list[str]) -> str:
    """A system of *agents*, `name: class`; a restart is allowed, at once."""
    children = [f"agent: {{name: {agent.replace(': ', ', type: ', 1)}}}" for agent in agents]
    if name in ("boss", "team"):
        children.insert(0, "flow: {name: team, source: team.at}")
    lines = ["supervision:", "  name: root", "  max_restarts: 1", "  backoff_base: 0", "  children:"]
    return "\n".join(
        [*lines, *(f"    - {child}" for child in children), *["entry: front"] * (name in ("asked", "boss")), ""]
    )


@contextlib.contextmanager
def started(place: Place, *words: str, until: str) -> Iterator["subprocess.Popen[str]"]:
    """`coterie` once it has printed *until*; killed in the end."""
    process = place.start(*words, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if until in line:
                break
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_normal_end(place: Place, number: signal.Signals) -> None:
    """Everything stops in reverse order, and the status is 0."""
    with started(place, "run", "-t", "asked.yaml", until="supervisor root started") as process:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0
    assert re.findall(r"(\w+) was stopped", said) == ["front", "back", "root"]
    assert re.search(r"^completed \(stopped\): ", said, re.MULTILINE)
    assert "stopping in order; press Ctrl-C again to exit at once" in said


def test_a_signal_during_the_start_does_not_wait_for_it(place: Place) -> None:
    """What has started stops, as at any other time."""
    with started(place, "run", "-t", "slow.yaml", until="a started") as process:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0
    assert re.findall(r"(\w+) was stopped", said) == ["a"]


def test_an_agent_that_ignores_its_cancellation_does_not_hold_up_the_end(place: Place) -> None:
    """It is left behind after a moment, and said to be."""
    with started(place, "run", "-t", "stubborn.yaml", until="supervisor root started") as process:
        while not (place.folder / "ready").exists():  # its message has arrived
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "a was cancelled: it did not stop in time" in said


def test_in_a_rehearsal_the_entry_answers_for_its_system(place: Place) -> None:
    """No code of the user's runs; a system without an entry cannot be rehearsed."""
    (place.folder / "outer.at").write_text(
        """topology outer : [pipeline] {
          agent system { extensions { coterie { topology: "asked.yaml" } } }
          agent last { extensions { coterie { command: ["cat"] } } }
          flow { system -> last }
        }"""
    )
    rehearsed = place.look("run", "outer.at", "Go", "--rehearse").out
    assert "completed (rehearsed" in rehearsed
    assert "front#1" in rehearsed
    assert "root cannot be rehearsed: it has no entry" in place.look("run", "idle.yaml", "--rehearse", status=2).err


def test_topology_yaml_of_the_directory_runs_without_a_target(place: Place) -> None:
    """And without such a file the command says what it needs."""
    assert "nothing to run: name a TARGET" in place.call("run", status=2).err
    (place.folder / "topology.yaml").write_text((place.folder / "idle.yaml").read_text())
    with started(place, "run", until="supervisor root started") as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 0


def test_a_prompt_is_answered_by_the_entry(place: Place) -> None:
    """The answer is the result of the run, which then ends; without an entry nothing answers."""
    assert place.call("run", "-t", "asked.yaml", "Good", "morning").out == "back: {'prompt': 'Good morning'}\n"
    refused = place.call("run", "-t", "idle.yaml", "Good morning", status=2).err
    assert "root cannot be asked: it has no entry" in refused


def test_a_secret_in_the_settings_reaches_the_agent_and_no_journal(place: Place) -> None:
    """It is kept in a private file of the run; where it is printed, it is hidden."""
    agent = "{name: keeper, type: staff.Keeper, config: {login: {password: s3cr3t-words}}}"
    (place.folder / "kept.yaml").write_text(
        f"supervision: {{name: root, children: [{{agent: {agent}}}]}}\nentry: keeper\n"
    )
    out = place.call("run", "-t", "kept.yaml", "Which?").out

    assert out == "12 letters, sdrow-t3rc3s\n"
    files = [path for path in (place.folder / ".coterie").rglob("*") if path.is_file()]
    holding = [path.name for path in files if b"s3cr3t-words" in path.read_bytes()]
    assert holding == ["env.json"]


def test_a_root_that_gives_up_ends_the_run_with_the_chain_of_causes(place: Place) -> None:
    """Status 1; the journal has every crash and restart."""
    said = place.call("run", "-t", "bad.yaml", status=1).err

    assert re.search(
        r"^failed \(supervisor 'root' gave up: .*\n'bad' crashed: ValueError: boom\): ", said, re.MULTILINE
    )
    assert said.count("bad crashed at a message from bad: ValueError: boom") == 2
    assert "root restarts bad (restart 1 of 1 in its window)" in said
    why = place.look("inspect", "last", "why", "bad").out
    assert why.count("bad crashed") == 2
    assert place.look("runs").out.splitlines()[1].split()[4] == "failed"


def test_an_agent_that_cannot_start_ends_it_and_stops_what_had_started(place: Place) -> None:
    """The reason is that of `on_start`."""
    said = place.call("run", "-t", "unready.yaml", status=1).err

    assert "b crashed at its start: OSError: no printer" in said
    assert "a was stopped" in said
    assert re.search(r"^failed \(.*OSError: no printer", said, re.MULTILINE)


def test_a_class_that_does_not_exist_is_found_before_anything_starts(place: Place) -> None:
    """No run is begun."""
    said = place.call("run", "-t", "missing.yaml", status=1).err

    assert "module 'staff' has no class 'Nobody'" in said
    assert not (place.folder / ".coterie" / "runs").exists()


def test_options_that_do_not_fit_are_refused(place: Place) -> None:
    """Each names what to do."""
    assert (
        "--process needs a transport between processes: add --transport zmq"
        in place.call("run", "-t", "idle.yaml", "-p", "worker", status=2).err
    )
    assert (
        "--nats-url is for the transport nats"
        in place.call("run", "-t", "idle.yaml", "--nats-url", "nats://x:4222", status=2).err
    )
    assert "--process is for supervised systems" in place.call("run", "team.at", "-p", "worker", status=2).err


def test_a_flow_that_was_asked_goes_on_when_its_system_is_resumed_after_a_kill(place: Place) -> None:
    """No finished turn is repeated, and the system runs on until it is stopped."""
    with started(place, "run", "-t", "team.yaml", until="team#1.1: second#1 started") as process:
        while not (place.folder / "ready").exists():
            time.sleep(0.01)
        process.kill()
        process.wait()
    (place.folder / "resumed").touch()
    with started(place, "resume", "last", until="team#1 answered") as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert (place.folder / "log").read_text().split() == ["first", "second", "second"]


def test_a_question_that_was_cut_off_by_a_kill_gets_the_answer_of_the_turn_that_it_had_begun(place: Place) -> None:
    """The entry is asked again, and what it asks for again is the turn that goes on: nothing is paid for twice."""
    with started(place, "run", "-t", "boss.yaml", "Go", until="team#1.1: second#1 started") as process:
        while not (place.folder / "ready").exists():
            time.sleep(0.01)
        process.kill()
        process.wait()
    (place.folder / "resumed").touch()

    said = place.call("resume", "last").err
    assert "completed: " in said
    assert "team#2" not in said
    assert (place.folder / "log").read_text().split() == ["first", "second", "second"]

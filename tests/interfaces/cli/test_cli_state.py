"""`coterie state`: the states that agents stored."""

import asyncio
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from command_line import Place
from typing_user import at_terminal

from coterie.agents.actors.message import Message
from coterie.agents.actors.state.sqlite import SQLiteStateStore
from coterie.agents.actors.transports.kept_letters import KeptLetter
from coterie.interfaces.cli import letters


def put(path: Path, **states: Any) -> None:
    async def main() -> None:
        store = SQLiteStateStore(path)
        for name, state in states.items():
            await store.set(name, state)
        await store.close()

    asyncio.run(main())


def states(path: Path) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        store = SQLiteStateStore(path)
        found = {name: await store.get(name) for name in await store.list_agents()}
        await store.close()
        return found

    return asyncio.run(main())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    put(tmp_path / "agency_state.db", greeter={"seen": ["Ada", "é"]}, counter={"n": 1})
    return Place(tmp_path)


def test_the_agents_with_a_state_are_listed(place: Place) -> None:
    """By name, with the size of each."""
    assert place.look("state", "list").out == "agent    size\ncounter  7 B\ngreeter  21 B\n"
    assert json.loads(place.look("state", "list", "--json").out) == [
        {"agent": "counter", "bytes": 7},
        {"agent": "greeter", "bytes": 21},
    ]


def test_without_a_database_nothing_is_listed_and_none_is_made(tmp_path: Path) -> None:
    """The default may be absent; a database that was named may not."""
    place = Place(tmp_path)

    assert place.look("state", "list").out == "no agent has stored a state\n"
    assert place.look("state", "list", "--json").out == "[]\n"
    assert "other.db: there is no such file" in place.look("state", "list", "--db", "other.db", status=1).err
    assert list(tmp_path.iterdir()) == []


def test_a_state_is_shown(place: Place) -> None:
    """As JSON for people, or on one line."""
    assert place.look("state", "show", "greeter").out == '{\n  "seen": [\n    "Ada",\n    "é"\n  ]\n}\n'
    assert place.look("state", "show", "greeter", "--json").out == '{"seen":["Ada","é"]}\n'
    assert "did you mean 'greeter'?" in place.look("state", "show", "greter", status=1).err


def test_another_database_is_named(place: Place) -> None:
    """With or without the prefix of its kind."""
    put(place.folder / "deep" / "other.db", alone={})

    for name in ("deep/other.db", "sqlite:deep/other.db"):
        assert place.look("state", "list", "--db", name).out == "agent  size\nalone  2 B\n"
    assert "redis://… is not a store of states" in place.look("state", "list", "--db", "redis://x", status=2).err


def test_one_state_is_cleared(place: Place) -> None:
    """The others stay; an agent without a state is an error."""
    assert place.look("state", "clear", "greeter", "--force").out == "deleted the states of greeter\n"
    assert states(place.folder / "agency_state.db") == {"counter": {"n": 1}}
    assert "these have one: counter" in place.look("state", "clear", "greeter", "-f", status=1).err


def test_all_states_are_cleared(place: Place) -> None:
    """The database stays, empty."""
    place.look("state", "clear", "-f")

    assert states(place.folder / "agency_state.db") == {}
    assert place.look("state", "clear", "-f").out == "no agent has stored a state\n"


def test_nothing_is_cleared_without_a_person_or_force(place: Place) -> None:
    """A script has to say that it means it."""
    said = place.call("state", "clear", status=2)

    assert "would delete the states of counter, greeter: add --force" in said.err
    assert len(states(place.folder / "agency_state.db")) == 2


@pytest.mark.parametrize(("answer", "status", "left"), [("y", 0, 0), ("n", 1, 2)])
def test_a_person_confirms(place: Place, answer: str, status: int, left: int) -> None:
    """On a terminal the command asks and heeds the answer."""
    shown = at_terminal(place.folder, "state", "clear", keys=f"{answer}\n")

    assert shown.status == status
    assert "Delete the states of counter, greeter? [y/N]" in shown.screen
    assert len(states(place.folder / "agency_state.db")) == left


def test_a_question_that_nobody_sees_is_not_asked(place: Place) -> None:
    """Standard error is a pipe, even though standard input is a terminal."""
    near, far = os.openpty()
    process = place.start("state", "clear", stdin=far)
    _, complaint = process.communicate(timeout=60)
    os.close(near)
    os.close(far)

    assert (process.returncode, "add --force" in complaint) == (2, True)


def test_a_migration_is_first_shown_then_carried_out(place: Place) -> None:
    """A dry run is the default and creates nothing; the copy can be repeated."""
    target = place.folder / "new" / "state.db"
    said = place.look("state", "migrate", "agency_state.db", "new/state.db")
    assert said.out == "agent    size  action\ncounter  7 B   copy\ngreeter  21 B  copy\n"
    assert said.err == "nothing was written: add --execute\n"
    assert not target.parent.exists()

    place.look("state", "migrate", "agency_state.db", "new/state.db", "--execute")
    assert states(target) == states(place.folder / "agency_state.db") == {
        "counter": {"n": 1},
        "greeter": {"seen": ["Ada", "é"]},
    }  # fmt: skip
    said = place.look("state", "migrate", "agency_state.db", "new/state.db", "--execute", "--json")
    assert json.loads(said.out)[0] == {"agent_name": "counter", "size": 7, "action": "keep"}


def test_a_migration_replaces_other_states_only_by_force(place: Place) -> None:
    """Nothing at all is written otherwise."""
    put(place.folder / "new.db", counter={"n": 9}, other={})
    words = ("state", "migrate", "agency_state.db", "new.db")

    assert "counter" in place.look(*words).err
    said = place.look(*words, "--execute", status=1)
    assert "new.db holds other states of counter: nothing was written; add --force to replace them" in said.err
    assert states(place.folder / "new.db") == {"counter": {"n": 9}, "other": {}}
    place.look(*words, "--execute", "--force")
    assert states(place.folder / "new.db") == {"counter": {"n": 1}, "greeter": {"seen": ["Ada", "é"]}, "other": {}}


def test_the_source_of_a_migration_must_exist(place: Place) -> None:
    """A wrong path is no empty store."""
    assert "none.db: there is no such file" in place.look("state", "migrate", "none.db", "x.db", status=1).err


def test_a_file_that_is_no_database_is_an_error(place: Place) -> None:
    """In one line, with its path."""
    (place.folder / "notes.txt").write_text("no states here, only a text that is long enough\n" * 9)

    said = place.look("state", "list", "--db", "notes.txt", status=1)
    assert said.err == "coterie: the state store notes.txt: file is not a database\n"


def test_a_database_of_civitas_is_migrated(place: Place) -> None:
    """From the earlier system to coterie's own file, by one command."""
    with sqlite3.connect(place.folder / "civitas.db") as db:
        db.execute("CREATE TABLE agent_state (agent_name TEXT PRIMARY KEY, state TEXT NOT NULL)")
        db.execute("INSERT INTO agent_state VALUES ('old', '{\"n\": 1.0}')")
    db.close()

    place.look("state", "migrate", "sqlite:civitas.db", "sqlite:mine.db", "--execute")
    assert states(place.folder / "mine.db") == {"old": {"n": 1.0}}


TOPOLOGY = """
plugins:
  state: { type: %s, config: { %s } }
supervision:
  name: root
  children:
    - agent: { name: greeter, type: plugged.Greeter }
"""

STORE = """
import json, pathlib
class Files:
    def __init__(self, folder): self.folder = pathlib.Path(folder)
    async def get(self, agent_name):
        file = self.folder / agent_name
        return json.loads(file.read_text()) if file.exists() else None
    async def set(self, agent_name, state): (self.folder / agent_name).write_text(json.dumps(state))
    async def delete(self, agent_name): (self.folder / agent_name).unlink()
    async def list_agents(self): return sorted(file.name for file in self.folder.iterdir())
    async def close(self): pass
"""


def test_the_store_of_the_topology_is_used(place: Place) -> None:
    """The database that the file here declares, or that of a file that is named."""
    put(place.folder / "mine.db", mine={})
    (place.folder / "other.yaml").write_text(TOPOLOGY % ("sqlite", "db_path: mine.db"))
    assert place.look("state", "list", "--db", "other.yaml").out == "agent  size\nmine   2 B\n"
    assert "greeter" in place.look("state", "list").out

    (place.folder / "topology.yaml").write_text(TOPOLOGY % ("sqlite", "db_path: mine.db"))
    assert place.look("state", "list").out == "agent  size\nmine   2 B\n"
    (place.folder / "topology.yaml").write_text(TOPOLOGY % ("sqlite", "db_path: none.db"))
    assert place.look("state", "list").out == "no agent has stored a state\n"


def test_a_topology_without_a_store_on_disk(place: Place) -> None:
    """Named, it is an error; that of this directory leaves the usual database."""
    (place.folder / "topology.yaml").write_text(TOPOLOGY % ("in_memory", ""))

    assert "greeter" in place.look("state", "list").out
    said = place.look("state", "list", "--db", "topology.yaml", status=1)
    assert "topology.yaml: its agents keep their states in memory" in said.err


def test_states_move_to_a_store_of_a_user(place: Place) -> None:
    """Any store that a topology can declare is a source and a target, and can be listed and cleared."""
    (place.folder / "plugged.py").write_text(STORE)
    (place.folder / "states").mkdir()
    (place.folder / "mine.yaml").write_text(TOPOLOGY % ("plugged.Files", "folder: states"))

    place.call("state", "migrate", "agency_state.db", "mine.yaml", "--execute")
    assert json.loads((place.folder / "states" / "counter").read_text()) == {"n": 1}
    assert place.call("state", "show", "counter", "--db", "mine.yaml", "--json").out == '{"n":1}\n'
    place.call("state", "clear", "--db", "mine.yaml", "--force")
    assert list((place.folder / "states").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--drop",), "name the letter: coterie state letters ID --send-again, or --drop"),
        (("--send-again",), "name the letter: coterie state letters ID --send-again, or --drop"),
        (("m1", "--send-again", "--drop"), "choose one of --send-again and --drop"),
        (("m1",), "topology.yaml has no durable mailboxes (transport.type: nats, jetstream: true): dead letters of "),
    ],
)
def test_letters_that_cannot_be_named_or_are_kept_elsewhere(place: Place, words: tuple[str, ...], said: str) -> None:
    """Only a server keeps them; in other systems they are records of the run."""
    (place.folder / "topology.yaml").write_text(TOPOLOGY % ("in_memory", ""))
    assert said in place.look("state", "letters", *words, status=2).err


def test_letters_are_shown_with_what_became_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """As a table, or as the message itself."""
    sent = Message(id="m1", sender="desk", recipient="greeter", type="ask", payload={"n": "é"}, sent_at=1.0)
    letter = KeptLetter(sent, "3 processes died", 2.0)
    letters._list([letter], False)
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "m1",
        "greeter",
        "ask",
        "1970-01-01T00:00:02Z",
        "3",
        "processes",
        "died",
    ]
    letters._list([], False)
    none = capsys.readouterr().out
    letters._list([letter], True)
    listed = json.loads(capsys.readouterr().out)
    letters._show(letter, False)
    shown = capsys.readouterr().out
    assert none == "no dead letters\n"
    assert listed == [json.loads(shown)]
    assert '"n": "é"' in shown
    assert {name: listed[0][name] for name in ("agent", "sender", "reason")} == {
        "agent": "greeter",
        "sender": "desk",
        "reason": "3 processes died",
    }


@pytest.mark.slow
def test_dead_letters_of_a_server_are_listed_shown_sent_again_and_dropped(place: Place) -> None:
    """Each by the id that the list shows; a letter that is gone is an error."""
    pytest.importorskip("nats")
    from nats_servers import NatsServer

    from coterie.agents.actors.message import Message
    from coterie.agents.actors.node import ActorNode
    from coterie.agents.actors.transports.choose import transport_for
    from coterie.agents.actors.transports.jetstream import JetStreamTransport
    from coterie.agents.actors.transports.kept_letters import KeptLetter
    from coterie.team.planning.system import TransportPlan

    async def keep(url: str) -> None:
        node = ActorNode(
            transport=transport_for(TransportPlan(type="nats", servers=(url,), jetstream=True), system="root")
        )
        await node.start()
        assert isinstance(node.transport, JetStreamTransport)
        for name in ("one", "two"):
            message = Message(
                id=name, sender="desk", recipient="greeter", type="message", payload={"n": name}, sent_at=1.0
            )
            await node.transport._letters.add(KeptLetter(message, "3 processes died while they handled it", 2.0))
        await node.stop()

    async def stored(url: str) -> int:
        import nats

        client = await nats.connect(url)
        info = await client.jetstream().stream_info(TransportPlan().stream_name)
        await client.close()
        return int(info.state.messages)

    with NatsServer() as server:
        transport = f"transport: {{type: nats, servers: '{server.url}', jetstream: true}}\n"
        (place.folder / "topology.yaml").write_text(transport + TOPOLOGY.partition("\n\n")[0] % ("in_memory", ""))
        assert place.call("state", "letters").out == "no dead letters\n"
        asyncio.run(keep(server.url))

        listed = place.call("state", "letters").out
        assert [line.split()[0] for line in listed.splitlines()] == ["id", "one", "two"]
        assert "3 processes died while they handled it" in listed
        shown = json.loads(place.call("state", "letters", "one", "--json").out)
        assert (shown["agent"], shown["payload"]) == ("greeter", {"n": "one"})
        assert place.call("state", "letters", "one", "--send-again").out.startswith("sent again to greeter as ")
        assert asyncio.run(stored(server.url)) == 1
        assert place.call("state", "letters", "two", "--drop").out == "dropped two\n"
        assert asyncio.run(stored(server.url)) == 1
        assert "no dead letter 'two'" in place.call("state", "letters", "two", "--drop", status=1).err
        assert place.call("state", "letters", "--json").out == "[]\n"

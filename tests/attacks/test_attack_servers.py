"""Servers that others reach: forged packets between nodes, roles of a database, requests over HTTP/3, stray results."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from bundles import bundle

from coterie.agents.actors.message import Message
from coterie.agents.actors.transports import wire
from coterie.history.journal.postgres import PostgresExport
from coterie.history.journal.records import RunStarted, TurnFinished

POST = msgspec.msgpack.encode(
    wire.Packet("s", 1, 1, 1, 1, 1, 1, [wire.PostFrame(Message("1", "message", "a", "echo", {"a": "text"}))])
)
DEEP = b"\x91" * 100_000
PACKETS = {
    "nothing": b"",
    "no value": b"\xc1",
    "a part": POST[:-1],
    "two": POST + POST,
    "depth": DEEP,
    "depth in a payload": POST.replace(b"\xa4text", DEEP + b"\xc0"),
    "a huge list": b"\xdd\xff\xff\xff\xff",
    "a huge text": b"\xdb\xff\xff\xff\xffx",
    "a huge map": b"\xdf\xff\xff\xff\xff",
    "an unknown extension": POST.replace(b"\xa4text", b"\xc7\x04\x7ftext"),
    "a time that is none": POST.replace(b"\xa4text", b"\xc7\x0c\xff" + b"\xff" * 12),
    "no text": POST.replace(b"text", b"\xff\xfe\xff\xfe"),
    "half a pair": POST.replace(b"echo", b"\xed\xa0\x80x"),
    "another frame": POST.replace(b"post", b"evil"),
    "a class": POST.replace(b"\xa4post", b"\xa9os.system"),
    "json": b'["beat","x",1]',
    "a number of no integer": b"\x93\xa4beat\xa1x\xcb\x7f\xf8\0\0\0\0\0\0",
    "a name of a number": b"\x93\xa4beat\x01\x01",
    "a map with two names": POST.replace(b"\x81\xa1a\xa4text", b"\x82\xa1a\xa4text\xa1a\xc1"),
}


@bundle("what", PACKETS)
def test_a_forged_packet_is_no_packet(what: str) -> None:
    """Decoding ends at once with an error that nodes count; it chooses no class, and takes no memory on its word."""
    with pytest.raises((ValueError, RecursionError)):
        wire.decode(PACKETS[what])


def test_a_true_packet_is_one() -> None:
    """The control; payloads are plain data only."""
    packet = wire.decode(POST)
    assert isinstance(packet, wire.Packet)
    assert packet.frames[0].message.payload == {"a": "text"}  # type: ignore[union-attr]


STRANGER = {
    "reads records": "select * from coterie.record",
    "reads texts": "select * from coterie.blob",
    "reads output": "select * from coterie.output",
    "reads keys": "select * from coterie.secret",
    "forges a record": "insert into coterie.record values ('r', 9, 1.0, '{}')",
    "changes a record": "update coterie.record set line = '{}'",
    "removes a record": "delete from coterie.record",
    "empties": "truncate coterie.record",
    "locks": "begin; lock table coterie.record",
    "replaces a table": "alter table coterie.record rename to gone",
    "adds a rule": "create rule evil as on insert to coterie.record do instead nothing",
    "adds a trigger": "create function pg_temp.f() returns trigger language plpgsql as $$begin return null; end$$;"
    " create trigger evil before insert on coterie.record for each row execute function pg_temp.f()",
    "plants in the schema": "create table coterie.planted (a int)",
    "drops the schema": "drop schema coterie cascade",
    "takes the schema": "alter schema coterie owner to stranger",
    "grants itself": "grant all on all tables in schema coterie to stranger",
    "becomes the owner": "set role tester",
    "reads a file": "create table pg_temp.t (a text); copy pg_temp.t from '/etc/passwd'",
    "runs a program": "create table pg_temp.t (a text); copy pg_temp.t from program 'id'",
    "reads by a view": "create view pg_temp.v as select * from coterie.record; select * from pg_temp.v",
}
SHADOWS = (
    "create table {0}.record (run text, seq bigint, at double precision, line text)",
    "create function {0}.pg_notify(text, text) returns void language sql as 'select null'",
    "create function {0}.strpos(text, unknown) returns int language sql as 'select 0'",
    "create function {0}.substring(text, text) returns text language sql as 'select null::text'",
    "create function {0}.coalesced(anyelement, anyelement) returns anyelement language sql as 'select $1'",
    "create function {0}.evil(text, text) returns boolean language sql as 'select true'",
    "create operator {0}.= (leftarg = text, rightarg = text, function = {0}.evil)",
)
"""What a role that may create in `public` puts before the owner's own names, if they were looked for there first."""


@pytest.fixture(scope="module")
def export(request: pytest.FixtureRequest) -> str:
    """The address of an export with a run, in a database that has another role."""
    import asyncpg

    url: str = request.getfixturevalue("postgres").replace("+asyncpg", "").format("attacked")

    async def prepare() -> None:
        admin = await asyncpg.connect(url.replace("attacked", "postgres"))
        for command in ("create database attacked", "create role stranger login"):
            await admin.execute(command)
        await admin.close()
        await stored(url)

    asyncio.run(prepare())
    return url


async def stored(url: str) -> None:
    export = PostgresExport(url)
    records = [
        ("r", RunStarted(seq=1, at=1.0, run="r", engine="flow")),
        ("r", TurnFinished(seq=2, at=2.0, turn="a#1", attempt=1, text="x" * 2000)),
    ]
    await export.put(records)
    assert [record for _, record in await export.load("r")] == [record for _, record in records]
    await export.close()


def as_stranger(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    import asyncpg

    async def main() -> Any:
        connection = await asyncpg.connect(url, user="stranger")
        try:
            return await work(connection)
        finally:
            await connection.close()

    return asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("what", STRANGER)
def test_another_role_neither_reads_nor_changes_the_export(export: str, what: str) -> None:
    """It was granted nothing; the records are as before."""
    import asyncpg

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        as_stranger(export, lambda connection: connection.execute(STRANGER[what]))
    asyncio.run(stored(export))


@pytest.mark.slow
def test_names_that_another_role_plants_are_not_taken_for_the_owners(export: str) -> None:
    """In a database whose `public` everyone may write, as older ones have it."""
    import asyncpg

    async def plant() -> list[str]:
        admin = await asyncpg.connect(export)
        await admin.execute("grant create on schema public to public")
        await admin.close()
        connection = await asyncpg.connect(export, user="stranger")
        made = []
        for command in SHADOWS:
            try:
                await connection.execute(command.format("public"))
                made.append(command)
            except asyncpg.PostgresError:
                continue
        await connection.close()
        return made

    assert len(asyncio.run(plant())) >= 4
    asyncio.run(stored(export))
    assert as_stranger(export, lambda connection: connection.fetchval("select count(*) from public.record")) == 0


@pytest.mark.slow
def test_a_forged_notification_tells_followers_nothing(export: str) -> None:
    """Every role may notify: whoever follows a run reads the records again, which are as they were."""
    import asyncpg

    async def main() -> None:
        reader = PostgresExport(export)
        for payload in ("r", "", "x" * 7000, "r'; drop schema coterie cascade; --", "\u202e"):
            connection = await asyncpg.connect(export, user="stranger")
            await connection.execute("select pg_notify('coterie', $1)", payload)
            await connection.close()
        assert [record.seq for record in await reader.read("r")] == [1, 2]
        await reader.close()

    asyncio.run(main())

"""The one stream: a state, then only what changes; it goes on where a page was, also on another server."""

import asyncio
import os
from typing import Any

import jsonschema
import msgspec
import pytest
from command_line import Place
from page_stage import ACTS, client_of, event, events_of, serving
from until import until

from coterie.execution.runs.repository import Runs
from coterie.history.views.live import fold, merge
from coterie.interfaces.ui import feeds, stream
from coterie.interfaces.ui.home import HomeFeed

pytestmark = pytest.mark.slow


class Growing:
    """A finished run of *place*, copied to another state directory line by line."""

    def __init__(self, place: Place, lines: int) -> None:
        place.call("run", "loop.at", "Write")
        made = Runs((place.folder / ".coterie").rename(place.folder / "made"))
        [self.run] = made.list()
        self.made, self.state_dir = made, place.folder / "copy"
        self._lines = made.file(self.run).read_bytes().splitlines(keepends=True)
        self._file = Runs(self.state_dir).file(self.run)
        self._file.parent.mkdir(parents=True)
        self._file.write_bytes(b"")
        self._grown = 0
        self.grow(lines)

    def grow(self, lines: int = 1000) -> str:
        """Write so many lines more; the position then."""
        with self._file.open("ab") as file:
            file.writelines(self._lines[self._grown : self._grown + lines])
        self._grown = min(self._grown + lines, len(self._lines))
        return str(max(record.seq for record in Runs(self.state_dir).read(self.run)))

    def state(self) -> dict[str, Any]:
        """The whole run as tables."""
        live = fold(self.made.history(self.run), self.run)
        whole: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(live.state(), enc_hook=str))
        return whole


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at runs without an owner often."""
    monkeypatch.setattr(feeds, "IDLE", 0.02)


def tables(state: dict[str, Any]) -> dict[str, Any]:
    """*state* without what no journal has, and without each cost, of which a page asks for the sums."""
    return {name: table for name, table in state.items() if name not in ("here", "costs")}


async def changed(events: Any, state: dict[str, Any], wanted: str) -> str:
    """Merge changes into *state* until the position is *wanted*; the id of the last one, which begins with it."""
    last = ""
    while last.partition("@")[0] != wanted:
        one = await event(events)
        assert one["kind"] == "changes"
        assert one["id"] != last
        merged = merge({"here": {}, **state}, one["data"])
        state.clear()
        state.update(merged)
        last = one["id"]
    return last


async def test_a_page_gets_the_state_and_then_only_changes(place: Place) -> None:
    """Merged they are the state of everything; the id of an event begins with a position in the journal."""
    run = Growing(place, 6)
    topic = f"run/{run.run}"
    begin, whole = run.grow(0), run.state()
    async with serving(run.state_dir) as server, client_of(server) as client, events_of(client, {topic: ""}) as events:
        first = await event(events)
        state = first["data"]
        await changed(events, state, run.grow())
    assert (first["kind"], first["id"].partition("@")[0], first["topic"]) == ("state", begin, topic)
    assert tables(state) == tables(whole)
    assert "costs" not in state


async def test_a_page_goes_on_where_it_was_without_gap_or_repetition(place: Place) -> None:
    """On the same server, and on another one that is started after a kill."""
    run = Growing(place, 6)
    topic = f"run/{run.run}"
    whole = run.state()
    async with serving(run.state_dir) as server, client_of(server) as client:
        async with events_of(client, {topic: ""}) as events:
            first = await event(events)
            begin, state = first["id"], first["data"]
        grown = run.grow(4)
        async with events_of(client, {topic: begin}) as events:
            middle = await changed(events, state, grown)
        async with events_of(client, {topic: begin}) as events:
            assert (await event(events))["kind"] == "changes"
        async with events_of(client, {topic: middle, "home?": ""}) as events:
            assert (await event(events))["topic"] == "home?"
    end = run.grow()
    async with (
        serving(run.state_dir) as server,
        client_of(server) as client,
        events_of(client, {topic: middle}) as events,
    ):
        await changed(events, state, end)
    assert tables(state) == tables(whole)


async def test_pages_share_what_is_folded_and_one_bad_topic_spoils_no_other(place: Place) -> None:
    """Ten streams of one run read it once."""
    run = Growing(place, 6)
    topic = f"run/{run.run}"
    bad = {"run/none": "", "nothing": ""}
    async with serving(run.state_dir) as server, client_of(server) as client:
        async with events_of(client, {topic: "", **bad}) as events:
            every = [await event(events) for _ in range(3)]
        found = {one["topic"]: one for one in every}
        for _ in range(9):
            async with events_of(client, {topic: ""}) as more:
                assert (await event(more))["kind"] == "state"
        feeds_of_runs = [name for name in server.feeds._feeds if name.startswith("run/")]
    assert found[topic]["kind"] == "state"
    assert found["run/none"]["kind"] == found["nothing"]["kind"] == "problem"
    assert "no run 'none'" in found["run/none"]["data"]["error"]
    assert feeds_of_runs == [topic]


async def test_an_older_page_gets_the_whole_state(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a feed has forgotten is not sent in part."""
    monkeypatch.setattr(feeds, "KEPT", 1)
    run = Growing(place, 6)
    topic, begin = f"run/{run.run}", run.grow(0)
    async with serving(run.state_dir) as server, client_of(server) as client:
        async with events_of(client, {topic: ""}) as events:
            state = (await event(events))["data"]
            await changed(events, state, run.grow(2))
            await changed(events, state, last := run.grow(2))
        async with events_of(client, {topic: begin}) as events:
            again = await event(events)
    assert (again["kind"], again["id"].partition("@")[0]) == ("state", last)


async def test_the_api_gives_what_the_commands_print(place: Place) -> None:
    """Records with filters, the raw record, cost, a turn, and a comparison."""
    run = Growing(place, 1000)
    async with serving(run.state_dir) as server, client_of(server) as client:

        async def get(path: str) -> Any:
            response = await client.get(f"/api/{path}")
            assert response.status_code == 200, response.text
            return response.json()

        records = await get(f"runs/{run.run}/records?limit=3&from=2")
        some = await get(f"runs/{run.run}/records?topic=turn.&q=writer")
        raw = await get(f"runs/{run.run}/record?seq=2")
        whole = await get(f"runs/{run.run}")
        turn = next(iter(whole["turns"].values()))["id"]
        detail = await get(f"runs/{run.run}/turn?turn={turn.replace('#', '%23')}")
        cost = await get(f"runs/{run.run}/cost")
        same = await get(f"diff?a={run.run}&b={run.run}")
        missing = await client.get(f"/api/runs/{run.run}/turn?turn=nobody%231")
        unknown = await client.post(f"/api/runs/{run.run}/act", json={"do": "dance"}, headers=ACTS)
    assert [one["seq"] for one in records["lines"]] == [2, 3, 4]
    assert records["of"] == whole["position"][run.run]
    assert some["lines"]
    assert all(one["topic"].startswith("turn.") and "writer" in one["text"] for one in some["lines"])
    assert raw["seq"] == 2
    assert detail["turn"] == turn
    assert set(cost) >= {"total", "by_agent", "by_model", "points", "worst"}
    assert same["first"] == ""
    assert missing.status_code == 404
    assert unknown.status_code == 422


async def test_the_api_describes_itself(place: Place) -> None:
    """Each answer fits its schema in the OpenAPI document, and each request of the document is served."""
    place.call("run", "broken.at", "--thread", "talk", status=1)
    [run] = Runs(place.folder / ".coterie").list()
    turn = "broken%231"
    asked = {
        f"/api/runs/{{key}}{rest}": f"/api/runs/{run}{rest}{query}"
        for rest, query in (
            *(("", ""), ("/turn", f"?turn={turn}"), ("/files", f"?turn={turn}"), ("/records", "?limit=2")),
            *(("/record", "?seq=2"), ("/cost", ""), ("/failure", ""), ("/html", ""), ("/values", "")),
        )
    }
    asked |= {f"/api/{name}": f"/api/{name}" for name in ("openapi.json", "about", "home", "threads")}
    asked["/api/thread"] = "/api/thread?name=talk"
    asked["/api/diff"] = f"/api/diff?a={run}&b={run}"
    async with serving(place.folder / ".coterie") as server, client_of(server) as client:
        document = (await client.get("/api/openapi.json")).json()
        wrong = []
        for path, address in asked.items():
            answer = await client.get(address)
            schema = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            whole = {**schema, "components": document["components"]}
            wrong += [
                f"{path}: {error.json_path}: {error.message[:200]}"
                for error in jsonschema.Draft202012Validator(whole).iter_errors(answer.json())
            ]
        previewed = await client.post(f"/api/runs/{run}/preview", json={"do": "stop"}, headers=ACTS)
        refused = await client.post("/api/session", json={"code": 1}, headers=ACTS)
    assert wrong == []
    posted = {"/api/session", "/api/stream", "/api/runs/{key}/preview", "/api/runs/{key}/act"}
    assert set(document["paths"]) == {*asked, *posted, "/api/team"}
    assert all("post" in document["paths"][path] for path in posted)
    actions = document["paths"]["/api/runs/{key}/act"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(actions["discriminator"]["mapping"]) == {"answer", "guide", "interrupt", "stop", "resume", "fork"}
    assert previewed.json().keys() == {"what", "command"}
    assert (refused.status_code, refused.json()["error"]) == (
        *(422, "the body is not what /api/session takes: Expected `str`, got `int` - at `$.code`"),
    )


async def test_a_feed_that_a_page_reads_is_never_closed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though something else asked for it, and feeds that nobody reads go at once."""
    monkeypatch.setattr(stream, "KEPT", 0.0)
    place.call("run", "loop.at")
    [run] = Runs(state_dir := place.folder / ".coterie").list()
    journal = Runs(state_dir).file(run)
    lines = journal.read_bytes().splitlines(keepends=True)
    os.truncate(journal, size := sum(map(len, lines[:6])))

    def write(*more: bytes) -> None:
        with journal.open("ab") as file:
            file.writelines(more)

    async with serving(state_dir) as server, client_of(server) as client:
        async with events_of(client, {f"run/{run}": ""}) as events:
            await event(events)
            assert (await client.get(f"/api/runs/{run}/cost")).status_code == 200
            async with events_of(client, {"home?": ""}) as others:
                await event(others)
            await asyncio.to_thread(until, lambda: "home?" not in server.feeds._feeds, 60)
            write(*lines[6:])
            assert (await event(events))["kind"] == "changes"
        os.truncate(journal, size)
        async with events_of(client, {f"run/{run}": ""}) as events:
            assert (await event(events))["kind"] == "state"
            write(b"this is no record\n", *lines[6:])
            assert (await event(events))["kind"] == "problem"
            os.truncate(journal, size)
            async with events_of(client, {f"run/{run}": ""}) as later:
                assert (await event(later))["kind"] == "state"
                write(*lines[6:])
                assert (await event(later))["kind"] == "changes"


async def test_a_page_that_was_too_slow_for_an_output_gets_it_whole(place: Place) -> None:
    """Asked for its state again, the feed begins anew."""
    place.call("run", "loop.at")
    [run] = Runs(state_dir := place.folder / ".coterie").list()
    feed = feeds.OutputFeed(Runs(state_dir), run, "writer#1")
    first, _ = await feed.state("")
    again, _ = await feed.state("")
    nothing, _ = await feed.state(first.id if first is not None else "")
    feed.close()
    assert first is not None
    assert again is not None
    assert b"writer#1 read" in first.data
    assert again == first
    assert nothing is not None
    assert b'"events":[]' in nothing.data


async def test_two_pages_that_open_the_list_at_once_get_one_state() -> None:
    """What one has is what the next changes are about."""
    looks = 0

    class List:
        async def shown(self, query: str) -> dict[str, Any]:
            nonlocal looks
            looks += 1
            mine = looks
            await asyncio.sleep(0)
            return {"counts": {}, "order": [str(mine)], "rows": {}, "attention": [], "of": mine}

    feed = HomeFeed(List(), "")  # type: ignore[arg-type]
    one, other = await asyncio.gather(feed.state(""), feed.state(""))
    feed.close()
    assert one == other
    assert looks == 1

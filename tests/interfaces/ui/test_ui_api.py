"""What the API, the list of runs and the stream answer, without a server."""

import asyncio
import errno
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from page_runs import ASKS, FAILS, client_of, played
from stage import Cast, flow

from coterie.errors import NoSuchRun, UsageError
from coterie.execution.runs.attention import open_in
from coterie.execution.runs.index import Entry
from coterie.execution.runs.messages import RunMessage
from coterie.execution.runs.repository import LocalRuns
from coterie.execution.runs.run_stream import JournalNews
from coterie.execution.runs.statistics import newest
from coterie.history.journal.records import Record, RunFinished
from coterie.history.views.timeline import Timeline
from coterie.interfaces.ui import feeds, home, stream
from coterie.interfaces.ui.actions import AnswerAction, act
from coterie.interfaces.ui.home import HomeFeed, HomeList
from coterie.interfaces.ui.places import ServedRun, ServedRuns, key_of
from coterie.interfaces.ui.routes import Api


def sent(place: ServedRun) -> list[RunMessage]:
    """What waits in the inbox of a run, the oldest first, without ids and signatures."""
    found = sorted(place.runs.inbox(place.run).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
    return [msgspec.json.decode(file.read_bytes(), type=RunMessage).content for file in found]


async def test_the_api_answers_by_the_views(failed: ServedRun) -> None:
    """Lists, records with filters, a turn, costs, the failure and a comparison; limits are bounds."""
    async with client_of(failed.runs.root) as (_, client):

        async def get(path: str) -> Any:
            response = await client.get(f"/api/{path}")
            assert response.status_code == 200, response.text
            return response.json()

        whole = await get("runs/r2")
        every = await get("runs/r2/records")
        some = await get("runs/r2/records?from=2&limit=3")
        zero = await get("runs/r2/records?from=0&limit=0")
        by_turn = await get("runs/r2/records?turn=b%231")
        by_topic = await get("runs/r2/records?topic=turn.f&q=BROKE")
        record = await get("runs/r2/record?seq=2")
        turn = await get("runs/r2/turn?turn=b%231")
        cost = await get("runs/r2/cost")
        failure = await get("runs/r2/failure")
        same = await get("diff?a=r2&b=r2")
        about = await get("about")
        document = await get("openapi.json")
        page = await client.get("/runs/r2")
        script = await client.get("/hub.js")
    last = whole["position"]["r2"]
    assert whole["here"]["run"] == failed.about() | {"option": whole["here"]["run"]["option"]}
    assert [line["seq"] for line in every["lines"]] == list(range(1, last + 1))
    assert (every["of"], some["of"]) == (last, last)
    assert every["topics"] == sorted({line["topic"] for line in every["lines"]}) == some["topics"]
    assert [line["seq"] for line in some["lines"]] == [2, 3, 4]
    assert [line["seq"] for line in zero["lines"]] == [1]
    assert by_turn["lines"] == [line for line in every["lines"] if line["turn"] == "b#1"] != []
    assert [line["topic"] for line in by_topic["lines"]] == ["turn.failed"]
    assert record["seq"] == 2
    assert (turn["turn"], failure["turn"]) == ("b#1", "b#1")
    assert (cost["total"]["cost"], cost["total"]["attempts"]) == (0.25, 1)
    assert same["first"] == ""
    assert (about["read_only"], about["streams"]) == (False, 0)
    assert "/api/runs/{key}/act" in document["paths"]
    assert page.text.startswith("<!doctype html>")
    assert script.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("cased", [str.upper, str.lower], ids=["upper", "lower"])
async def test_each_record_is_found_by_its_text_however_it_is_written(
    failed: ServedRun, cased: Callable[[str], str]
) -> None:
    """And nothing else is found with it."""
    async with client_of(failed.runs.root) as (_, client):
        every = (await client.get("/api/runs/r2/records")).json()["lines"]
        for line in every:
            found = (await client.get("/api/runs/r2/records", params={"q": cased(line["text"])})).json()["lines"]
            assert found == [one for one in every if line["text"].lower() in one["text"].lower()]


async def test_two_tabs_that_ask_for_records_at_once_get_each_once(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a long journal, of which one is still being made into sentences."""
    reached, go_on, apply = threading.Event(), threading.Event(), Timeline.apply

    def slow(timeline: Timeline, record: Record) -> None:
        if isinstance(record, RunFinished) and not reached.is_set():
            reached.set()
            go_on.wait(60)
        apply(timeline, record)

    monkeypatch.setattr(Timeline, "apply", slow)
    async with client_of(failed.runs.root) as (_, client):
        first = asyncio.create_task(client.get("/api/runs/r2/records"))
        await asyncio.to_thread(reached.wait, 60)
        second = await client.get("/api/runs/r2/records")
        go_on.set()
        assert (await first).json() == second.json()
        assert second.json() == (await client.get("/api/runs/r2/records")).json()
        assert second.json()["of"] == len(list(failed.runs.read("r2")))


class Apart(LocalRuns, frozen=True):
    """A place that does not know the runs of others, as a cluster is."""

    def newest(self, *, everywhere: bool = False, beginning: str = "") -> Iterator[Entry]:
        return super().newest(beginning=beginning)


async def test_runs_of_several_places_are_one_list(tmp_path: Path) -> None:
    """Each group has those of all places, whatever the order of these."""
    here, there = tmp_path / "here" / "state", tmp_path / "there" / "state"
    await asyncio.to_thread(played, here, flow("a -> b"), "bad", FAILS)
    await asyncio.to_thread(played, there, flow("a -> b"), "good", Cast({}, seconds=0))
    await asyncio.to_thread(played, there, ASKS, "asking")
    for places in ([here, there], [there, here]):
        runs = HomeList(ServedRuns([Apart(one) for one in places]), lambda plan: None)
        assert (await runs.shown(""))["order"] == ["asking", "bad", "good"]


WRONG: list[tuple[str, str, Any, int, str]] = [
    ("GET", "runs/none", None, 404, "none"),
    ("GET", "runs/r1/turn?turn=x%231", None, 404, "x#1"),
    ("GET", "runs/r1/record?seq=1000", None, 404, "run r1 has no record 1000"),
    ("GET", "nothing", None, 404, "nothing is at /api/nothing"),
    ("GET", "team", None, 404, "no team's file is shown: run `coterie ui FILE`"),
    ("POST", "home", {}, 404, "nothing is at /api/home"),
    ("POST", "session", {"code": "guessed"}, 401, "this address was used before or is older than a minute"),
    ("POST", "session", {"code": 1}, 422, "the body is not what /api/session takes: Expected `str`, got `int`"),
    ("POST", "session", b"{", 422, "the body is not JSON"),
    ("POST", "runs/r1/preview", b"[" * 100_000, 422, "the body is not what"),
    ("POST", "session", b" " * (1 << 21), 413, "the body is too large"),
    ("POST", "runs/r1/act", {"do": "dance"}, 422, "the body is not what /api/runs/r1/act takes"),
    ("POST", "runs/none/act", {"do": "stop"}, 404, "none"),
]


async def test_what_the_api_cannot_answer_is_an_error_with_its_reason(asks: ServedRun) -> None:
    """Each as JSON with the status of its kind."""
    async with client_of(asks.runs.root) as (_, client):
        for method, path, body, status, why in WRONG:
            data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
            response = await client.request(method, f"/api/{path}", content=data)
            assert (response.status_code, why in response.json()["error"]) == (status, True), response.text
        missing = await client.get("/nothing.js")
    assert (missing.status_code, missing.json()) == (404, {"error": "nothing is at /nothing.js"})


async def test_an_address_of_nothing_has_a_page(asks: ServedRun) -> None:
    """With its status; one that the page itself handles has it too, also with an invalid escape."""
    async with client_of(asks.runs.root) as (_, client):
        for path, status in (("/nothing/here", 404), ("/runs/%E0%A4%A", 200), ("/runs/none", 200), ("/compare", 200)):
            response = await client.get(path)
            assert (response.status_code, "<!doctype html>" in response.text) == (status, True), path


async def test_a_search_covers_the_questions_of_a_run(asks: ServedRun) -> None:
    """By their texts and their ids; a run whose question fits is counted, and others lose theirs."""
    async with client_of(asks.runs.root) as (_, client):

        async def found(words: str) -> Any:
            shown = (await client.get("/api/home", params={"q": words})).json()
            return shown["counts"]["person"], [one["id"] for one in shown["attention"]]

        assert await found("") == await found("boss#1 shall WE") == (1, ["boss#1"])
        assert await found("boss#1 nothing") == (0, [])


async def test_a_fork_begins_with_the_present_values(asks: ServedRun, failed: ServedRun) -> None:
    """The prompt and the model of each agent, the input, and the answers so far with their records."""
    async with client_of(failed.runs.root) as (_, client):
        values = (await client.get("/api/runs/r2/values")).json()
        waits = (await client.get("/api/runs/r1/values")).json()
    assert values["agents"] == [{"name": name, "prompt": "", "model": ""} for name in ("a", "b")]
    assert waits["agents"] == [{"name": name, "prompt": "", "model": None} for name in ("boss", "chief")]
    assert values["input"] == {"prompt": "Shall we?"}
    assert [(one["turn"], one["text"]) for one in values["answers"]] == [("a#1", "a#1 done")]
    assert waits["answers"] == []


async def test_an_agent_may_look_but_not_act(asks: ServedRun) -> None:
    """It is refused with the command for its user; what others ask for is done by the newest owner."""
    async with client_of(asks.runs.root) as (server, client):
        stop = {"do": "interrupt", "epoch": 1}
        shown = (await client.post("/api/runs/r1/preview", json=stop, headers={"x-agent": "1"})).json()
        agent = await client.post("/api/runs/r1/act", json=stop, headers={"x-agent": "1"})
        assert sent(asks) == []
        user = (await client.post("/api/runs/r1/act", json=stop)).json()
        old = (await client.post("/api/runs/r1/act", json={"do": "interrupt", "epoch": 3})).json()
        code = server.access.new_code()
        traded = await client.post("/api/session", json={"code": code})
        again = await client.post("/api/session", json={"code": code})
    assert shown["command"].startswith("coterie control interrupt r1")
    assert agent.status_code == 403
    assert agent.json()["error"] == f"an agent asks; in a terminal: {shown['command']}"
    assert (user["status"], user["command"]) == ("queued", shown["command"])
    assert (old["status"], "it has owner 1 by now" in old["detail"]) == ("refused", True)
    assert server.access.knows(f"Bearer {traded.json()['secret']}")
    assert again.status_code == 401
    async with client_of(asks.runs.root, read_only=True) as (_, client):
        tried = await client.post("/api/runs/r1/act", json={"do": "stop"})
        assert (await client.get("/api/about")).json()["read_only"] is True
    assert tried.status_code == 404


def homes(state_dir: Path) -> HomeList:
    return HomeList(ServedRuns([LocalRuns(state_dir)]), lambda plan: 7)


async def test_the_list_has_each_run_in_its_group(tmp_path: Path) -> None:
    """Runs that need a person come first, with what they ask; a filter leaves rows out, a search requests, too."""
    state_dir, both = tmp_path / "state", flow("a -> b")
    await asyncio.to_thread(played, state_dir, both, "bad", FAILS)
    await asyncio.to_thread(played, state_dir, both, "good", Cast({}, seconds=0))
    await asyncio.to_thread(played, state_dir, ASKS, "asking")
    runs = homes(state_dir)

    async def shown(query: str) -> tuple[list[str], int, int]:
        found = await runs.shown(query)
        assert list(found["rows"]) == found["order"]
        assert [one["id"] for one in found["attention"]] == ([] if query.startswith("q=") else ["boss#1"])
        return found["order"], found["of"], sum(found["counts"].values())

    whole = await runs.shown("")
    assert whole["counts"] == {"person": 1, "running": 0, "stopped": 0, "failed": 1, "completed": 1}
    assert whole["order"] == ["asking", "bad", "good"]
    [asked] = whole["attention"]
    assert (asked["key"], asked["team"], asked["driven"]) == ("asking", "test", False)
    assert asked["fields"] == [{"name": "verdict", "type": "enum", "values": ("yes", "no"), "needed": True}]
    row = whole["rows"]["bad"]
    assert (row["key"], row["group"], row["cost"], row["epoch"]) == ("bad", "failed", 0.25, 1)
    assert await shown("q=BAD") == (["bad"], 1, 1)
    assert await shown("q=shall+good") == (["good"], 1, 1)
    assert await shown("state=failed") == (["bad"], 1, 3)
    assert await shown("limit=2") == (["asking", "bad"], 3, 3)
    assert await shown("limit=x&state=stopped") == ([], 0, 3)


async def test_an_answer_is_known_everywhere_at_once(asks: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list, the run, the attention, and the command line; a second one is refused, and the run can go on."""
    state_dir = asks.runs.root
    runs = homes(state_dir)
    async with client_of(state_dir) as (server, client):
        feed = await server.feeds.run("r1")
        before = (await feed.with_live(lambda live: live.state()), await runs.shown(""))
        asked = before[1]["attention"][0]
        answer = AnswerAction(id="boss#1", since=asked["since"], outputs={"verdict": "yes"})
        given = act(asks, answer, 1)
        again = act(asks, answer, 1)
        event, _ = await feed.state("")
        after = await homes(state_dir).shown("")
        tried = (await client.get("/api/runs/r1")).status_code
        monkeypatch.setattr(home, "EVERY", 0.0)
        assert await runs.shown("") == after
    [listed] = newest(state_dir, 1)

    assert (given.status, again.status, tried) == ("queued", "refused", 200)
    assert "not open any more" in again.detail
    assert event is not None
    here = msgspec.json.decode(event.data)["here"]["run"]
    assert here["answered"] == ["boss#1"]
    assert here["ending"]["command"] == "coterie resume r1"
    assert (after["attention"], after["counts"]["person"], after["counts"]["stopped"]) == ([], 0, 1)
    assert after["rows"]["r1"]["words"] == listed.reason == "answered, not resumed"
    assert [one.id for one in open_in(asks.runs, "r1")] == []


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.1, 1.0), (0.5, 5.0), (30.0, 300.0)])
def test_a_list_that_is_slow_to_read_is_read_less_often(tmp_path: Path, took: float, pause: float) -> None:
    """Its readings take a tenth of the time, and the machine stays free for runs."""
    runs = homes(tmp_path)
    runs.took = took
    assert HomeFeed(runs, "")._every() == pytest.approx(pause)


def test_the_worst_case_is_proved_again_only_for_other_prices() -> None:
    """Or for another plan: a turn that has cost more makes the bound higher."""
    nothing: Any = None
    api, plan, other = Api(nothing, nothing, {}, None), flow("a -> b"), flow("a -> b -> c")
    cheap = api._worst_of(plan, {"a": 1.0})
    assert api._worst_of(plan, {"a": 1.0}) is cheap
    found = [api._worst_of(*asked).cost for asked in ((plan, {"a": 2.0}), (other, {"a": 2.0}), (plan, {}))]
    assert cheap.cost is not None
    assert found == [2 * cheap.cost, 3 * cheap.cost, None]


async def test_a_list_that_is_open_gets_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are new or gone, and counts; nothing for what stays."""
    monkeypatch.setattr(home, "EVERY", 0.0)
    monkeypatch.setattr(home, "SHARE", 1.0)
    state_dir = tmp_path / "state"
    await asyncio.to_thread(played, state_dir, flow("a -> b"), "bad", FAILS)
    feed = HomeFeed(homes(state_dir), "")
    feed.watchers.add(wake := asyncio.Event())
    first, number = await feed.state("")
    await asyncio.to_thread(played, state_dir, flow("a -> b"), "good", Cast({}, seconds=0))
    while b'"completed":1' not in b"".join(one.data for one in feed.after(number) or ()):
        wake.clear()
        await asyncio.wait_for(wake.wait(), 30)
    found = feed.after(number) or []
    feed.close()
    assert first is not None
    assert list(msgspec.json.decode(first.data)["rows"]) == ["bad"]
    assert {one.kind for one in found} == {"changes"}
    assert [one.id for one in found] == [str(n) for n in range(1, len(found) + 1)]
    changes = [msgspec.json.decode(one.data) for one in found]
    assert {key for one in changes for key in one.get("rows", {})} == {"good"}
    assert changes[-1]["counts"] == {"person": 0, "running": 0, "stopped": 0, "failed": 1, "completed": 1}
    assert {name for one in changes for name in one} <= {"counts", "order", "rows", "of", "attention"}


def parsed(line: bytes) -> dict[str, Any]:
    """An event of a stream."""
    fields = dict(one.split(": ", 1) for one in line.decode().splitlines() if one)
    return {"kind": fields["event"], "id": fields["id"], **msgspec.json.decode(fields["data"])}


async def test_a_stream_has_the_state_of_each_topic_and_then_its_changes(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page has already is not sent again; a topic that is not there spoils no other."""
    monkeypatch.setattr(feeds, "EVERY", 0.001)
    monkeypatch.setattr(feeds, "IDLE", 0.001)
    journal = failed.runs.file("r2")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4]))
    async with client_of(failed.runs.root) as (server, _):

        async def read(topics: dict[str, str], most: int) -> list[dict[str, Any]]:
            opened = stream.events(server.feeds, topics)
            assert await anext(opened) == b": coterie\n\n"
            assert server.feeds.streams == 1
            found = [parsed(await asyncio.wait_for(anext(opened), 30)) for _ in range(most)]
            await opened.aclose()
            assert server.feeds.streams == 0
            return found

        bad = {"run/none": "", "nothing": "7", "output/none?turn=a%231": ""}
        found = {one["topic"]: one for one in await read({"run/r2": "", "home?": "", **bad}, 5)}
        assert {topic: one["kind"] for topic, one in found.items()} == {
            "run/r2": "state",
            "home?": "state",
            **dict.fromkeys(bad, "problem"),
        }
        assert (found["nothing"]["id"], found["nothing"]["data"]["gone"]) == ("7", True)
        begin = found["run/r2"]["id"]
        [printed] = await read({"output/r2?turn=a%231": ""}, 1)
        assert (printed["kind"], printed["data"]["first"], printed["data"]["cut"]) == ("output", True, False)
        with journal.open("ab") as file:
            file.writelines(lines[4:])
        [later] = await read({"run/r2": begin}, 1)
        assert (later["kind"], later["data"]["position"]["r2"]) == ("changes", len(lines))
        [other] = await read({"run/r2": later["id"], "home?": ""}, 1)
        assert other["topic"] == "home?"
        [whole] = await read({"run/r2": "0.none"}, 1)
        assert (whole["kind"], whole["id"]) == ("state", later["id"])
        server.feeds.close()
        assert [line async for line in stream.events(server.feeds, {"run/r2": ""})][:1] == [b": coterie\n\n"]


async def test_feeds_without_readers_are_closed(failed: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time, or once there are too many of them; one that is read stays."""
    async with client_of(failed.runs.root) as (server, _):
        open_feeds = server.feeds
        read = await open_feeds.open("run/r2")
        read.watchers.add(asyncio.Event())
        assert await open_feeds.open("run/r2") is read
        for topic in ("home?q=1", "home?q=2"):
            open_feeds.release(topic, await open_feeds.open(topic))
        kept = await open_feeds.open("home?q=1")
        open_feeds.release("home?q=1", kept)
        monkeypatch.setattr(stream, "MANY", 0)
        again = await open_feeds.open("home?q=2")
        again.watchers.add(asyncio.Event())
        open_feeds.release("home?q=4", await open_feeds.open("home?q=4"))
        assert await open_feeds.open("home?q=2") is again
        monkeypatch.setattr(stream, "MANY", 1)
        open_feeds.release("home?q=3", await open_feeds.open("home?q=3"))
        assert await open_feeds.open("run/r2") is read
        last = await open_feeds.open("home?q=3")
        open_feeds.release("home?q=3", last)
        monkeypatch.setattr(stream, "KEPT", -1.0)
        open_feeds.release("run/r2", read)
        assert await open_feeds.open("home?q=3") is not last
        assert await open_feeds.run("r2") is read


async def test_feeds_of_runs_that_only_requests_read_are_closed_too(failed: ServedRun) -> None:
    """A program that asks for one run after the other opens no stream."""
    state_dir = failed.runs.root
    async with client_of(state_dir) as (server, _):
        for n in range(stream.MANY + 5):
            shutil.copytree(failed.runs.folder("r2"), failed.runs.folder(f"copy{n}"))
            await server.feeds.run(f"copy{n}")
        assert len(server.feeds._feeds) == stream.MANY


def test_a_run_is_found_by_its_key_its_beginning_or_its_folder(failed: ServedRun, tmp_path: Path) -> None:
    """Of several with one id each has a mark; what fits none is no run."""
    state_dir, other = failed.runs.root, tmp_path / "other"
    shutil.copytree(state_dir, other)
    both = ServedRuns([LocalRuns(state_dir), LocalRuns(other)])
    one = ServedRuns([LocalRuns(state_dir)])

    assert one.find("r2").run == one.find("last").run == one.find("r").run == "r2"
    for key in ("r2~ffffffff", "none", "none~ffffffff"):
        with pytest.raises(NoSuchRun):
            one.find(key)
    found = [entry.folder for _, entry in both.entries("r2")]
    if len(set(found)) > 1:
        with pytest.raises(UsageError, match="several runs have the id 'r2'"):
            both.find("r2")
        for folder in set(found):
            assert str(both.find(key_of("r2", folder, is_shared=True)).runs.folder("r2").resolve()) == folder


def removed(place: ServedRun) -> None:
    """Remove the run's folder, with its journal."""
    shutil.rmtree(place.runs.folder(place.run))


def begun_anew(place: ServedRun) -> None:
    """Remove the run, and start another one with its id before a feed looks again."""
    folder = place.runs.folder(place.run)
    lines = place.runs.file(place.run).read_bytes().splitlines(keepends=True)
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    place.runs.file(place.run).write_bytes(b"".join(lines[:3]))


def unreadable(place: ServedRun) -> None:
    """Damage the journal."""
    with place.runs.file(place.run).open("ab") as file:
        file.write(b"{}\n{}\n")


async def problem(events: AsyncIterator[bytes]) -> dict[str, Any]:
    """The end of a feed; how the run stands may be said once more before."""
    while (event := parsed(await anext(events)))["kind"] != "problem":
        pass
    return event


ENDS_OF_A_FEED: list[tuple[Callable[[ServedRun], None], str, bool]] = [
    (removed, "run r2 was removed", True),
    (begun_anew, "run r2 was removed", True),
    (unreadable, "journal.jsonl:", False),
]


@pytest.mark.parametrize(("break_it", "why", "gone"), ENDS_OF_A_FEED, ids=["removed", "begun anew", "unreadable"])
@pytest.mark.parametrize("topic", ["run/r2", "output/r2?turn=a%231"])
async def test_each_follower_of_a_run_is_told_the_end_of_its_feed(
    failed: ServedRun,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    break_it: Callable[[ServedRun], None],
    why: str,
    gone: bool,
) -> None:
    """Once, with the reason; a shortage ends no feed, and the next page gets a new one."""
    monkeypatch.setattr(feeds, "EVERY", 0.001)
    monkeypatch.setattr(feeds, "IDLE", 0.001)
    lacks = [OSError(errno.EMFILE, "Too many open files")] * 3
    read, reading = JournalNews.read, threading.Lock()

    def news(self: JournalNews) -> Iterator[Record]:
        with reading:
            if is_open and lacks:
                raise lacks.pop()
            return iter(list(read(self)))

    monkeypatch.setattr(JournalNews, "read", news)
    is_open = False
    async with client_of(failed.runs.root) as (server, _):
        streams = [stream.events(server.feeds, {topic: ""}) for _ in range(2)]
        for one in streams:
            await anext(one)
            assert parsed(await asyncio.wait_for(anext(one), 30))["kind"] in ("state", "output")
        with reading:  # a read under way would find the damage before the shortage
            is_open = True
            break_it(failed)
        ends = [await asyncio.wait_for(problem(one), 30) for one in streams]
        assert [(one["kind"], why in one["data"]["error"], one["data"]["gone"]) for one in ends] == [
            ("problem", True, gone)
        ] * 2, ends
        assert lacks == []
        again = stream.events(server.feeds, {topic: ""})
        await anext(again)
        answer = parsed(await asyncio.wait_for(anext(again), 30))
        assert (answer["kind"] == "problem") is (break_it is not begun_anew), answer
        for one in (*streams, again):
            await one.aclose()


async def test_a_feed_that_fails_by_a_fault_of_its_own_leaves_no_page_waiting(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends the task of a feed, its pages are told."""
    monkeypatch.setattr(feeds, "IDLE", 0.001)
    async with client_of(failed.runs.root) as (server, _):
        opened = stream.events(server.feeds, {"run/r2": ""})
        await anext(opened)
        assert parsed(await asyncio.wait_for(anext(opened), 30))["kind"] == "state"
        feed = await server.feeds.run("r2")
        monkeypatch.setattr(feed.live, "changes", lambda: 1 / 0)
        told = parsed(await asyncio.wait_for(anext(opened), 30))
        assert (told["kind"], "load the page again" in told["data"]["error"]) == ("problem", True)
        assert isinstance(feed._task and feed._task.exception(), ZeroDivisionError)
        assert await server.feeds.run("r2") is not feed
        await opened.aclose()

"""What pages get of a feed, wherever they were: nothing twice, nothing left out, the whole state if some is gone."""

import asyncio
import itertools
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_runs import ASKS, client_of, played
from until import soon

from coterie.agents.backends.base import AttemptRef, Text
from coterie.errors import JournalUnreadable
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import LocalRuns
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import STREAM
from coterie.history.views.live import LiveRun, merge
from coterie.interfaces.ui import feeds, stream
from coterie.interfaces.ui.feeds import Feed, FeedEvent, OutputFeed, RunFeed
from coterie.interfaces.ui.home import HomeList, _changes
from coterie.interfaces.ui.places import ServedRun, ServedRuns


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 30))
def test_a_feed_keeps_its_newest_events_as_far_as_they_fit(sizes: list[int], most: int) -> None:
    """The last one always; a page that has any of these, or the one before, gets exactly the later ones.

    Their ids count, too: those of a run with many child runs are longer than what they name.
    """
    whole = [FeedEvent("changes", f"e{n}", bytes(size)) for n, size in enumerate(sizes)]
    assert [one.size for one in whole] == [len(f"e{n}") + size for n, size in enumerate(sizes)]
    feed = Feed()
    feed._base = "begin"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeds, "KEPT", most)
        for one in whole:
            feed.put(one)
    fits = [n for n in range(len(whole)) if sum(one.size for one in whole[n:]) <= most or n == len(whole) - 1]
    first = fits[0] if fits else 0
    assert feed.end == len(whole)
    for number in range(len(whole) + 1):
        assert feed.after(number) == (whole[number:] if number >= first else None)
    for number, id in enumerate(["begin", *(one.id for one in whole)]):
        assert feed.number_after(id) == (number if number >= first else None)
    assert feed.number_after("unknown") is None


def decoded(event: FeedEvent | None) -> Any:
    return msgspec.json.decode(event.data) if event is not None else None


async def state_of(place: ServedRun) -> Any:
    """The tables of a run that is read for the first time."""
    feed = RunFeed(place)
    event, _ = await feed.state("")
    feed.close()
    return decoded(event)


async def test_a_page_goes_on_wherever_it_was_in_a_run(failed: ServedRun) -> None:
    """From each record: its tables and the changes make those of the whole run, for a new feed and for one at work."""
    journal = failed.runs.file("r2")
    lines = journal.read_bytes().splitlines(keepends=True)
    states = []
    for n in range(1, len(lines) + 1):
        journal.write_bytes(b"".join(lines[:n]))
        feed = RunFeed(failed)
        first, _ = await feed.state("")
        feed.close()
        assert first is not None
        assert (first.kind, first.id.partition("@")[0]) == ("state", str(n))
        states.append(decoded(first))
    for n, state in enumerate(states, 1):
        feed = RunFeed(failed)
        event, number = await feed.state(f"{n}@of-another-server.7")
        feed.close()
        assert event is not None
        assert (event.kind, event.id.partition("@")[0], number) == ("changes", str(len(lines)), 0)
        assert merge(state, decoded(event)) == states[-1]
    feed = RunFeed(failed)
    whole, _ = await feed.state("")
    assert whole is not None
    assert await feed.state(whole.id) == (None, 0)
    feed.close()


async def test_a_page_that_was_away_when_a_run_was_killed_learns_it(failed: ServedRun) -> None:
    """A killed process leaves no record; a hidden tab has left the stream, and comes back within seconds."""
    journal = failed.runs.file("r2")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    owner = failed.runs.store.claim("r2")  # type: ignore[attr-defined]
    feed = RunFeed(failed)
    first, _ = await feed.state("")
    assert first is not None
    await owner.close()
    await feed._look()
    event, number = await feed.state(first.id)
    missed = [decoded(one) for one in (*([event] if event else ()), *(feed.after(number) or ()))]
    feed.close()
    state = decoded(first)
    for one in missed:
        state = merge(state, one)
    assert not state["here"]["run"]["owned"]
    assert state["runs"]["r2"]["state"] == "cut off"


async def test_a_page_that_is_loaded_again_while_a_run_is_read_shows_it_once(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reading goes on, since a thread cannot be cancelled; the second waits for it."""
    wanted = await state_of(failed)
    reached, go_on, apply = threading.Event(), threading.Event(), LiveRun.apply

    def slow(live: LiveRun, run: str, record: r.Record) -> None:
        if isinstance(record, r.RunFinished) and not reached.is_set():
            reached.set()
            go_on.wait(60)
        apply(live, run, record)

    monkeypatch.setattr(LiveRun, "apply", slow)
    feed = RunFeed(failed)
    first = asyncio.create_task(feed.state(""))
    await asyncio.to_thread(reached.wait, 60)
    first.cancel()
    again = asyncio.create_task(feed.state(""))
    await asyncio.wait([first])
    go_on.set()
    event, _ = await again
    feed.close()
    assert decoded(event) == wanted


async def test_a_run_that_could_be_read_only_later_is_shown_once(failed: ServedRun) -> None:
    """Its journal was damaged, and has been restored from a backup since."""
    wanted = await state_of(failed)
    journal = failed.runs.file("r2")
    whole = journal.read_bytes()
    feed = RunFeed(failed)
    journal.write_bytes(whole.replace(b'"topic":"run.finished"', b'"topic":"run.FINISHED"'))
    with pytest.raises(JournalUnreadable):
        await feed.state("")
    journal.write_bytes(whole)
    event, _ = await feed.state("")
    feed.close()
    assert decoded(event) == wanted


async def test_a_page_of_a_feed_at_work_gets_what_came_since(failed: ServedRun) -> None:
    """The events after the one that it has, or the whole state if it names another."""
    journal = failed.runs.file("r2")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]))
    feed = RunFeed(failed)
    first, begin = await feed.state("")
    assert first is not None
    state, ids = decoded(first), [first.id]
    for n in range(4, len(lines) + 1):
        journal.write_bytes(b"".join(lines[:n]))
        await feed._look()
        ids.append(feed.id)
    for number, id in enumerate(ids):
        assert await feed.state(id) == (None, begin + number)
    changes = feed.after(begin) or []
    assert [one.id for one in changes] == ids[1:]
    for one in changes:
        state = merge(state, decoded(one))
    whole, end = await feed.state("another")
    feed.close()
    assert (whole and whole.kind, end, state) == ("state", feed.end, decoded(whole))


async def test_the_id_of_a_run_of_many_child_runs_is_short(failed: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the same feed goes on from it; another feed sends the whole state."""
    monkeypatch.setattr(feeds, "NAMED", 0)
    journal = failed.runs.file("r2")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]))
    feed, later = RunFeed(failed), RunFeed(failed)
    first, begin = await feed.state("")
    journal.write_bytes(b"".join(lines))
    await feed._look()

    assert first is not None
    assert first.id.startswith("@")
    assert await feed.state(first.id) == (None, begin)
    [change] = feed.after(begin) or []
    assert await feed.state(change.id) == (None, begin + 1)
    whole, _ = await later.state(change.id)
    assert (whole and whole.kind, whole and decoded(whole)) == ("state", merge(decoded(first), decoded(change)))
    for one in (feed, later):
        one.close()


@pytest.mark.parametrize("is_owned", [True, False])
async def test_a_run_that_a_process_drives_is_looked_at_more_often(failed: ServedRun, is_owned: bool) -> None:
    """A page shows what its agents do at once; others may rest."""
    owner = failed.runs.store.claim("r2") if is_owned else None  # type: ignore[attr-defined]
    feed = RunFeed(failed)
    await feed.state("")
    assert feed._every() == (feeds.EVERY if is_owned else feeds.IDLE)
    if owner is not None:
        await owner.close()
        await feed._look()
        assert feed._every() == feeds.IDLE
    feed.close()


async def test_an_output_begins_with_its_end_and_goes_on_where_a_page_was(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long one says that it is cut; a page that has some of it gets the rest, and nothing of it again."""
    kept, run = AttemptFolders(failed.runs), failed.run

    def printed(text: str) -> None:
        kept.stream(kept.attempt_folder(AttemptRef(run=run, turn="a#1", attempt=1)), Text(text=text))

    async def state(last: str) -> tuple[list[str], bool, bool, str]:
        feed = OutputFeed(failed.runs, run, "a#1")
        event, _ = await feed.state(last)
        feed.close()
        assert event is not None
        found = decoded(event)
        texts = [one["event"].get("text", "over") for one in found["events"]]
        return texts, found["cut"], found["first"], event.id

    before = (await state(""))[0]
    for text in "xyz":
        printed(text)
    texts, is_cut, is_first, last = await state("")
    assert ([one for one in texts if one not in before], is_cut, is_first) == (["x", "y", "z"], False, True)
    for n in range(len(texts) + 1):
        assert await state(str(n)) == (texts[n:], False, False, last)
    assert (await state("not a number"))[0] == texts
    monkeypatch.setattr(feeds, "LONGEST", 1)
    assert await state("") == (texts[-1:], True, True, last)
    feed = OutputFeed(failed.runs, run, "a#1")
    await feed.state("")
    await feed._look()
    assert feed.end == 0
    feed.close()


ROWS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2))


@given(st.lists(st.tuples(ROWS, st.integers(0, 2)), min_size=2, max_size=5))
def test_changes_of_the_list_lead_from_each_state_to_the_next(states: list[tuple[dict[str, int], int]]) -> None:
    """A row that is gone is null, and what stayed is not sent; equal states have no changes."""
    shown = [{"rows": rows, "of": count, "order": list(rows)} for rows, count in states]
    for before, now in itertools.pairwise(shown):
        changes = _changes(before, now)
        assert bool(changes) is (before != now)
        rows: dict[str, Any] = {**before["rows"], **changes.get("rows", {})}
        assert {key: row for key, row in rows.items() if row is not None} == now["rows"]
        assert {**before, **{name: value for name, value in changes.items() if name != "rows"}}["of"] == now["of"]
        assert all(before["rows"].get(key) != row for key, row in changes.get("rows", {}).items())
        assert all(before[name] != changes[name] for name in changes if name != "rows")


async def test_the_oldest_request_comes_first_and_all_are_listed(tmp_path: Path) -> None:
    """Whatever the list shows of the runs."""
    names = ["first", "second", "third"]
    for name in names:
        await asyncio.to_thread(played, tmp_path / "state", ASKS, name)
    shown = await HomeList(ServedRuns([LocalRuns(tmp_path / "state")]), lambda plan: 7).shown("limit=1")
    assert shown["order"] == ["third"]
    assert [(one["key"], one["driven"]) for one in shown["attention"]] == [(name, False) for name in names]


async def test_a_question_comes_with_its_text_and_fields_and_no_single_costs(asks: ServedRun) -> None:
    """No record has the text; of costs the page requests the sums."""
    feed = RunFeed(asks)
    first, _ = await feed.state("")
    feed.close()
    state = decoded(first)
    [row] = state["attention"].values()
    assert (row["id"], "Shall we?" in row["text"]) == ("boss#1", True)
    assert row["fields"] == [{"name": "verdict", "type": "enum", "values": ["yes", "no"], "needed": True}]
    assert "costs" not in state


async def test_news_that_one_page_finds_wake_the_others(failed: ServedRun) -> None:
    """By asking for the whole state, or by an action, which reads the newest records first."""
    journal = failed.runs.file("r2")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]))
    feed = RunFeed(failed)
    await feed.state("")
    feed.watchers.add(wake := asyncio.Event())
    for n, ask in enumerate((lambda: feed.state("another"), lambda: feed.with_live(lambda live: live.position)), 4):
        wake.clear()
        journal.write_bytes(b"".join(lines[:n]))
        await ask()
        assert wake.is_set()
        assert feed.id.startswith(f"{n}@")
    feed.close()


async def test_a_page_that_is_too_slow_gets_the_whole_state(failed: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the changes that are no longer kept; after it the stream goes on with changes."""
    monkeypatch.setattr(feeds, "KEPT", 1)
    journal = failed.runs.file("r2")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:3]))
    async with client_of(failed.runs.root) as (server, _):
        feed = await server.feeds.run("r2")
        await feed.state("")
        sent: list[bytes] = []
        room = asyncio.Event()

        async def send(line: bytes) -> None:
            sent.append(line)
            if len(sent) == 1:
                await room.wait()

        reading = asyncio.create_task(stream._pass_on(server.feeds, "run/r2", "", send))
        await soon(lambda: len(sent) == 1)
        for n in range(4, len(lines) + 1):
            journal.write_bytes(b"".join(lines[:n]))
            await feed._look()
        room.set()
        await soon(lambda: len(sent) == 2)
        reading.cancel()
    kinds = [line.partition(b"@")[0].split(b"\n") for line in sent]
    assert kinds == [[b"event: state", b"id: 3"], [b"event: state", b"id: %d" % len(lines)]]


async def test_a_page_that_is_too_slow_for_an_output_begins_it_anew(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it came back to it, too: what it has is replaced, so that no line is there twice."""
    monkeypatch.setattr(feeds, "KEPT", 1)
    kept, reading = AttemptFolders(failed.runs), OutputFeed(failed.runs, failed.run, "a#1")
    monkeypatch.setattr(stream, "OutputFeed", lambda *place: reading)
    for text in "xy":
        kept.stream(kept.attempt_folder(AttemptRef(run=failed.run, turn="a#1", attempt=1)), Text(text=text))
    sent, room = list[bytes](), asyncio.Event()

    async def send(line: bytes) -> None:
        sent.append(line)
        if len(sent) == 1:
            await room.wait()

    async with client_of(failed.runs.root) as (server, _):
        page = asyncio.create_task(stream._pass_on(server.feeds, "output/r2?turn=a%231", "1", send))
        await soon(lambda: len(sent) == 1)
        for id in ("3", "4"):  # the first is no longer kept
            reading.put(FeedEvent("output", id, b"{}"))
        room.set()
        await soon(lambda: len(sent) == 2)
        page.cancel()
    found = [msgspec.json.decode(line.partition(b"data: ")[2])["data"] for line in sent]
    begun, anew = [[said["event"] for said in one["events"]] for one in found]
    assert [one["first"] for one in found] == [False, True]
    assert anew[1:] == begun


async def test_the_feed_that_was_left_first_is_closed_first(failed: ServedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are more than are kept."""
    now = itertools.count()
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    monkeypatch.setattr(stream, "MANY", 2)
    topics = ["home?q=2", "home?q=3", "home?q=1"]
    async with client_of(failed.runs.root) as (server, _):
        opened = {topic: await server.feeds.open(topic) for topic in topics}
        for topic, feed in opened.items():
            server.feeds.release(topic, feed)
        assert [topic for topic in topics if server.feeds._feeds.get(topic) is opened[topic]] == topics[1:]


@pytest.mark.parametrize(
    ("topic", "run", "turn"),
    [
        ("output/r2?turn=a%231", "r2", "a#1"),
        ("output/r2?turn=team%231.2/a%231", "r2/team#1.2", "a#1"),
        ("output/r2?turn=team%231.2/inner%233.1/a%231", "r2/team#1.2/inner#3.1", "a#1"),
    ],
)
async def test_an_output_is_that_of_a_turn_of_the_run_or_of_a_child_run(
    failed: ServedRun, monkeypatch: pytest.MonkeyPatch, topic: str, run: str, turn: str
) -> None:
    """The address names the turn by its way from the root run."""
    made = list[tuple[str, str]]()
    monkeypatch.setattr(stream, "OutputFeed", lambda runs, run, turn: made.append((run, turn)))
    async with client_of(failed.runs.root) as (server, _):
        await server.feeds.open(topic)
    assert made == [(run, turn)]


async def test_a_run_at_work_shows_when_its_agents_were_heard_without_a_record(failed: ServedRun) -> None:
    """What an attempt prints is no record: the page says all the same when it was heard last."""
    journal = failed.runs.file("r2")
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    owner = failed.runs.store.claim("r2")  # type: ignore[attr-defined]
    feed, kept = RunFeed(failed), AttemptFolders(failed.runs)
    await feed.state("")
    begin, folder = feed.end, kept.attempt_folder(AttemptRef(run="r2", turn="a#1", attempt=1))
    for at in (2_000_000_000, 2_000_000_060):
        kept.stream(folder, Text(text="x"))
        os.utime(folder / STREAM, (at, at))
        await feed._look()
    feed.close()
    await owner.close()
    assert [decoded(one)["here"]["run"]["heard"] for one in feed.after(begin) or []] == [2_000_000_000, 2_000_000_060]

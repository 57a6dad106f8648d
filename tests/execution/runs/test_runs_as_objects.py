"""Runs as objects: ids that callers give, events with text, and what is found of a run later."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import context_agents as said
import pytest
import value_agents as values
from until import soon

import coterie
from coterie import agent, flow
from coterie.errors import NoSuchRun, RunExists, UsageError
from coterie.execution.runs import given_ids
from coterie.execution.runs.removal import remove
from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import TurnFinished


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def team(function: Any = values.sees_prompt) -> Any:
    one = agent(function)
    return flow("one", [one], result=one)


def turns(run: str) -> int:
    return sum(type(record).__name__ == "TurnStarted" for record in Runs(Path(".coterie")).read(run))


def test_the_id_is_known_when_a_run_is_started() -> None:
    """Both ids, the caller's and one that is made, are those of the outcome."""

    async def main() -> None:
        for given in ({}, {"id": "order-42"}):
            run = coterie.start(team(), "tea", **given)
            id = run.id
            assert id
            assert (await run).run == id
        assert id == "order-42"

    asyncio.run(main())


def test_the_same_id_finds_the_run_and_another_input_or_plan_does_not() -> None:
    """A completed run gives its outcome again, typed, without a further turn."""
    first = asyncio.run(coterie.run(team(), "tea", id="order-42"))
    again = asyncio.run(coterie.run(team(), "tea", id="order-42"))

    assert (again.result, again.status, again.usage) == (first.result, "completed", first.usage)
    assert turns("order-42") == 1
    with pytest.raises(RunExists, match="begun with another input: prompt"):
        asyncio.run(coterie.run(team(), "coffee", id="order-42"))
    with pytest.raises(RunExists, match="another plan"):
        asyncio.run(coterie.run(team(values.sees_task), "tea", id="order-42"))


def test_a_run_that_failed_or_waits_is_returned_as_it_is() -> None:
    """Nothing is tried again because somebody starts the same id once more."""
    waits = flow("ask", [coterie.human("boss", "Publish?")])
    for broken, status, reason in (
        (team(values.sees_topic), "failed", "no agent gives 'topic'"),
        (waits, "stopped", "waiting"),
    ):
        id = f"r-{status}"
        for _ in range(2):
            outcome = asyncio.run(coterie.run(broken, "tea", id=id))
            assert outcome.status == status
            assert reason in outcome.reason
        assert turns(id) == 1
    [question] = coterie.get("r-stopped").questions()
    assert (question.turn, [one.turn for one in outcome.waiting]) == ("boss#1", ["boss#1"])


def test_starters_of_one_id_at_once_share_one_run() -> None:
    """One begins it, the others join it and get the same outcome."""

    async def main() -> list[coterie.Outcome[Any]]:
        return await asyncio.gather(*(coterie.run(team(), "tea", id="order-42") for _ in range(5)))

    outcomes = asyncio.run(main())

    assert [one.result for one in outcomes] == ["tea"] * 5
    assert turns("order-42") == 1


def test_two_processes_that_begin_one_id_make_one_run() -> None:
    """The folder of the run decides, so it holds between processes as well."""
    program = (
        "import asyncio, coterie, sys; sys.path.append(sys.argv[1]); import value_agents as v\n"
        "a = coterie.agent(v.sees_prompt)\n"
        "print(asyncio.run(coterie.run(coterie.flow('one', [a], result=a), 'tea', id='order-42')).result)"
    )
    support = str(Path(values.__file__).parent)
    started = [subprocess.Popen([sys.executable, "-c", program, support], stdout=subprocess.PIPE) for _ in range(3)]

    assert [one.communicate()[0].decode().strip() for one in started] == ["tea"] * 3
    assert turns("order-42") == 1


@pytest.mark.parametrize("id", ["", "a/b", "..", "last", "schedule-1", "webhook-x", "face-x", "x" * 200, "a b"])
def test_ids_that_no_folder_could_have_or_that_are_reserved_are_refused(id: str) -> None:
    """The message says what an id may be; nothing is made."""
    if not id:
        return
    with pytest.raises(UsageError, match="id"):
        asyncio.run(coterie.run(team(), "tea", id=id))
    assert not Path(".coterie/runs").exists() or not list(Path(".coterie/runs").iterdir())


def test_an_id_whose_run_never_began_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is refused before its first record gives the id back; a claim that a kill left is taken over."""
    with pytest.raises(coterie.CoterieError):
        asyncio.run(coterie.run(flow("m", [agent("m", type="no.such.Class")]), "tea", id="order-42"))
    assert not Path(".coterie/runs/order-42").exists()

    assert given_ids.claim("order-42", Path(".coterie"))  # and killed here
    assert asyncio.run(coterie.run(team(), "tea", id="order-42")).result == "tea"


def test_a_removed_run_keeps_its_id_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated webhook does not begin it again; after 90 days the id is free."""
    asyncio.run(coterie.run(team(), "tea", id="order-42"))
    made = asyncio.run(coterie.run(team(), "tea")).run
    for run in ("order-42", made):
        remove(Runs(Path(".coterie")), run)

    with pytest.raises(RunExists, match="its id is kept for 90 days"):
        asyncio.run(coterie.run(team(), "tea", id="order-42"))
    assert made not in Path(".coterie/ids.jsonl").read_text()
    later = time.time() + 91 * 86400
    monkeypatch.setattr(time, "time", lambda: later)
    assert asyncio.run(coterie.run(team(), "tea", id="order-42")).result == "tea"


def test_events_have_text_and_positions_that_a_later_reader_goes_on_from() -> None:
    """Each event has its turn; closing a reader stops nothing, and the next one misses nothing."""

    async def main() -> None:
        script = "import sys; print('one'); print('two')"
        run = coterie.start(flow("say", [agent("say", command=[sys.executable, "-c", script])]), "tea")
        seen = []
        async with contextlib.aclosing(run.events(text=True)) as events:
            async for event in events:
                seen.append(event)
                if len(seen) == 3:
                    break
        seen += [event async for event in run.events(text=True, after=seen[-1].position)]
        texts = [one for one in seen if isinstance(one, coterie.RunText)]
        assert "".join(one.text for one in texts).split() == ["one", "two"]
        assert {one.turn for one in texts} == {"say#1"}
        assert [one.topic async for one in run] == [one.topic for one in seen if isinstance(one, coterie.RunEvent)]
        assert (await run).status == "completed"

    asyncio.run(main())


def desk() -> Any:
    """A flow whose nodes are a team, a function that says something, and one that fails once, all at once."""
    inner = flow("inner", [one := agent(said.tells_async), two := agent(said.tells)], [one >> two])
    return flow("desk", [agent("team", inner), agent(said.tells), agent(said.fails_once, max_retries=1)])


def kept(events: list[Any]) -> list[tuple[str, ...]]:
    """The events without their order among runs and attempts, which differs between readers."""
    return sorted(
        (one.run, one.topic, str(one.record.seq))
        if isinstance(one, coterie.RunEvent)
        else (one.run, one.topic, one.turn, str(one.attempt), one.text)
        for one in events
    )


async def read(run: coterie.Run[Any], after: str = "") -> list[Any]:
    return [event async for event in run.events(text=True, after=after)]


def test_every_position_of_a_run_is_one_that_any_reader_goes_on_from() -> None:
    """Those that were given while it ran, and those of its files later: what is before and after is the whole."""

    async def main() -> None:
        run = coterie.start(desk(), "tea", id="desk-1")
        live = await read(run)
        later = await read(coterie.get("desk-1"))
        assert kept(live) == kept(later)
        assert {one.run for one in later} == {"desk-1", "desk-1/team#1.1"}
        assert sum(isinstance(one, coterie.RunText) for one in later) >= 8
        for events in (live, later):
            for n, one in enumerate(events, 1):
                assert kept(events[:n] + await read(coterie.get("desk-1"), one.position)) == kept(events), one
        assert await read(coterie.get("desk-1"), later[-1].position) == []
        assert later[-1].position.isdecimal(), "what has ended is in no position"

    asyncio.run(main())


def test_a_run_that_is_found_by_its_id_has_its_events() -> None:
    """A service that was restarted streams an order as before, whether the run has ended or is driven elsewhere."""

    async def main() -> None:
        first = coterie.start(desk(), "tea", id="desk-1")
        second = coterie.start(desk(), "tea", id="desk-1")
        one, other = await asyncio.gather(read(first), read(second))
        assert kept(one) == kept(other) == kept(await read(coterie.start(desk(), "tea", id="desk-1")))

    asyncio.run(main())


def test_a_run_that_is_refused_raises_where_its_events_are_read() -> None:
    """It has no journal, and never will."""

    async def main() -> None:
        with pytest.raises(UsageError, match="ids that begin with"):
            await read(coterie.start(desk(), "tea", id="webhook-1"))
        await coterie.run(team(), "tea", id="order-42")
        with pytest.raises(RunExists):
            await read(coterie.start(team(), "coffee", id="order-42"))

    asyncio.run(main())


def test_an_id_that_a_caller_gave_is_found_whole_and_in_its_directory(tmp_path: Path) -> None:
    """A program that asks for an order that has not begun must not get, or stop, another one."""
    asyncio.run(coterie.run(team(), "tea", id="order-42"))
    made = asyncio.run(coterie.run(team(), "tea")).run
    for name, state_dir in (("order-4", ".coterie"), ("order-4/a#1.1", ".coterie"), ("order-42", str(tmp_path / "b"))):
        with pytest.raises(NoSuchRun):
            coterie.get(name, state_dir=state_dir)
    with pytest.raises(NoSuchRun):
        asyncio.run(coterie.resume("order-4"))
    assert coterie.get("order-42").id == "order-42"
    assert coterie.get(made[:-1]).id == coterie.get(made, state_dir=tmp_path / "b").id == coterie.get().id == made


def test_the_events_of_a_refused_run_are_not_those_of_the_run_that_has_its_id() -> None:
    """`RunExists` comes first, though there is a journal to read."""
    asyncio.run(coterie.run(team(), "tea", id="order-42"))

    async def first() -> Any:
        return await anext(aiter(coterie.start(team(), "coffee", id="order-42").events()))

    with pytest.raises(RunExists, match="another input"):
        asyncio.run(first())


def test_a_run_is_answered_and_stopped_in_the_loop_that_drives_it() -> None:
    """A service does so in its handlers; the loop cannot wait for a verdict that it gives itself."""
    boss = coterie.human("boss", "Publish?")
    waits = agent(said.waits_until_cancelled)

    async def answered() -> coterie.Outcome[Any]:
        run = coterie.start(flow("both", [waits, boss]), "tea", id="order-1")
        await soon(lambda: run.id in {one.id for one in coterie.runs()} and run.questions() and run.status == "running")
        verdict = coterie.get("order-1").answer("boss#1", "yes")
        assert (verdict.status, "reads it next" in verdict.detail) == ("queued", True)
        await soon(lambda: not run.questions())
        return await run.cancel()

    async def stopped() -> coterie.Outcome[Any]:
        run = coterie.start(flow("one", [waits]), "tea", id="order-2")
        await soon(lambda: run.id in {one.id for one in coterie.runs()} and run.status == "running")
        assert coterie.get("order-2").stop().status == "queued"
        async with asyncio.timeout(60):
            return await run

    assert asyncio.run(answered()).status == "stopped"
    assert [one.text for one in Runs(Path(".coterie")).read("order-1") if isinstance(one, TurnFinished)] == ["yes"]
    assert asyncio.run(stopped()).status == "stopped"
    assert coterie.get("order-2").status == "stopped: by an operator"


def test_another_event_loop_is_told_how_to_reach_a_started_run() -> None:
    """To await or cancel it there would raise an error of asyncio that names futures."""

    async def main() -> None:
        run = coterie.start(team(said.waits_until_cancelled), "tea", id="order-1")
        await soon(lambda: run.id in {one.id for one in coterie.runs()} and run.status == "running")

        async def waits() -> Any:
            return await run

        async def reads() -> Any:
            return [event async for event in run.events()]

        for use in (waits, run.cancel, reads):
            with pytest.raises(UsageError, match=r"driven in another event loop: coterie\.get\('order-1'"):
                await asyncio.to_thread(asyncio.run, use())
        await run.cancel()
        assert (await asyncio.to_thread(asyncio.run, waits())).status == "stopped"

    asyncio.run(main())


def test_a_run_is_found_answered_and_followed_later() -> None:
    """`get` and `runs` give what a program needs of a run that another process began."""
    boss, after = coterie.human("boss", "Publish?"), agent(values.sees_prompt)
    waits = flow("ask", [boss, after], [boss >> after], result=after)
    asyncio.run(coterie.run(waits, "tea", id="order-42"))

    [run] = coterie.runs()
    assert (run.id, run.status) == ("order-42", "stopped: waiting")
    assert run.answer("boss#1", "yes").status == "queued"
    assert asyncio.run(coterie.resume(run.id, team=waits)).result == "tea"
    found = coterie.get("order-42")
    assert (found.status, found.outcome().result.text) == ("completed", "tea")

    async def topics() -> list[str]:
        return [event.topic async for event in found.events()]

    assert asyncio.run(topics())[-1] == "run.finished"
    assert asyncio.run(found.fork()).run != found.id


def test_the_command_takes_an_id() -> None:
    """`run --id` begins the run, then finds it."""
    Path("t.at").write_text(
        "topology t : [pipeline] {\n"
        '  agent a { model: x  extensions { coterie { command: ["echo", "hi"] } } }\n'
        "  flow { a }\n}\n"
    )
    command = [sys.executable, "-m", "coterie", "run", "t.at", "tea", "--id", "order-42", "--yes", "--json"]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["run"] == "order-42"
    assert turns("order-42") == 1


TEAMS: dict[str, Any] = {}
"""The teams of the runs that wait for each other, by the ids of the runs."""


async def waits_as_run(prompt: str) -> str:
    return (await coterie.run(TEAMS[prompt], prompt, id=prompt)).reason


async def waits_as_start(prompt: str) -> str:
    return (await coterie.start(TEAMS[prompt], prompt, id=prompt)).reason


async def waits_as_resume(context: coterie.Context) -> str:
    return (await coterie.resume(context.run)).reason


def waits_in_a_thread(prompt: str) -> str:
    return asyncio.run(waits_as_run(prompt))


async def ended(id: str) -> str:
    outcome = await coterie.run(TEAMS[id], "", id=id)
    return outcome.reason or str(outcome.result)


async def waits_for_b() -> str:
    return await ended("b")


async def waits_for_c() -> str:
    return await ended("c")


async def waits_for_a() -> str:
    return await ended("a")


class WaitsAsClass(coterie.AgentProcess):
    """Waits for the run whose turn it has."""

    async def handle(self, message: coterie.Message) -> coterie.Message | None:
        return self.reply(await waits_as_run(message.payload["task"]))


@pytest.mark.parametrize("function", [waits_as_run, waits_as_start, waits_as_resume, waits_in_a_thread, WaitsAsClass])
def test_a_turn_that_waits_for_its_own_run_fails_at_once(function: Any) -> None:
    """With what to do instead; a run that it begins is not its own, and may be of the same team."""
    one = agent("one", function) if isinstance(function, type) else agent(function)
    TEAMS["own"] = flow("own", [one])
    outcome = asyncio.run(coterie.run(TEAMS["own"], "own", id="own"))

    assert outcome.status == "failed"
    assert "run own would wait for its own end, since a turn of it calls this: give the new run another id" in (
        outcome.reason
    )


def test_runs_that_wait_for_each_other_fail_at_once() -> None:
    """The last of three closes the circle; the others get its end."""
    TEAMS["a"], TEAMS["b"], TEAMS["c"] = team(waits_for_b), team(waits_for_c), team(waits_for_a)
    outcome = asyncio.run(coterie.run(TEAMS["a"], "", id="a"))

    circle = "run c would wait for its own end: it waits for run a, which waits for run b, which waits for run c; "
    assert circle in outcome.result
    assert [coterie.get(id).status for id in "abc"] == ["completed", "completed", "failed"]


async def begins_another(context: coterie.Context) -> str:
    other = coterie.start(TEAMS["other"], "", id="other")
    async for _ in other.events():
        break
    return "begun"


async def waits_for_outer() -> str:
    return (await coterie.run(TEAMS["outer"], "", id="outer")).status


def test_a_run_may_wait_for_the_one_that_began_it_and_goes_on() -> None:
    """Nothing waits for it, so both end."""
    TEAMS["outer"], TEAMS["other"] = team(begins_another), team(waits_for_outer)

    async def main() -> Any:
        outer = await coterie.run(TEAMS["outer"], "", id="outer")
        return outer.result, (await coterie.run(TEAMS["other"], "", id="other")).result

    assert asyncio.run(main()) == ("begun", "completed")

"""A run of a topology class that was cut off is carried on by running its program again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from decoded import count_decoded
from reference_play import agent, team
from steps import lines_run

from coterie.errors import NoSuchRun, PatternRefused, ReplayMismatch, RunIsFinished, UsageError
from coterie.execution.runs import launch
from coterie.execution.runs.replay import replay
from coterie.history.engines.program import Program
from coterie.history.engines.versions import PATTERN
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import CallAsked, RunFinished, TurnFinished, TurnStarted
from coterie.history.views.why import why
from coterie.patterns import (
    BaseMixin,
    BaseTopology,
    EnsembleConfig,
    ExecutionContext,
    ExecutionStatus,
    MessageType,
    MixinRegistry,
    Topology,
    TopologyType,
    current_call,
)
from coterie.team.planning.plan import Limits

Body = Callable[["Own", ExecutionContext], Awaitable[dict[str, Any]]]


class Own(BaseTopology):
    """A topology class of a user's; what it runs and who answers is set from outside."""

    topology_type = TopologyType.ENSEMBLE
    config_class = EnsembleConfig

    body: Body
    model: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

    async def _run(self, context: ExecutionContext) -> dict[str, Any]:
        return await self.body(self, context)

    async def _call_llm(self, request: dict[str, Any]) -> dict[str, Any]:
        return await self.model(request)

    async def ask(self, slot: str, text: str, context: ExecutionContext) -> str:
        """What who fills *slot* says."""
        return (await self.invoke_agent(slot, [{"role": "user", "content": text}], context)).text


def own(body: Body, model: Any, name: str = "own", **config: Any) -> Own:
    """An object of the class, new as in another process."""
    defined = Topology(name=name, description="own", topology_type=TopologyType.ENSEMBLE)
    made = Own(defined, {slot: agent(slot, **config) for slot in "abc"})
    made.body, made.model = body, model
    return made


async def echo(request: dict[str, Any]) -> dict[str, Any]:
    """Says what it was asked."""
    return {"content": f"{current_call().slot} {request['messages'][-1]['content']}"}


def stops_at(turn: str) -> tuple[Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], asyncio.Event]:
    """A model that echoes, but thinks for ever at *turn*; and what is set when it does."""
    reached = asyncio.Event()

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        if current_call().turn == turn:
            reached.set()
            await asyncio.Event().wait()
        return await echo(request)

    return model, reached


async def cut_off(made: Own, reached: asyncio.Event, folder: Path) -> str:
    """Begin to execute *made*, cancel it when *reached* is set, and return the id of the run."""
    task = asyncio.create_task(made.execute({"n": 3}, state_dir=folder))
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert not task.done(), task
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [run] = JsonlStore(folder).list()
    return run


def test_a_resume_decodes_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the check of the class, the plan, the claim and the fold."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        return {"all": [await self.ask("a", "one", context), await self.ask("b", "two", context)]}

    async def main() -> None:
        model, reached = stops_at("b#1")
        run = await cut_off(own(body, model), reached, tmp_path)
        decoded = count_decoded(monkeypatch)
        done = await own(body, echo).resume(run, state_dir=tmp_path)
        assert done.status is ExecutionStatus.COMPLETED
        assert len({place for place, _ in decoded}) == 1
        assert [key for key, count in decoded.items() if count > 1 and key[1] > 1] == []

    asyncio.run(main())


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    """Nor are its hooks run again, nor its messages kept twice; the rest is asked as if nothing had been."""
    invoked: list[str] = []
    asked: list[str] = []

    class Invoked(BaseMixin):
        name = "invoked"

        async def on_invoke(self, request: dict[str, Any]) -> dict[str, Any]:
            invoked.append(request["messages"][-1]["content"])
            return request

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        first = await self.ask("a", "one", context)
        sent = await self.send_message("a", "b", MessageType.REQUEST, {"said": first}, context)
        both = await asyncio.gather(self.ask("b", "two", context), self.ask("b", "three", context))
        return {"all": [first, *both, await self.ask("a", "four", context)], "n": sent.sequence_number}

    async def main() -> None:
        model, reached = stops_at("b#2")
        first = own(body, model, capabilities=[{"name": "invoked"}])
        run = await cut_off(first, reached, tmp_path)
        before = list(invoked)

        async def noted(request: dict[str, Any]) -> dict[str, Any]:
            asked.append(current_call().turn)
            assert current_call().interrupted == (1 if current_call().turn == "b#2" else 0)
            return await echo(request)

        done = await own(body, noted, capabilities=[{"name": "invoked"}]).resume(run, state_dir=tmp_path)
        assert done.status is ExecutionStatus.COMPLETED
        assert done.output_data == {"all": ["a one", "b two", "b three", "a four"], "n": 1}
        assert before == ["one", "two", "three"]
        assert invoked == [*before, "four"]
        assert asked == ["b#2", "a#2"]
        assert sum(type(one).__name__ == "MessageSent" for one in JsonlStore(tmp_path).read(run)) == 1
        with pytest.raises(RunIsFinished):
            await own(body, echo).resume(done.id, state_dir=tmp_path)

    MixinRegistry.register(Invoked)
    try:
        asyncio.run(main())
    finally:
        del MixinRegistry._mixins["invoked"]


def test_answers_come_back_in_the_order_in_which_they_had_come(tmp_path: Path) -> None:
    """A program that looks at what has come so far sees the same again: who was first is first."""
    seen: list[list[str]] = []

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        came: list[str] = []
        seen.append(came)

        async def branch(slot: str) -> None:
            came.append(await self.ask(slot, "?", context))
            came.append(await self.ask(slot, f"after {len(came)}", context))  # asks what depends on who was first

        await asyncio.gather(*(branch(slot) for slot in "abc"))
        return {"came": came}

    async def main() -> None:
        gates = {f"{slot}#{n}": asyncio.Event() for slot in "abc" for n in (1, 2)}
        reached = asyncio.Event()

        async def model(request: dict[str, Any]) -> dict[str, Any]:
            await gates[current_call().turn].wait()
            return await echo(request)

        async def let_answer() -> None:
            for n, turn in enumerate(("c#1", "a#1", "c#2", "b#1", "a#2"), start=1):
                gates[turn].set()
                while not seen or len(seen[0]) < n:  # noqa: ASYNC110 - as soon as it goes on
                    await asyncio.sleep(0)
            reached.set()

        answering = asyncio.create_task(let_answer())
        run = await cut_off(own(body, model), reached, tmp_path)
        await answering
        done = await own(body, echo).resume(run, state_dir=tmp_path)
        assert done.output_data is not None
        assert [text.split()[0] for text in seen[0]] == ["c", "a", "c", "b", "a"]
        assert seen[1] == [*seen[0], "b after 4"]

    asyncio.run(main())


def test_a_call_that_was_given_up_is_given_up_again(tmp_path: Path) -> None:
    """The first to answer wins, before and after; the loser's end is told nobody."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        tasks = [asyncio.create_task(self.ask(slot, "first?", context), name=slot) for slot in "ab"]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.wait(rest)
        [winner] = done
        return {"winner": winner.get_name(), "then": await self.ask("c", f"{winner.get_name()} won", context)}

    async def main() -> None:
        stopped, reached = stops_at("c#1")

        async def model(request: dict[str, Any]) -> dict[str, Any]:
            if current_call().turn == "a#1":
                await asyncio.Event().wait()
            return await stopped(request)

        run = await cut_off(own(body, model), reached, tmp_path)
        done = await own(body, echo).resume(run, state_dir=tmp_path)
        assert done.output_data == {"winner": "b", "then": "c b won"}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("then", "problem"),
    [
        ("another question", "a#1 asked.*another request"),
        ("fewer calls", "b#1 asked.*ended without this call"),
    ],
)
def test_another_program_does_not_carry_a_run_on(tmp_path: Path, then: str, problem: str) -> None:
    """It is told at once which call is another one; the run stays as it is, and the right program goes on."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        return {"said": [await self.ask("a", "one", context), await self.ask("b", "two", context)]}

    async def other(self: Own, context: ExecutionContext) -> dict[str, Any]:
        try:
            return {"said": [await self.ask("a", "one" if then == "fewer calls" else "uno", context)]}
        except Exception:  # a program that swallows everything is found out all the same
            return {}

    async def main() -> None:
        model, reached = stops_at("b#1")
        run = await cut_off(own(body, model), reached, tmp_path)
        with pytest.raises(ReplayMismatch, match=problem):
            await own(other, echo).resume(run, state_dir=tmp_path)
        assert not any(isinstance(one, RunFinished) for one in JsonlStore(tmp_path).read(run))
        done = await own(body, echo).resume(run, state_dir=tmp_path)
        assert done.output_data == {"said": ["a one", "b two"]}

    asyncio.run(main())


@pytest.mark.parametrize("recipient", ["c", None])
def test_a_message_to_another_recipient_is_another_program(tmp_path: Path, recipient: str | None) -> None:
    """Its sender is the same, and its number."""

    def body(to: str | None) -> Body:
        async def send(self: Own, context: ExecutionContext) -> dict[str, Any]:
            await self.send_message("a", to, MessageType.REQUEST, {"said": "one"}, context)
            return {"said": await self.ask("a", "one", context)}

        return send

    async def main() -> None:
        model, reached = stops_at("a#1")
        run = await cut_off(own(body("b"), model), reached, tmp_path)
        with pytest.raises(ReplayMismatch, match=f"another message.*a message of a to {recipient or 'all'}"):
            await own(body(recipient), echo).resume(run, state_dir=tmp_path)

    asyncio.run(main())


def test_a_limit_pauses_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    """The execution has one id, whoever carries it on."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        return {"said": [await self.ask("a", str(n), context) for n in range(4)]}

    async def main() -> None:
        first = await own(body, echo).execute({}, "c-1", state_dir=tmp_path, limits=Limits(max_turns=2))
        assert first.status is ExecutionStatus.PAUSED
        still = await own(body, echo).resume(str(first.id), state_dir=tmp_path)
        assert still.status is ExecutionStatus.PAUSED
        done = await own(body, echo).resume(str(first.id), limits=Limits(max_turns=4), state_dir=tmp_path)
        assert (done.id, done.correlation_id, done.status) == (first.id, "c-1", ExecutionStatus.COMPLETED)
        assert done.output_data == {"said": [f"a {n}" for n in range(4)]}
        assert done.started_at == first.started_at

    asyncio.run(main())


def test_who_cannot_be_carried_on_is_named(tmp_path: Path) -> None:
    """An unknown execution, one of another topology; and the command line says what to do instead."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        return {"said": await self.ask("a", "one", context)}

    async def main() -> None:
        model, reached = stops_at("a#1")
        run = await cut_off(own(body, model), reached, tmp_path)
        with pytest.raises(NoSuchRun):
            await own(body, echo).resume("nobody", state_dir=tmp_path)
        with pytest.raises(PatternRefused, match=f"run '{run}' is an execution of 'own'"):
            await own(body, echo, name="another").resume(run, state_dir=tmp_path)
        with pytest.raises(UsageError, match=r"Own, whose code .* `await topology.resume\("):
            await launch.resume(run, state_dir=tmp_path)

    asyncio.run(main())


def test_the_journal_of_an_execution_is_one_as_any(tmp_path: Path) -> None:
    """Each call is a record, then a turn; replayed, the current engine agrees."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        return {"text": await self.ask("a", "one", context)}

    execution = asyncio.run(own(body, echo).execute({"n": 1}, state_dir=tmp_path))

    [run] = JsonlStore(tmp_path).list()
    records = list(JsonlStore(tmp_path).read(run))
    kinds = [type(one) for one in records]
    assert kinds[2:] == [CallAsked, TurnStarted, TurnFinished, RunFinished]
    finished = records[-1]
    assert isinstance(finished, RunFinished)
    assert finished.result == {"text": "a one", "outputs": {"ensemble": execution.output_data}}
    assert replay(run, state_dir=tmp_path).records == len(records)


def test_why_a_program_made_a_call_is_what_it_had_heard(tmp_path: Path) -> None:
    """The last answer before it: its code is not known."""

    async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
        return {"text": await self.ask("b", await self.ask("a", "one", context), context)}

    asyncio.run(own(body, echo).execute({}, state_dir=tmp_path))

    [run] = JsonlStore(tmp_path).list()
    reasons = [reason.text for reason in why(JsonlStore(tmp_path).read(run), "b#1")]
    assert reasons[0] == "b#1 started, once a#1 had ended"
    assert len(reasons) == 4


def test_many_messages_are_known_again_without_looking_through_all_for_each(tmp_path: Path) -> None:
    """To resume costs what was told, not its square."""

    def work(n: int) -> int:
        async def body(self: Own, context: ExecutionContext) -> dict[str, Any]:
            sent = [await self.send_message("ab"[k % 2], "c", MessageType.REQUEST, {"n": k}, context) for k in range(n)]
            return {"text": await self.ask("a", "one", context), "n": [one.sequence_number for one in sent]}

        async def begun() -> str:
            model, reached = stops_at("a#1")
            return await cut_off(own(body, model), reached, tmp_path / str(n))

        async def resumed() -> None:
            done = await own(body, echo).resume(run, state_dir=tmp_path / str(n))
            assert (done.output_data or {})["n"] == list(range(1, n + 1))

        run = asyncio.run(begun())
        return lines_run(lambda: asyncio.run(resumed()))

    work(1)  # what only the first one does
    few, some, many = work(100), work(200), work(400)
    assert many - some < 2.5 * (some - few)


@pytest.mark.parametrize(("version", "turns"), [(1, 3), (PATTERN, 7)])
def test_a_debate_keeps_the_rules_of_the_version_that_began_it(
    version: int, turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 1 let one side that agrees end a debate; a resume repeats that decision."""

    async def model(request: dict[str, Any]) -> dict[str, Any]:
        return {"content": "So be it.\nagreement: 1" if current_call().slot == "opponent" else "Yes."}

    async def finished() -> int:
        slots = ["proponent", "opponent", "mediator"]
        with monkeypatch.context() as earlier:
            earlier.setattr(Program, "version", version)
            debate = team("debate", slots, model)
            begun = await debate.execute({"question": "?"}, state_dir=tmp_path, limits=Limits(max_turns=2))
        done = await team("debate", slots, model).resume(begun.id, limits=Limits(max_turns=-1), state_dir=tmp_path)
        return int((done.output_data or {})["usage"]["turns"])

    assert asyncio.run(finished()) == turns
    assert Program.version == PATTERN

"""What every backend of coding agents promises, against a small fake agent that speaks its protocol, in many moods.

A backend takes part with a line in `PROTOCOLS` and a program `tests/support/fake_agents/<label>_agent.py`. The program
learns its mood from the last word of the prompt and from the variable FAKE_MOOD, and a secret from FAKE_API_KEY.
"""

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asking
import msgspec
import pytest
from asking import Heard, agent
from extras import coding_agents
from stage import flow

from coterie.agents.backends.base import (
    Answer,
    Asking,
    Backend,
    Event,
    Failure,
    Launched,
    Permission,
    Request,
    Result,
    Session,
    SessionOpened,
    Text,
    Tool,
    Used,
)
from coterie.agents.backends.coding.attempt import Deadlines
from coterie.agents.backends.processes import end_orphans
from coterie.execution.runs import launch
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptInterrupted
from coterie.team.options.backends import CODING
from coterie.team.planning.plan import Limits

FAKES = Path(__file__).parents[1] / "support" / "fake_agents"
SECRET = "s3cret-of-the-test"
IMPATIENT = Deadlines(handshake=0.4, cancel=0.4, late=0.4, grace=0.2)
"""For agents that do not answer; the others have the usual deadlines, since the machine may be busy."""


@dataclass(frozen=True)
class Protocol:
    """A backend of coding agents, as far as the suite has to know it.

    Attributes:
        label: The beginning of its transcripts' names.
        lacks: Moods that its protocol cannot express.
        values: Further fields of its agents' plans.
    """

    label: str
    lacks: frozenset[str] = frozenset()
    values: dict[str, Any] = field(default_factory=dict)


PROTOCOLS = {
    "acp": Protocol("acp"),
    "claude-sdk": Protocol("claude"),
    "pi": Protocol("pi", lacks=frozenset({"asks"})),
}


@dataclass
class Played:
    """An attempt that is over."""

    result: Result
    heard: Heard
    transcript: str
    seconds: float

    def events(self, kind: type[Event]) -> list[Any]:
        """Its events of one kind."""
        return [event for event in self.heard if isinstance(event, kind)]


Meanwhile = Callable[[Session, Heard], Awaitable[object]]


@dataclass(frozen=True)
class Stage:
    """A backend, and the folder of its attempts."""

    kind: str
    folder: Path

    @property
    def protocol(self) -> Protocol:
        """Its protocol."""
        return PROTOCOLS[self.kind]

    def backend(self, deadlines: Deadlines | None = None) -> Backend:
        """A new backend."""
        module, _, name = CODING[self.kind].path.partition(":")
        made: Any = getattr(importlib.import_module(module), name)
        backend: Backend = made() if deadlines is None else made(deadlines=deadlines)
        return backend

    def request(
        self,
        mood: str,
        *,
        session: str = "",
        timeout: float | None = None,
        on_interrupt: str = "retry",
        root: Path | None = None,
        **options: Any,
    ) -> Request:
        """The first attempt of a turn in *mood*."""
        if mood in self.protocol.lacks:
            pytest.skip(f"the protocol of {self.kind} has no {mood!r}")
        plan = agent(
            f"{self.kind}-{mood}",
            backend=self.kind,
            argv=(sys.executable, str(FAKES / f"{self.protocol.label}_agent.py")),
            env={"FAKE_MOOD": mood, "FAKE_API_KEY": SECRET},
            timeout=timeout,
            on_interrupt=on_interrupt,
            options=options,
            **self.protocol.values,
        )
        files: Any = {"folder": self.folder / "attempt", "transcript": self.folder / "stream.1.jsonl", "root": root}
        return asking.request(plan, prompt=f"Be in this mood: {mood}", session=session, cwd=self.folder, **files)

    def play(
        self, mood: str, meanwhile: Meanwhile | None = None, deadlines: Deadlines | None = None, **values: Any
    ) -> Played:
        """Run one attempt, and check what holds of all: it ends, nothing is left, and no secret is anywhere."""
        request = self.request(mood, **values)
        return asyncio.run(self._play(request, meanwhile, deadlines))

    async def _play(self, request: Request, meanwhile: Meanwhile | None, deadlines: Deadlines | None) -> Played:
        backend, heard, loop = self.backend(deadlines), Heard(), asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(120):
            session = await backend.start(request, heard)
            if meanwhile is not None:
                await meanwhile(session, heard)
            result = await session.result()
            await backend.close()
        played = Played(result, heard, self.transcript(), loop.time() - began)
        assert await end_orphans(request.ref.marker, ()) == []
        assert SECRET not in played.transcript
        assert SECRET not in repr((result, list(heard)))
        gaps = ("sandbox (", "this agent runs without a sandbox")  # said first, where the machine has no better one
        first = next(one for one in heard if not (isinstance(one, Text) and one.text.startswith(gaps)))
        assert isinstance(first, Launched)
        assert first.pid > 0
        return played

    def transcript(self) -> str:
        """What is kept of the wire."""
        path = self.folder / f"{self.protocol.label}-stream.1.jsonl"
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture(params=coding_agents())
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Each backend in turn."""
    return Stage(request.param, tmp_path)


def answered(played: Played) -> bool:
    """Whether the answer is the usual one."""
    return isinstance(played.result, Answer) and played.result.text == "an answer"


def failure(played: Played) -> Failure:
    """The failure, with a reason."""
    assert isinstance(played.result, Failure), played.result
    assert played.result.reason
    return played.result


def test_a_turn_has_a_session_text_usage_and_a_transcript(stage: Stage) -> None:
    """Each is an event as it comes; the result sums up."""
    played = stage.play("answers")

    assert answered(played)
    assert played.heard.said() == "an answer"
    assert [event.resumed for event in played.events(SessionOpened)] == [False]
    assert played.events(SessionOpened)[0].id
    usage = played.result.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (10, 5, 3)
    assert played.events(Used)[-1].usage.input_tokens == 10
    assert usage.seconds > 0
    if stage.backend().abilities.cost:
        assert usage.cost == pytest.approx(0.25)
    assert "answer" in played.transcript
    assert (stage.folder / f"{stage.protocol.label}-stream.1.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_slow_agent_is_heard_as_it_speaks(stage: Stage) -> None:
    """Its first words are passed on before it has ended."""
    early: list[bool] = []

    async def listen(session: Session, heard: Heard) -> None:
        await heard.until(lambda heard: heard.said() == "an ")
        early.append(True)
        (stage.folder / "go").touch()

    assert answered(stage.play("slow", listen))
    assert early == [True]


def test_a_megabyte_is_heard_in_full(stage: Stage) -> None:
    """And quickly: a stream costs its length, not the square of it."""
    played = stage.play("streams")

    assert isinstance(played.result, Answer)
    assert len(played.result.text) == 2**20
    assert played.heard.said() == played.result.text
    assert played.seconds < 60


@pytest.mark.parametrize("trusted", [True, False])
def test_trust_decides_on_tools(stage: Stage, trusted: bool) -> None:
    """`trust_all_tools` allows, or rejects; both are said."""
    played = stage.play("asks", trust_all_tools=trusted)

    assert isinstance(played.result, Answer)
    assert played.result.text == ("allowed" if trusted else "denied")
    (decided,) = played.events(Permission)
    assert (decided.tool, decided.detail) == ("Bash", "make test")
    assert decided.decision == ("allowed" if trusted else "denied")
    assert decided.why
    assert played.events(Tool)[-1].state == ("finished" if trusted else "failed")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_person_decides_where_the_plan_says_so(stage: Stage, allowed: bool) -> None:
    """The question is an event with an id, answered once; the time-out does not run meanwhile."""

    async def decide(session: Session, heard: Heard) -> None:
        await heard.until(lambda heard: any(isinstance(event, Permission) for event in heard))
        assert isinstance(session, Asking)
        (question,) = [event for event in heard if isinstance(event, Permission)]
        assert question.decision == ""
        assert await session.permit("another", True) is False
        assert await session.permit(question.id, allowed) is True
        assert await session.permit(question.id, not allowed) is False

    played = stage.play("asks", decide, attention="ask", trust_all_tools=not allowed)

    assert isinstance(played.result, Answer)
    assert played.result.text == ("allowed" if allowed else "denied")
    asked, decided = played.events(Permission)
    assert (asked.id, asked.decision) == (decided.id, "")
    assert decided.decision == ("allowed" if allowed else "denied")


def test_an_open_question_does_not_delay_an_interruption(stage: Stage) -> None:
    """It is withdrawn."""

    async def interrupt(session: Session, heard: Heard) -> None:
        await heard.until(lambda heard: any(isinstance(event, Permission) for event in heard))
        await session.interrupt()

    assert failure(stage.play("asks", interrupt, attention="ask")).kind == "interrupted"


def test_a_tool_call_has_an_id_an_input_and_a_result(stage: Stage) -> None:
    """Its start and its end are events; the text before it is no part of the answer."""
    played = stage.play("tool")

    assert answered(played)
    assert played.heard.said() == "let me lookan answer"
    start, end = played.events(Tool)
    assert (start.name, start.state, start.detail) == ("Bash", "started", "cat file")
    assert (end.name, end.state, end.result) == ("Bash", "finished", "its content")
    assert start.id == end.id != ""


def test_an_agent_that_dies_fails_with_its_last_words(stage: Stage) -> None:
    """What it wrote until then is kept."""
    failed = failure(stage.play("dies"))

    assert failed.kind == "exit"
    assert "something broke" in failed.reason
    assert failed.text == "half"


def test_a_wedged_handshake_is_given_up(stage: Stage) -> None:
    """After its own deadline, not the time-out of the turn."""
    played = stage.play("wedged", deadlines=IMPATIENT)

    assert failure(played).kind == "timeout"
    assert "did not answer" in failure(played).reason
    assert played.seconds < 60


def test_garbage_is_logged_and_skipped(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    """A banner, half a message, a message of an unknown kind or form."""
    played = stage.play("garbage")

    assert answered(played)
    assert "Welcome!" in played.heard.said("log")
    assert capfd.readouterr() == ("", "")


def test_a_refused_session_is_a_failure(stage: Stage) -> None:
    """With the agent's reason."""
    assert "no session for you" in failure(stage.play("refuses")).reason


def test_an_agent_that_stops_when_told_is_not_killed(stage: Stage) -> None:
    """It has a few seconds for it."""

    async def interrupt(session: Session, heard: Heard) -> None:
        await heard.until(lambda heard: heard.said() == "on it")
        await session.interrupt()

    played = stage.play("waits", interrupt)

    assert failure(played).kind == "interrupted"
    assert failure(played).text == "on it"
    assert played.seconds < 60


def test_an_agent_that_ignores_being_stopped_is_killed(stage: Stage) -> None:
    """Also if it ignores SIGTERM."""

    async def interrupt(session: Session, heard: Heard) -> None:
        await heard.until(lambda heard: heard.said() == "on it")
        await session.interrupt()

    played = stage.play("ignores", interrupt, deadlines=Deadlines(cancel=0.4, grace=0.2))

    assert failure(played).kind == "interrupted"
    assert played.seconds < 60


def test_a_time_out_ends_the_turn(stage: Stage) -> None:
    """With what was written until then."""
    played = stage.play("waits", timeout=0.6)

    assert failure(played).kind == "timeout"
    assert played.seconds < 60


def test_a_status_after_the_answer_does_not_matter(stage: Stage) -> None:
    """The answer was complete."""
    assert answered(stage.play("exits"))


def test_a_grandchild_that_holds_the_output_delays_nothing(stage: Stage) -> None:
    """It is ended with the agent."""
    played = stage.play("grandchild")

    assert answered(played)
    assert played.seconds < 60


def test_what_is_said_after_the_answer_belongs_to_it(stage: Stage) -> None:
    """Some agents send their last event after their last message."""
    assert answered(stage.play("late", deadlines=Deadlines(late=60.0)))


def test_a_second_result_is_a_failure_that_keeps_the_first(stage: Stage) -> None:
    """A tool can write to the output of its agent, so either may be forged."""
    played = stage.play("forges", deadlines=Deadlines(late=60.0))

    assert "more than one result" in failure(played).reason
    assert failure(played).text == "forged"


def test_a_limit_says_how_long_to_wait(stage: Stage) -> None:
    """A reply with 429 and a reset time."""
    failed = failure(stage.play("limited"))

    assert failed.kind == "rate_limited"
    assert failed.wait == pytest.approx(90, abs=15)


def test_a_spent_window_is_a_quota(stage: Stage) -> None:
    """With the time until it opens again."""
    failed = failure(stage.play("spent"))

    assert failed.kind == "quota"
    assert failed.wait == pytest.approx(3600, abs=30)


def test_an_attempt_that_passes_the_budget_is_cut_off_with_its_cost(stage: Stage) -> None:
    """In a run of real processes; what it had reported is in the totals."""
    spends = stage.request("spends").agent
    end = agent("end", backend="command", argv=("true",))
    plan = flow("a -> end", a=msgspec.structs.replace(spends, name="a", env={"FAKE_TURN": "spends"}), end=end)
    run = partial(launch.start, state_dir=stage.folder, limits=Limits(max_cost=1e-6), cwd=stage.folder)
    ended = asyncio.run(run(plan, {"prompt": "go"}))

    assert (ended.status, ended.reason, ended.exit) == ("stopped", "max_cost", 3)
    [cut] = [one for one in JsonlStore(stage.folder).read(ended.run) if isinstance(one, AttemptInterrupted)]
    assert cut.reason == "max_cost"
    assert cut.usage.cost == ended.usage.cost >= 0.25  # pi counts the message that is cut off, too


def test_a_secret_is_hidden_in_pieces_tools_and_the_log(stage: Stage) -> None:
    """Wherever it is cut; `play` looks for the whole, here also for its parts."""
    played = stage.play("secret")

    assert "the key is *** indeed" in played.heard.said()
    assert "the log has ***" in played.heard.said("log")
    events = repr([event for event in played.heard if isinstance(event, Tool | Text)])
    assert SECRET[:5] not in events


@pytest.mark.parametrize("known", [True, False])
def test_a_session_is_continued_or_said_to_be_new(stage: Stage, known: bool) -> None:
    """A session that the agent does not know is replaced by a new one, and never in silence."""

    async def interrupt(session: Session, heard: Heard) -> None:
        await heard.until(lambda heard: heard.said() == "on it")
        await session.interrupt()

    lasting: Any = {"on_interrupt": "resume", "root": stage.folder}
    first = stage.play("waits", interrupt, **lasting).events(SessionOpened)[0].id
    played = stage.play("answers", session=first if known else "unknown-session", **lasting)

    assert answered(played)
    (opened,) = played.events(SessionOpened)
    assert opened.resumed is known
    assert ("could not be continued" in played.heard.said("log")) is not known
    assert (played.result.usage.input_tokens, played.result.usage.output_tokens) == (10, 5)
    if known:
        assert opened.id == first


def test_two_attempts_share_nothing(stage: Stage) -> None:
    """They may run at once, and an interruption of one leaves the other alone."""

    async def main() -> None:
        backend = stage.backend()
        heard = Heard()
        waits = await backend.start(stage.request("waits"), heard)
        answers = await backend.start(stage.request("answers"), Heard())
        await heard.until(lambda heard: heard.said() == "on it")
        await waits.interrupt()
        result = await asyncio.wait_for(answers.result(), 60)
        assert isinstance(result, Answer)
        assert result.text == "an answer"
        await backend.close()

    asyncio.run(main())


def test_a_backend_closes_with_an_attempt_that_begins(stage: Stage) -> None:
    """At every moment between the start and the first words nothing is left."""

    async def main() -> None:
        for pauses in (0, 1, 3, 6, 12, 24):
            backend = stage.backend()
            request = stage.request("waits")
            session = await backend.start(request, Heard())
            for _ in range(pauses):
                await asyncio.sleep(0.01)
            await backend.close()
            assert failure(Played(await session.result(), Heard(), "", 0.0)).kind == "interrupted"
            assert await end_orphans(request.ref.marker, ()) == []

    asyncio.run(main())

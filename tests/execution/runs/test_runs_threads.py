"""Conversations over runs: what a run continues, who is shown what, and what two writers do."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import Place
from fake_models import FakeModels, Say
from hypothesis import given
from hypothesis import strategies as st

import coterie
from coterie.agents.backends.base import PastExchange
from coterie.errors import ThreadBusy, UsageError
from coterie.execution.kernel.threads import within
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.removal import prune, remove
from coterie.execution.runs.repository import Runs
from coterie.execution.runs.threads import Thread, listed, messages, named
from coterie.execution.runs.turn_detail import detail
from coterie.history.journal.records import ThreadExchange, ThreadStart, TurnStarted

PROGRAM = """topology talk : [pipeline] {
  agent a { extensions { coterie { command: [COMMAND]  retry: 0  thread: true } } }
  flow { a }
}
"""
HEARD: list[tuple[PastExchange, ...]] = []
GO = asyncio.Event()


def answer(prompt: str, context: coterie.Context) -> str:
    """Answer, and keep what came before."""
    HEARD.append(context.thread)
    return f"answer to {prompt}"


def deaf(context: coterie.Context) -> str:
    """Answer without having been shown anything."""
    HEARD.append(context.thread)
    return "nothing"


async def stuck(context: coterie.Context) -> str:
    """Answer when there is word."""
    await GO.wait()
    return "at last"


async def nested(prompt: str) -> str:
    """Send a message to the thread that the prompt names, from within a turn."""
    home, name = prompt.split()
    try:
        return str((await coterie.run(team(), "inner", thread=name, wait=True, state_dir=Path(home))).status)
    except UsageError as error:
        return str(error)


def broken(prompt: str) -> str:
    """Fail if told to."""
    if "fail" in prompt:
        raise ValueError("no")
    return "fine"


def team(**settings: Any) -> coterie.Topology:
    return coterie.flow("talk", [coterie.agent("friend", answer, thread=True, **settings)])


@pytest.fixture(autouse=True)
def fresh() -> None:
    global GO
    HEARD.clear()
    GO = asyncio.Event()  # one that was waited for belongs to the loop of its test


class Talk:
    """Runs in a state directory."""

    def __init__(self, folder: Path) -> None:
        self.runs = Runs(folder / "state")

    def send(self, text: str, topology: Any = None, thread: str = "t", **options: Any) -> Outcome[Any]:
        given = {"state_dir": self.runs.root, "thread": thread, **options}
        return asyncio.run(coterie.run(topology or team(), text, **given))

    def thread(self, run: str) -> ThreadStart:
        first = self.runs.first(run).thread
        assert first is not None
        return first


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def test_a_run_continues_the_latest_of_its_thread(talk: Talk) -> None:
    """It is shown the earlier inputs, each with its own answer; another thread has others."""
    one, two = talk.send("a"), talk.send("b")
    talk.send("x", thread="other")
    talk.send("c")

    assert HEARD[0] == HEARD[2] == ()
    assert HEARD[3] == (
        PastExchange(run=one.run, prompt="a", answer="answer to a"),
        PastExchange(run=two.run, prompt="b", answer="answer to b"),
    )
    assert [one.name for one in listed(talk.runs.root)] == ["t", "other"]
    assert [one.prompt for one in messages(named(talk.runs.root, "t"))] == ["a", "b", "c"]


def test_only_agents_that_say_so_are_shown_the_thread(talk: Talk) -> None:
    """Each with its own answers only."""
    friend, other = coterie.agent("friend", answer, thread=True), coterie.agent("other", deaf)
    topology = coterie.flow("talk", [friend, other], [friend >> other])
    talk.send("a", topology)
    last = talk.send("b", topology)

    assert [len(one) for one in HEARD] == [0, 0, 1, 0]
    assert talk.thread(last.run).exchanges[0].answers == {"friend": "answer to a"}


def test_the_oldest_go_first_and_the_record_says_so(talk: Talk) -> None:
    """A budget of 30 characters has room for two exchanges of 12 each."""
    small = team(thread_budget=30)
    runs = [talk.send(text, small).run for text in "abcd"]

    assert [one.prompt for one in HEARD[-1]] == ["b", "c"]
    assert talk.thread(runs[-1]).left_out == {"friend": 1}
    assert (talk.thread(runs[-1]).earlier, len(talk.thread(runs[-1]).exchanges)) == (3, 2)
    assert talk.thread(runs[2]).left_out == {}


@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), max_size=8), st.integers(min_value=1, max_value=99)
)
def test_what_is_shown_stays_within_the_budget(texts: list[tuple[str, str]], budget: int) -> None:
    """It is the end of the thread, whole but for the very latest exchange, and never more than the budget."""
    known = [ThreadExchange(run=str(k), prompt=said, answers={"a": answer}) for k, (said, answer) in enumerate(texts)]
    found = within(known, "a", budget)

    assert sum(len(one.prompt) + len(one.answer) for one in found) <= budget
    assert [one.run for one in found] == [str(k) for k in range(len(texts) - len(found), len(texts))]
    assert [(one.prompt, one.answer) for one in found[:-1]] == texts[len(texts) - len(found) :][: len(found[:-1])]
    assert bool(found) == bool(texts)


@pytest.mark.parametrize(
    "messages", [pytest.param(100, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.long)]
)
def test_a_long_thread_costs_each_message_the_same(talk: Talk, messages: int) -> None:
    """At its end a record and a prompt are as large as after 20, and one earlier journal is read."""
    small, sizes = team(thread_budget=200), list[int]()
    for k in range(messages):
        run = talk.send(f"message {k:03}", small).run
        sizes.append(talk.runs.file(run).stat().st_size)
        read = Reading(talk.runs.root)
    assert max(sizes[20:]) - min(sizes[20:]) < 50
    assert max(sum(len(one.prompt) + len(one.answer) for one in shown) for shown in HEARD) <= 200
    Thread(read, "t")._after(run, coterie.plan(small), is_latest=True)
    assert set(read.seen) == {run}


class Reading(Runs):
    """Counts the journals that are read."""

    seen: list[str] = []

    def read(self, run: str, from_seq: int = 1) -> Any:
        self.seen.append(run)
        return super().read(run, from_seq)


def test_a_message_is_refused_while_the_latest_has_no_end(talk: Talk) -> None:
    """A stopped run names the line that resumes it; then the thread goes on behind it."""
    stopped = talk.send("a", limits=coterie.Limits(max_turns=0))
    assert stopped.status == "stopped"
    with pytest.raises(ThreadBusy, match=f"coterie resume {stopped.run}") as refused:
        talk.send("b")
    assert refused.value.run == stopped.run
    assert not HEARD

    lifted = coterie.Limits(max_turns=-1)
    asyncio.run(coterie.resume(stopped.run, state_dir=talk.runs.root, limits=lifted))
    talk.send("b")
    assert [one.prompt for one in HEARD[-1]] == ["a"]


def test_of_two_at_once_one_is_refused(talk: Talk) -> None:
    """Or waits for the end of the other, and is shown it."""
    slow = coterie.flow("talk", [coterie.agent("friend", stuck, thread=True)])

    async def main() -> list[Any]:
        begun = asyncio.Event()
        how: dict[str, Any] = {"state_dir": talk.runs.root, "thread": "t"}
        first = asyncio.create_task(coterie.run(slow, "a", observe=lambda run, record: begun.set(), **how))
        await begun.wait()
        [refused] = await asyncio.gather(coterie.run(team(), "b", **how), return_exceptions=True)
        waits = asyncio.create_task(coterie.run(team(), "c", wait=True, **how))
        await asyncio.sleep(0)
        GO.set()
        return [await first, refused, await waits]

    _, refused, last = asyncio.run(main())
    assert isinstance(refused, ThreadBusy)
    assert "running" in str(refused)
    assert [(one.prompt, one.answer) for one in HEARD[-1]] == [("a", "at last")]
    assert next(Thread(talk.runs, "t").newest()) == last.run


def test_two_that_begin_at_the_same_moment_do_not_both_follow_one_run(talk: Talk) -> None:
    """The lock is held until a run has begun."""

    async def main() -> list[Any]:
        how: dict[str, Any] = {"state_dir": talk.runs.root, "thread": "t"}
        talks = coterie.flow("talk", [coterie.agent("friend", stuck, thread=True)])
        both = [asyncio.ensure_future(coterie.run(talks, text, **how)) for text in ("a", "b")]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        GO.set()
        return await asyncio.gather(*both, return_exceptions=True)

    ended = asyncio.run(main())
    assert sorted(getattr(one, "status", type(one).__name__) for one in ended) == ["ThreadBusy", "completed"]
    assert len([*Thread(talk.runs, "t").newest()]) == 1


def test_a_message_that_is_cancelled_before_it_begins_lets_go_of_the_thread(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service cancels a request that takes long; the next message is not held up by it."""
    reached, go_on, append = threading.Event(), threading.Event(), Thread._append

    def slow(thread: Thread, run: str) -> None:
        if not reached.is_set():
            reached.set()
            go_on.wait(60)
        append(thread, run)

    monkeypatch.setattr(Thread, "_append", slow)

    async def main() -> None:
        given = {"state_dir": talk.runs.root, "thread": "t"}
        first = asyncio.create_task(coterie.run(team(), "a", **given))
        await asyncio.to_thread(reached.wait, 60)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        go_on.set()

    asyncio.run(main())
    assert talk.send("b").status == "completed"


def test_a_turn_does_not_wait_for_the_run_that_it_is_part_of(talk: Talk) -> None:
    """In the thread of its own run it is refused at once; another thread goes on meanwhile."""
    outer = coterie.flow("outer", [coterie.agent("asks", nested, thread=True)])
    home = talk.runs.root
    own = talk.send(f"{home} t", outer)
    assert f"run {own.run}, the latest of thread 't', has this as a part of it" in own.result["text"]
    assert [talk.send(f"{home} u", outer).result["text"] for _ in "ab"] == ["completed"] * 2
    assert [one.prompt for one in HEARD[-1]] == ["inner"]
    assert len([*Thread(talk.runs, "t").newest()]) == 3


@pytest.mark.slow
def test_a_program_does_not_wait_for_the_run_that_it_is_part_of(tmp_path: Path) -> None:
    """Its process has the marks of the attempt."""
    (tmp_path / "in.at").write_text(PROGRAM.replace("COMMAND", '"true"'))
    again = [sys.executable, "-m", "coterie", "run", "in.at", "inner", "--thread", "t", "--wait"]
    (tmp_path / "out.at").write_text(PROGRAM.replace("COMMAND", ", ".join(f'"{one}"' for one in again)))
    refused = Place(tmp_path).call("run", "out.at", "x", "--thread", "t", status=1)
    assert "the latest of thread 't', has this as a part of it" in refused.err


def test_a_run_may_be_named_to_continue_from_there(talk: Talk) -> None:
    """The thread goes on behind the new run; what came after the named one is not shown."""
    first = talk.send("a")
    talk.send("b")
    branch = talk.send("c", after=first.run)
    talk.send("d")

    assert talk.thread(branch.run).after == first.run
    assert [one.prompt for one in HEARD[2]] == ["a"]
    assert [one.prompt for one in HEARD[3]] == ["a", "c"]


def test_a_team_inside_a_team_is_not_shown_the_thread_and_says_so(tmp_path: Path) -> None:
    """The option would otherwise be dropped in silence."""
    (tmp_path / "in.at").write_text("topology inner : [pipeline] {\n  agent a { model: sonnet }\n  flow { a }\n}\n")
    node = 'agent t { extensions { coterie { topology: "in.at"  thread: true } } }'
    (tmp_path / "out.at").write_text(f"topology outer : [pipeline] {{\n  {node}\n  flow {{ t }}\n}}\n")
    found = [one for one in coterie.read(tmp_path / "out.at", backend="model").diagnostics if one.code == "idle-key"]
    [(said, is_placed)] = [(one.summary, one.span is not None) for one in found]
    assert said.endswith("'thread' of agent 't' has no effect: a team inside a team is not shown the thread")
    assert is_placed


def test_a_thread_has_one_team(talk: Talk) -> None:
    """A run of another team would be shown answers that it never gave."""
    talk.send("a")
    other = coterie.flow("other", [coterie.agent("friend", answer, thread=True)])
    with pytest.raises(UsageError, match="'talk', not of 'other'"):
        talk.send("b", other)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"thread": "../x"}, "cannot be the name"),
        ({"thread": ""}, "name it"),
        ({"after": "20260101-000000-abcdef"}, "no run '20260101"),
    ],
)
def test_wrong_arguments_are_refused_before_the_run(talk: Talk, options: dict[str, str], why: str) -> None:
    """The name is that of a file."""
    with pytest.raises(UsageError, match=why):
        talk.send("a", **{"after": "x", **options} if options.get("thread") == "" else options)
    assert not HEARD


def test_a_failed_run_is_an_end(talk: Talk) -> None:
    """Its message has no answer, and the message after it is shown that."""
    friend, echo = coterie.agent("friend", broken, thread=True), coterie.agent("echo", answer, thread=True)
    flow = coterie.flow("talk", [friend, echo], [friend >> echo])
    failed = talk.send("fail", flow)
    assert failed.status == "failed"
    second = talk.send("b", flow)
    assert talk.thread(second.run).exchanges[0] == ThreadExchange(run=failed.run, prompt="fail")
    assert HEARD[-1] == (PastExchange(run=failed.run, prompt="fail"),)


def test_a_killed_beginning_leaves_nothing(talk: Talk) -> None:
    """The id of a run is written before it begins; without a journal it does not count, nor does a torn line."""
    first = talk.send("a")
    path = Thread(talk.runs, "t").path
    with path.open("a") as file:
        file.write("20260101-000000-ffffff\n20260101-0000")
    second = talk.send("b")

    assert talk.thread(second.run).after == first.run
    assert [*Thread(talk.runs, "t").newest()] == [second.run, first.run]
    assert path.read_text().splitlines()[-1] == second.run
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_fork_is_shown_the_same_and_is_not_of_the_thread(talk: Talk) -> None:
    """It may be named to continue from there."""
    talk.send("a")
    second = talk.send("b")
    forked = asyncio.run(coterie.fork(second.run, input="other", state_dir=talk.runs.root))
    assert [one.prompt for one in HEARD[-1]] == ["a"]
    assert next(Thread(talk.runs, "t").newest()) == second.run
    talk.send("c", after=forked.run)
    assert [(one.prompt, one.answer) for one in HEARD[-1]] == [("a", "answer to a"), ("other", "answer to other")]


def test_pruning_keeps_what_a_thread_goes_on_from(talk: Talk) -> None:
    """The latest run has in its journal what came before, so the others may go."""
    first, second = talk.send("a"), talk.send("b")
    found = dict(prune(talk.runs.root, 1e12))
    assert found[first.run] == ""
    assert "'t' goes on from it" in found[second.run]

    talk.send("c")
    assert [one.prompt for one in HEARD[-1]] == ["a", "b"]


def test_a_thread_without_its_latest_run_goes_on_from_the_one_before(talk: Talk) -> None:
    """A person may remove any run."""
    talk.send("a")
    second = talk.send("b")
    remove(talk.runs, second.run)
    talk.send("c")
    assert [one.prompt for one in HEARD[-1]] == ["a"]


def test_a_removed_thread_begins_anew(talk: Talk) -> None:
    """Its runs stay."""
    first = talk.send("a")
    named(talk.runs.root, "t").remove()
    assert listed(talk.runs.root) == []
    talk.send("b")
    assert HEARD[-1] == ()
    assert talk.runs.has_begun(first.run)


def test_a_given_id_finds_its_run_and_adds_none(talk: Talk) -> None:
    """Also in a thread that has gone on."""
    first = talk.send("a", id="mine")
    talk.send("b")
    again = talk.send("a", id="mine")
    assert (again.run, again.result) == (first.run, first.result)
    assert len([*Thread(talk.runs, "t").newest()]) == 2


@pytest.mark.extras("claude")
@pytest.mark.slow
def test_a_coding_agent_goes_on_in_its_session(talk: Talk) -> None:
    """Unless the run continues another one than the latest: then its prompt has the thread."""
    fake = Path(__file__).parents[2] / "support" / "fake_agents" / "claude_agent.py"
    agent = coterie.agent("friend", type="claude-sdk", command=[sys.executable, str(fake)], thread=True)
    topology = coterie.flow("talk", [agent])
    first = talk.send("please recite", topology)
    second = talk.send("again recite", topology)
    third = talk.send("now recite", topology, after=first.run)

    assert talk.thread(second.run).sessions == {"friend": "session-1"}
    assert "please recite" not in second.result["text"]
    assert talk.thread(third.run).sessions == {}
    assert "please recite" in third.result["text"]
    started = [one for one in talk.runs.read(second.run) if isinstance(one, TurnStarted)]
    assert [one.session for one in started] == ["session-1"]
    assert all(detail(talk.runs, one.run, "friend#1").question.same for one in (first, second, third))


@pytest.mark.slow
@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_a_model_is_sent_the_thread_as_messages(talk: Talk, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inputs as they were, and its own answers; the prompt is the last message."""
    model = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5"}[api]
    agent = coterie.agent("friend", model=model, type="model", prompt="Be kind.", thread=True)
    topology = coterie.flow("talk", [agent])
    with FakeModels(Say(text="one"), Say(text="two"), Say(text="three")) as models:
        for name, value in models.environment.items():
            monkeypatch.setenv(name, value)
        for text in "abc":
            outcome = talk.send(text, topology)
    assert outcome.status == "completed"
    sent = [(one["role"], _text(one["content"])) for one in models.requests[-1]["messages"]]
    assert sent[:-1] == [("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two")]
    assert sent[-1] == ("user", "Be kind.\n\n# Task\n\nc")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

"""A conversation is kept step by step, and the next attempt of its turn continues it."""

import asyncio
import json
import stat
import threading
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from asking import Heard, request
from asking_models import MODELS, plan, results_of
from elsewhere import NEEDS_FDATASYNC
from fake_models import FakeModels, Refuse, Reply, Say, text_of

import coterie
from coterie.agents.backends import once
from coterie.agents.backends.base import Answer, Failure, Request, Result, Stepped, Tail, Tool
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.models.steps import STEPS
from coterie.history.journal import records as r
from coterie.team.planning.plan import AgentPlan, Wanted

PAID: list[int] = []
GO = threading.Event()
TOTAL = Wanted(name="total", type="number")


def pay(euros: int) -> str:
    """Pay."""
    PAID.append(euros)
    return f"paid {euros}"


def wait(euros: int) -> str:
    """Pay when there is word."""
    PAID.append(euros)
    GO.wait(60)
    return f"paid {euros}"


@once
def pay_once(euros: int) -> str:
    """Pay, at most once."""
    return wait(euros)


def fail(euros: int) -> str:
    """Fail."""
    PAID.append(euros)
    raise ValueError("no money")


TOOLS = {name: f"{__name__}:{name}" for name in ("pay", "wait", "pay_once", "fail")}


@pytest.fixture(autouse=True)
def fresh() -> None:
    PAID.clear()
    GO.clear()


@pytest.fixture(params=MODELS)
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Turn:
    """The attempts of one turn of an agent with tools, in *folder*."""

    def __init__(self, folder: Path, models: FakeModels, agent: AgentPlan) -> None:
        self.folder, self.models, self.agent = folder, models, agent
        self.attempts = 0
        self.heard = Heard()
        self.steps = 0

    def asked(self, **values: Any) -> Request:
        self.attempts += 1
        tail = values.setdefault("tail", Tail())
        prompt = "\n\n".join(filter(None, (values.pop("prompt", "a question"), tail.text)))
        place = self.folder / f"a#1.{self.attempts}"
        known = {"attempt": self.attempts, "folder": place, "continues": self.attempts > 1, "answered": self.steps}
        return request(self.agent, prompt=prompt, **{**known, **values})

    @property
    def kept(self) -> Path:
        return self.folder / f"a#1.{self.attempts}" / STEPS

    def ask(self, **values: Any) -> Result:
        """The result of a whole attempt."""
        return asyncio.run(self._ask(self.asked(**values)))

    def cut(self, when: Any, **values: Any) -> None:
        """An attempt that is interrupted when *when()* is true."""

        async def cut() -> None:
            backend = ModelBackend(environment=self.models.environment)
            session = await backend.start(self.asked(**values), self.heard)
            while not when():  # noqa: ASYNC110 - a state of a thread
                await asyncio.sleep(0.005)
            await session.interrupt()
            await backend.close()

        asyncio.run(cut())
        self._count()

    async def _ask(self, asked: Request) -> Result:
        backend = ModelBackend(environment=self.models.environment)
        try:
            session = await backend.start(asked, self.heard)
            return await session.result()
        finally:
            await backend.close()
            self._count()

    def _count(self) -> None:
        self.steps = max((event.n for event in self.heard if isinstance(event, Stepped)), default=0)


def agent(api: str, *tools: str, **values: Any) -> AgentPlan:
    return plan(api, {"python_tools": {name: TOOLS[name] for name in tools}, **values.pop("options", {})}, **values)


def answer(*calls: tuple[str, Any], text: str = "") -> Say:
    return Say(text, calls=calls)


# -- an answer that does not count ------------------------------------------------------------------------------------

TEAM = """topology t : [pipeline] {
  extensions { coterie { backend: model  provider: API } }
  agent clerk {
    model: "MODEL"  prompt: "Pay."  outputs { total: number }  extensions { coterie { tools: ["MODULE:pay"] } }
  }
  flow { clerk }
}
"""


def run(api: str, models: FakeModels, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[r.Record]]:
    for name, value in models.environment.items():
        monkeypatch.setenv(name, value)
    seen: list[r.Record] = []
    text = TEAM.replace("API", api).replace("MODEL", MODELS[api]).replace("MODULE", __name__)
    ended = asyncio.run(coterie.run(text, "go", state_dir=folder, observe=lambda run, record: seen.append(record)))
    return ended, seen


def test_an_invalid_answer_is_asked_again_in_its_conversation(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools do not run again; the model sees what was wrong behind its answer; the journal has each request once."""
    total = ["many", 5]
    said = [answer(("pay", {"euros": 5})), *(answer(("give_outputs", {"total": one})) for one in total)]
    with FakeModels(*said) as models:
        ended, seen = run(api, models, tmp_path, monkeypatch)
    assert (ended.status, PAID, len(models.requests)) == ("completed", [5], 3)
    first, _, last = (text_of(body) for body in models.requests)
    assert last.startswith(first[:-1])
    assert "did not count" in last
    steps = [one for one in seen if isinstance(one, r.AttemptStep)]
    assert [(one.attempt, one.n, one.calls) for one in steps] == [
        (1, 1, ("pay",)),
        (1, 2, ("give_outputs",)),
        (2, 3, ("give_outputs",)),
    ]
    assert all(len(one.hash) == 64 and one.usage.input_tokens == 100 for one in steps)
    assert ended.usage.input_tokens == 300
    assert not list(tmp_path.rglob(STEPS)), "it is removed with the end of the turn"


def scribble(text: str) -> str:
    """Change the file that the agent reads."""
    PAID.append(1)
    Path("notes.txt").write_text(text)
    return "done"


def test_a_file_that_the_agent_reads_may_change_meanwhile(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question stays what it was when the turn began: the conversation goes on, and knows of the change."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("old")
    team = TEAM.replace('prompt: "Pay."', 'prompt: "Pay."  reads: ["notes.txt"]').replace(":pay", ":scribble")
    monkeypatch.setitem(globals(), "TEAM", team)
    said = [answer(("scribble", {"text": "new"})), *(answer(("give_outputs", {"total": one})) for one in ("many", 5))]
    with FakeModels(*said) as models:
        ended, _ = run(api, models, tmp_path / "state", monkeypatch)
    assert (ended.status, PAID, len(models.requests)) == ("completed", [1], 3)
    assert "old" in text_of(models.requests[2])
    assert "begins anew" not in text_of(models.requests[2])


def test_an_answer_that_a_gate_refuses_is_asked_again_in_its_conversation(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tools do not run again."""
    gate = (
        'extensions { coterie { gates: [["sh", "-c", "test -e {folder}/ok || { touch {folder}/ok; exit 1; }"]]  tools:'
    )
    team = TEAM.replace("extensions { coterie { tools:", gate.replace("{folder}", str(tmp_path)))
    monkeypatch.setitem(globals(), "TEAM", team)
    said = [answer(("pay", {"euros": 5})), *(answer(("give_outputs", {"total": one})) for one in (4, 5))]
    with FakeModels(*said) as models:
        ended, _ = run(api, models, tmp_path / "state", monkeypatch)
    assert (ended.status, PAID, len(models.requests)) == ("completed", [5], 3)
    assert ended.result.outputs["clerk"]["total"] == 5


def test_a_retry_of_a_failed_run_goes_on_and_max_turns_counts_anew(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finished tool is not called again; the requests of the turn are counted on."""
    team = TEAM.replace("coterie { tools:", "coterie { options { max-turns: 1 }  tools:")
    monkeypatch.setitem(globals(), "TEAM", team)
    seen: list[r.Record] = []
    with FakeModels(answer(("pay", {"euros": 5})), answer(("give_outputs", {"total": 5}))) as models:
        failed, _ = run(api, models, tmp_path, monkeypatch)
        assert (failed.status, len(models.requests), len([*tmp_path.rglob(STEPS)])) == ("failed", 1, 1)
        observe = lambda run, record: seen.append(record)  # noqa: E731 - two words
        ended = asyncio.run(coterie.resume(failed.run, retry=True, state_dir=tmp_path, observe=observe))
    assert (ended.status, PAID, len(models.requests)) == ("completed", [5], 2)
    assert [(one.attempt, one.n) for one in seen if isinstance(one, r.AttemptStep)] == [(2, 2)]
    assert not list(tmp_path.rglob(STEPS))


# -- an attempt that was cut off --------------------------------------------------------------------------------------


def test_a_cut_attempt_goes_on_from_its_last_answer(api: str, tmp_path: Path) -> None:
    """The answered request is not sent again, and the finished tool not called; what was under way is called again."""
    said = [answer(("pay", {"euros": 1}), ("wait", {"euros": 2})), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay", "wait"))
        turn.cut(lambda: sorted(PAID) == [1, 2] and b"paid 1" in turn.kept.read_bytes())
        GO.set()
        result = turn.ask(tail=Tail(interruption="You were interrupted."))
    assert isinstance(result, Answer), result
    assert (result.text, sorted(PAID), len(models.requests)) == ("Done.", [1, 2, 2], 2)
    assert ["paid 1" in one or "paid 2" in one for one in results_of(models.requests[1])] == [True, True]
    assert "You were interrupted." in text_of(models.requests[1])
    assert result.usage.input_tokens == 100
    finished = [event.name for event in turn.heard if isinstance(event, Tool) and event.state == "finished"]
    assert finished == ["pay", "wait"], "each is reported once"
    assert stat.S_IMODE(turn.kept.stat().st_mode) == 0o600
    assert not (tmp_path / "a#1.1" / STEPS).exists()


def test_an_answer_that_was_there_is_not_asked_for_again(api: str, tmp_path: Path) -> None:
    """An attempt that was killed behind its answer gives the same answer, without a request and without a note."""
    with FakeModels(Say("The first."), Say("Another.")) as models:
        turn = Turn(tmp_path, models, agent(api))
        first = turn.ask()
        again = turn.ask(tail=Tail(interruption="You were interrupted."))
    assert isinstance(first, Answer)
    assert isinstance(again, Answer)
    assert (again.text, len(models.requests)) == (first.text, 1)


def test_an_answer_that_was_given_again_and_does_not_count_is_asked_for_again(api: str, tmp_path: Path) -> None:
    """Its first attempt was cut off behind it, before the run could refuse it."""
    with FakeModels(Say("The first."), Say("Another.")) as models:
        turn = Turn(tmp_path, models, agent(api))
        turn.ask()
        turn.ask(tail=Tail(interruption="You were interrupted."))
        last = turn.ask(tail=Tail(refusal="It did not count.", refused=2))
    assert isinstance(last, Answer)
    assert (last.text, len(models.requests)) == ("Another.", 2)
    assert "It did not count." in text_of(models.requests[1])


def test_outputs_that_were_there_are_not_asked_for_again(api: str, tmp_path: Path) -> None:
    """The same for outputs, behind a tool."""
    said = [answer(("pay", {"euros": 1})), answer(("give_outputs", {"total": 5}))]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay", outputs=(TOTAL,)))
        first = turn.ask()
        again = turn.ask(tail=Tail(interruption="You were interrupted."))
    assert isinstance(first, Answer)
    assert isinstance(again, Answer)
    assert (first.outputs, again.outputs, len(models.requests), PAID) == ({"total": 5}, {"total": 5}, 2, [1])


def test_a_pause_that_was_answered_is_not_asked_for_again(tmp_path: Path) -> None:
    """The provider goes on with what it has said before it paused."""
    hold = threading.Event()

    def choose(body: dict[str, Any]) -> Reply:
        if len(models.requests) == 2:
            return Say("never", hold=hold.is_set)
        return Say("wait. ", stop="pause_turn") if len(models.requests) == 1 else Say("Done.")

    with FakeModels(choose=choose) as models:
        turn = Turn(tmp_path, models, agent("anthropic"))
        turn.cut(lambda: len(models.requests) == 2)
        hold.set()
        result = turn.ask(tail=Tail(interruption="You were interrupted."))
    assert isinstance(result, Answer), result
    assert (result.text, len(models.requests)) == ("wait. Done.", 3)
    assert text_of(models.requests[2]) == text_of(models.requests[1])


def test_a_transient_failure_continues(api: str, tmp_path: Path) -> None:
    """The results that were there are sent again, without a note; the tools do not act again."""
    said = [answer(("pay", {"euros": 1})), Refuse(503), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay"))
        first, second = turn.ask(), turn.ask()
    assert isinstance(first, Failure)
    assert isinstance(second, Answer), second
    assert (first.kind, second.text, PAID) == ("transient", "Done.", [1])
    assert text_of(models.requests[2]) == text_of(models.requests[1])


def test_an_error_of_a_tool_is_kept(api: str, tmp_path: Path) -> None:
    """A call that failed is finished, too."""
    said = [answer(("fail", {"euros": 1}), ("wait", {"euros": 2})), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "fail", "wait"))
        turn.cut(lambda: sorted(PAID) == [1, 2] and b"no money" in turn.kept.read_bytes())
        GO.set()
        result = turn.ask()
    assert isinstance(result, Answer), result
    assert sorted(PAID) == [1, 2, 2]
    assert "no money" in text_of(models.requests[1])


def test_a_tool_marked_once_is_not_called_again(api: str, tmp_path: Path) -> None:
    """One that never began is called; of one that began and has no end, the model hears that it is unknown."""
    said = [answer(("pay_once", {"euros": 1})), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay_once"))
        turn.cut(lambda: PAID == [1])
        GO.set()
        result = turn.ask()
    assert isinstance(result, Answer), result
    assert PAID == [1]
    assert "not known whether this call of pay_once took effect" in text_of(models.requests[1])


@NEEDS_FDATASYNC
def test_the_begin_of_a_tool_marked_once_is_on_disk_before_it_acts(
    api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So is the answer that calls a tool, and the result before the next request; nothing else waits for the disk."""
    seen: list[str] = []

    def synced(fd: int) -> None:
        seen.append("sync")

    monkeypatch.setattr("os.fdatasync", synced)
    monkeypatch.setitem(globals(), "GO", Go(lambda: seen.append("act")))
    said = [answer(("wait", {"euros": 1})), answer(("pay_once", {"euros": 1})), Say("Done.")]

    def choose(body: dict[str, Any]) -> Reply:
        seen.append("request")
        return said[len(models.requests) - 1]

    with FakeModels(choose=choose) as models:
        Turn(tmp_path, models, agent(api, "pay_once", "wait")).ask()
    once, plain = ["sync", "sync", "act", "sync"], ["sync", "act", "sync"]
    assert seen == ["request", *plain, "request", *once, "request"]


class Go:
    """Stands in for `GO`."""

    def __init__(self, wait: Any) -> None:
        self._wait = wait

    def wait(self, seconds: float) -> None:
        self._wait()


# -- guidance and notes -----------------------------------------------------------------------------------------------


def test_guidance_is_given_once(api: str, tmp_path: Path) -> None:
    """What an earlier request had is not repeated; what came too late for it is given."""
    said = [answer(("wait", {"euros": 1})), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "wait"))
        turn.cut(lambda: PAID == [1], tail=Tail(guidance=("Be kind.",)))
        GO.set()
        result = turn.ask(tail=Tail(guidance=("Be kind.", "Be quick."), interruption="You were interrupted."))
    assert isinstance(result, Answer), result
    last = text_of(models.requests[1])
    assert [last.count(text) for text in ("Be kind.", "Be quick.", "You were interrupted.")] == [1, 1, 1]


def test_guidance_reopens_an_answer(api: str, tmp_path: Path) -> None:
    """Guidance that came before an answer counted is followed."""
    with FakeModels(Say("The first."), Say("The second.")) as models:
        turn = Turn(tmp_path, models, agent(api))
        turn.ask()
        again = turn.ask(tail=Tail(guidance=("Be quick.",)))
    assert isinstance(again, Answer)
    assert (again.text, len(models.requests)) == ("The second.", 2)


def test_an_answer_that_was_not_judged_is_not_refused_for_an_earlier_one(api: str, tmp_path: Path) -> None:
    """The process died between the second answer and its record: the reason against the first does not hold for it."""
    with FakeModels(Say("The first."), Say("The second."), Say("The third.")) as models:
        turn = Turn(tmp_path, models, agent(api))
        refusal = Tail(refusal="Your first answer is wrong.", refused=1)
        turn.ask()
        second = turn.ask(tail=refusal)
        third = turn.ask(tail=Tail(refusal=refusal.refusal, refused=1, interruption="You were interrupted."))
    assert isinstance(second, Answer)
    assert isinstance(third, Answer)
    assert (second.text, third.text, len(models.requests)) == ("The second.", "The second.", 2)


def test_a_reason_survives_an_interruption(api: str, tmp_path: Path) -> None:
    """The second attempt was cut off before the model had heard why its answer did not count: the third says so."""
    hold = threading.Event()
    said = [Say("The first."), Say("never", hold=hold.is_set), Say("The second.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api))
        refusal = Tail(refusal="Your first answer is wrong.", refused=1)
        turn.ask()
        turn.cut(lambda: len(models.requests) == 2, tail=refusal)
        hold.set()
        third = turn.ask(tail=Tail(refusal=refusal.refusal, refused=1, interruption="You were interrupted."))
    assert isinstance(third, Answer)
    assert third.text == "The second."
    assert "first answer is wrong" in text_of(models.requests[2])


def test_an_answer_that_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    """An empty answer, which providers take back from nobody, is asked for again in its place."""
    with FakeModels(answer(("pay", {"euros": 1})), Say(""), Say("Done.")) as models:
        turn = Turn(tmp_path, models, agent("anthropic", "pay"))
        first, second = turn.ask(), turn.ask(tail=Tail(refusal="It was empty.", refused=1))
    assert isinstance(first, Failure)
    assert isinstance(second, Answer), second
    assert (first.kind, second.text, PAID) == ("invalid_output", "Done.", [1])
    assert len(models.requests[2]["messages"]) == len(models.requests[1]["messages"])
    assert "It was empty." in text_of(models.requests[2])


# -- limits -----------------------------------------------------------------------------------------------------------


def test_max_turns_counts_over_the_attempts_of_a_turn(api: str, tmp_path: Path) -> None:
    """Two requests were answered, so a limit of two leaves none."""
    said = [answer(("pay", {"euros": 1})), Say("Wrong."), Say("Right.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay", options={"max_turns": 2}))
        turn.ask()
        second = turn.ask(tail=Tail(refusal="No.", refused=1))
    assert isinstance(second, Failure)
    assert (second.kind, len(models.requests)) == ("failed", 2)
    assert "2 requests of max-turns" in second.reason


# -- what is begun anew -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["model", "question", "tools", "library", "damage", "gone", "excluded"])
def test_another_conversation_begins_anew(why: str, tmp_path: Path) -> None:
    """The model hears which tools an earlier attempt has called, and why it does not go on."""
    said = [answer(("pay", {"euros": 1})), Refuse(503), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent("anthropic", "pay"))
        turn.ask()
        values: dict[str, Any] = {}
        lines = turn.kept.read_bytes().splitlines(keepends=True)
        match why:
            case "model":
                turn.agent = agent("anthropic", "pay", model="claude-opus-5-5")
            case "question":
                values["prompt"] = "another question"
            case "tools":
                turn.agent = agent("anthropic", "pay", "fail")
            case "library":
                first = json.loads(lines[0][9:]) | {"library": "99.1.0"}
                data = json.dumps(first).encode()
                turn.kept.write_bytes(b"".join([b"%08x %b\n" % (crc32(data), data), *lines[1:]]))
            case "damage":
                turn.kept.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"paid", b"laid"), lines[0]]))
            case "gone":
                turn.kept.unlink()
            case "excluded":
                values["continues"] = False
        result = turn.ask(**values)
    assert isinstance(result, Answer), result
    last = models.requests[2]["messages"]
    assert len(last) == 1
    says = {"library": "version 99.1.0", "damage": "cannot be read", "gone": "not here", "excluded": ""}
    assert says.get(why, f"another {why}" if why != "tools" else "other tools") in json.dumps(last)
    assert ("begins anew" in json.dumps(last)) == (why != "excluded")
    assert turn.kept.exists()
    assert len(list(tmp_path.rglob(STEPS))) == 1


def test_a_torn_last_line_is_cut_off(api: str, tmp_path: Path) -> None:
    """Nothing has followed from it; the conversation goes on before it, and the file is whole again."""
    said = [answer(("pay", {"euros": 1})), Refuse(503), Refuse(503), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay"))
        turn.ask()
        whole = turn.kept.read_bytes()
        turn.kept.write_bytes(whole[:-20])
        turn.ask()
        result = turn.ask()
    assert isinstance(result, Answer), result
    assert PAID == [1, 1], "its result was torn"
    assert len(models.requests) == 4


# -- secrets and long texts -------------------------------------------------------------------------------------------

SECRET = 'se"cret-ähem-1234'


def reveal() -> str:
    """Reveal."""
    return f"the key is {SECRET}; " + "long " * 400


TOOLS["reveal"] = f"{__name__}:reveal"


def test_secrets_are_names_on_disk_and_values_for_the_model(api: str, tmp_path: Path) -> None:
    """In texts, in arguments, which are JSON within JSON, and in long texts, which are written once."""
    said = [answer(("pay", {"euros": 1}), ("reveal", {}), text=f"I know {SECRET}."), Refuse(503), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent(api, "pay", "reveal", env={"HOUSE_TOKEN": SECRET}))
        turn.ask()
        kept = turn.kept.read_text()
        result = turn.ask()
    assert isinstance(result, Answer), result
    assert "HOUSE_TOKEN" in kept
    assert "cret-" not in kept
    assert kept.count("long " * 300) == 1
    assert text_of(models.requests[2]) == text_of(models.requests[1])
    assert "ähem" in text_of(models.requests[2])


def test_a_secret_that_is_not_set_any_more_begins_anew(tmp_path: Path) -> None:
    """Its value cannot be put back."""
    said = [Say(f"I know {SECRET}", calls=[("reveal", {})]), Refuse(503), Say("Done.")]
    with FakeModels(*said) as models:
        turn = Turn(tmp_path, models, agent("anthropic", "reveal", env={"HOUSE_TOKEN": SECRET}))
        turn.ask()
        turn.agent = agent("anthropic", "reveal")
        result = turn.ask()
    assert isinstance(result, Answer), result
    assert "names a secret" in text_of(models.requests[2])

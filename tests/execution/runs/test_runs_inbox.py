"""Messages to a run on disk: taken once, by whoever owns it, however they come."""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bundles import bundle
from doorbell import control
from posted import send
from stage import Cast, flow
from until import until

from coterie.agents.backends.agentside import delivery
from coterie.agents.backends.base import Request
from coterie.agents.backends.human import HumanBackend
from coterie.agents.backends.processes import is_stopped
from coterie.base import files
from coterie.errors import UsageError
from coterie.execution.kernel.shell import Shell
from coterie.execution.runs import launch
from coterie.execution.runs.messages import RunMessage, Verdict, doorbell, inbox
from coterie.execution.runs.messages.doorbell import Doorbell, socket_path
from coterie.execution.runs.messages.inbox import collect
from coterie.execution.runs.messages.tokens import Tokens
from coterie.execution.runs.outcome import Outcome
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import MessageRefused, TurnFinished, TurnStarted
from coterie.history.journal.writer import JsonlWriter
from coterie.team.planning.plan import AgentPlan

PLAN = flow("a -> boss", boss=AgentPlan(name="boss", kind="human", backend="human"))


class Asked(Cast):
    """Agents answer at once; the human is asked, and answers through the inbox only."""

    def __init__(self, on_asked: Callable[[], None]) -> None:
        super().__init__({}, seconds=0)
        self._on_asked = on_asked

    async def start(self, request, on_event):  # type: ignore[no-untyped-def]
        if request.agent.kind != "human":
            return await super().start(request, on_event)
        self._on_asked()
        return await HumanBackend().start(request, on_event)


async def with_owner(state: Path, meanwhile: Callable[[Path], object]) -> Outcome:
    """Run `PLAN` in *state*; once boss is asked, do *meanwhile* in a thread, as another process would."""
    asked = asyncio.Event()
    owner = asyncio.create_task(
        launch.start(PLAN, {}, state_dir=state, park=False, turns=Asked(asked.set), run_id="r", cwd=state)
    )
    folder = state / "runs" / "r"
    await asked.wait()
    while not control(folder):  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(0)
    try:
        await asyncio.to_thread(meanwhile, folder)
        return await asyncio.wait_for(owner, 60)
    finally:
        owner.cancel()


def answer(name: str = "m1", turn: str = "boss#1") -> RunMessage:
    return RunMessage(id=name, kind="answer", turn=turn, text="yes")


def results(state: Path, run: str = "r") -> list[str]:
    return [record.turn for record in JsonlStore(state).read(run) if isinstance(record, TurnFinished)]


def test_a_message_is_found_without_its_doorbell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody cleared the sockets away: the owner hangs its doorbell out again, and the sender hears of it."""
    monkeypatch.setattr(inbox, "LOOK_EVERY", 0.01)
    said: list[Verdict] = []

    def meanwhile(folder: Path) -> None:
        Path(control(folder)["socket"]).unlink()
        said.append(send(folder, answer(turn="a#1")))
        said.append(send(folder, answer("m2")))

    assert asyncio.run(with_owner(tmp_path, meanwhile)).status == "completed"
    assert [verdict.status for verdict in said] == ["refused", "accepted"]
    assert "is not waiting for an answer" in said[0].detail
    assert not list((tmp_path / "runs/r/inbox").glob("*.json"))


def test_a_message_that_comes_twice_counts_once_and_is_told_the_same(tmp_path: Path) -> None:
    """Whoever repeats its id, after a refusal too."""
    said: list[Verdict] = []

    def meanwhile(folder: Path) -> None:
        said.extend(send(folder, answer("m1", "nobody#1")) for _ in range(2))
        said.append(send(folder, answer("m2")))

    assert asyncio.run(with_owner(tmp_path, meanwhile)).status == "completed"
    assert [verdict.status for verdict in said] == ["refused", "refused", "accepted"]
    assert said[0] == said[1]
    refused = [record for record in JsonlStore(tmp_path).read("r") if isinstance(record, MessageRefused)]
    assert [record.message for record in refused] == ["m1"]


@bundle("name", [b"\xff\xff\n", b"a\0b\n", b"../../lock\n", b"x" * 100_000 + b"\n", b"", b"\n"])
def test_nonsense_at_the_doorbell_disturbs_nobody(
    tmp_path: Path, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets no verdict, or a refusal; the next message is taken."""

    def meanwhile(folder: Path) -> None:
        with socket.socket(socket.AF_UNIX) as bell:
            bell.connect(control(folder)["socket"])
            bell.sendall(name)
            bell.shutdown(socket.SHUT_WR)
            heard = bell.makefile("rb").read()
        assert heard == b"" or msgspec.json.decode(heard, type=Verdict).status == "refused"
        assert send(folder, answer()).status == "accepted"

    assert asyncio.run(with_owner(tmp_path, meanwhile)).status == "completed"
    assert not caplog.records
    assert (tmp_path / "runs/r/lock").exists()


@bundle("data", [b"\xff", b"{}", b"[" * 5000, b'{"id":1}'])
def test_a_message_that_cannot_be_read_is_put_aside(tmp_path: Path, data: bytes) -> None:
    """The next one is taken all the same."""

    def meanwhile(folder: Path) -> None:
        (folder / "inbox/bad.json").write_bytes(data)
        with socket.socket(socket.AF_UNIX) as bell:
            bell.connect(control(folder)["socket"])
            bell.sendall(b"bad\n")
            assert msgspec.json.decode(bell.makefile("rb").read(), type=Verdict).status == "refused"
        assert send(folder, answer()).status == "accepted"

    assert asyncio.run(with_owner(tmp_path, meanwhile)).status == "completed"
    assert (tmp_path / "runs/r/inbox/bad.unreadable").read_bytes() == data


def test_an_answer_that_waits_is_taken_by_the_next_owner(tmp_path: Path) -> None:
    """Nobody owns the run: the message is queued, and the answer is the turn's result."""
    run = "r-without-an-owner"  # no other test's processes bear its mark
    outcome = asyncio.run(
        launch.start(PLAN, {}, state_dir=tmp_path, park=True, turns=Asked(lambda: None), run_id=run, cwd=tmp_path)
    )
    assert outcome.reason == "waiting"

    said = send(tmp_path / "runs" / run, answer())
    assert (said.status, "coterie resume" in said.detail) == ("queued", True)
    outcome = asyncio.run(launch.resume(run, state_dir=tmp_path, turns=Asked(lambda: None)))
    assert outcome.status == "completed"
    assert results(tmp_path, run) == ["a#1", "boss#1"]


def test_an_answer_that_is_no_text_is_not_sent(tmp_path: Path) -> None:
    """Half a surrogate pair, as bytes of a command line become that are not UTF-8."""
    with pytest.raises(UsageError, match="not UTF-8"):
        send(tmp_path, RunMessage(id="m1", kind="answer", text="\udcff"))
    assert not list(tmp_path.iterdir())


def test_the_folder_of_sockets_and_the_inbox_belong_to_their_user(tmp_path: Path) -> None:
    """Nobody else may ring."""
    modes: list[int] = []

    def meanwhile(folder: Path) -> None:
        modes.append(Path(control(folder)["socket"]).parent.stat().st_mode & 0o777)
        send(folder, answer())

    asyncio.run(with_owner(tmp_path, meanwhile))
    assert modes == [0o700]
    assert [record.turn for record in JsonlStore(tmp_path).read("r") if isinstance(record, TurnStarted)]


@pytest.mark.parametrize("trap", ["link", "open"])
def test_a_folder_for_sockets_that_others_prepared_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    """A link to somewhere else, or a folder that everybody may write to: another place is taken."""
    prepared = tmp_path / f"coterie-{os.getuid()}"
    if trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        prepared.symlink_to("elsewhere")
    else:
        prepared.mkdir()
        prepared.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    sockets: list[str] = []

    def meanwhile(folder: Path) -> None:
        sockets.append(control(folder)["socket"])
        send(folder, answer())

    asyncio.run(with_owner(tmp_path / "state", meanwhile))
    assert not sockets[0].startswith(str(prepared))


def test_the_file_of_a_message_stays_until_its_record_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is not lost by a power cut; its sender waits as long."""
    held, released = asyncio.Event(), asyncio.Event()
    durable = JsonlWriter.durable

    async def slow(writer: JsonlWriter, seq: int) -> None:
        if (tmp_path / "runs/r/inbox/m1.json").exists():
            held.set()
            await released.wait()
        await durable(writer, seq)

    monkeypatch.setattr(JsonlWriter, "begin", lambda writer: False)
    monkeypatch.setattr(JsonlWriter, "durable", slow)

    async def main() -> Verdict:
        asked = asyncio.Event()
        owner = asyncio.create_task(
            launch.start(PLAN, {}, state_dir=tmp_path, park=False, turns=Asked(asked.set), run_id="r", cwd=tmp_path)
        )
        await asked.wait()
        sent = asyncio.create_task(asyncio.to_thread(send, tmp_path / "runs/r", answer()))
        await held.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        there = (tmp_path / "runs/r/inbox/m1.json").exists() and not sent.done()
        released.set()
        await owner
        assert there
        return await sent

    assert asyncio.run(main()).status == "accepted"
    assert not (tmp_path / "runs/r/inbox/m1.json").exists()


def test_messages_that_waited_count_in_the_order_they_came(tmp_path: Path) -> None:
    """Whatever their ids: the first answer is the one that counts."""
    cast, run = Asked(lambda: None), "r-with-three-answers"  # no other test's processes bear its mark
    asyncio.run(launch.start(PLAN, {}, state_dir=tmp_path, park=True, turns=cast, run_id=run, cwd=tmp_path))
    for second, name in enumerate(("z", "a", "m")):
        send(tmp_path / "runs" / run, RunMessage(id=name, kind="answer", turn="boss#1", text=name))
        os.utime(tmp_path / "runs" / run / "inbox" / f"{name}.json", (1000 + second, 1000 + second))

    assert asyncio.run(launch.resume(run, state_dir=tmp_path, turns=Asked(lambda: None))).status == "completed"
    finished = {one.turn: one for one in JsonlStore(tmp_path).read(run) if isinstance(one, TurnFinished)}
    assert finished["boss#1"].text == "z"


def test_a_question_at_the_terminal_is_taken_down_when_it_is_answered_elsewhere(tmp_path: Path) -> None:
    """At once: the run goes on, and another question may need the terminal."""
    plan = flow("a -> boss -> b", boss=AgentPlan(name="boss", kind="human", backend="human"))

    async def main() -> Outcome:
        asked, taken_down = asyncio.Event(), asyncio.Event()

        async def terminal(request: Request) -> str:
            asked.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                taken_down.set()
            raise AssertionError("nobody answers here")

        class Seated(Cast):
            async def start(self, request, on_event):  # type: ignore[no-untyped-def]
                if request.agent.kind == "human":
                    return await HumanBackend(terminal).start(request, on_event)
                if request.agent.name == "b":
                    await asyncio.wait_for(taken_down.wait(), 60)
                return await super().start(request, on_event)

        owner = asyncio.create_task(
            launch.start(plan, {}, state_dir=tmp_path, park=False, turns=Seated({}, 0), run_id="r", cwd=tmp_path)
        )
        await asked.wait()
        assert (await asyncio.to_thread(send, tmp_path / "runs/r", answer())).status == "accepted"
        return await owner

    assert asyncio.run(main()).status == "completed"


def test_an_operators_message_that_is_not_rung_for_waits_for_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This owner cannot tell which process left it, though it carries a signature."""
    looks, looked = 0, threading.Event()
    in_order = inbox.in_order

    def counted(folder: Path) -> list[Path]:
        nonlocal looks
        found = in_order(folder)
        looks += any(path.stem == "m1" for path in found)
        if looks > 3:
            looked.set()
        return found

    monkeypatch.setattr(inbox, "in_order", counted)
    monkeypatch.setattr(inbox, "LOOK_EVERY", 0.001)

    def meanwhile(folder: Path) -> None:
        left = RunMessage(id="m1", kind="answer", turn="boss#1", text="left there")
        signed = msgspec.structs.replace(left, token=Tokens.of(folder).operator(left.signed))
        delivery.put(str(folder), "m1", msgspec.to_builtins(signed))
        assert looked.wait(60)
        assert send(folder, answer("m2")).status == "accepted"

    assert asyncio.run(with_owner(tmp_path, meanwhile)).status == "completed"
    finished = {one.turn: one for one in JsonlStore(tmp_path).read("r") if isinstance(one, TurnFinished)}
    assert (finished["boss#1"].text, finished["boss#1"].message) == ("yes", "m2")


STOPPING = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import test_runs_inbox as tests
def meanwhile(folder):
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    assert tests.send(folder, tests.answer("m2")).status == "accepted"
print(asyncio.run(tests.with_owner(Path(sys.argv[1]), meanwhile)).status)
"""


@pytest.mark.slow
@pytest.mark.parametrize("reads", [False, True])
def test_an_operator_whose_message_a_stopped_owner_does_not_read_learns_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """Nothing is left of the message, and the owner does not take it when it goes on; unless it reads it already."""
    tests = Path(__file__).parent
    words = [sys.executable, "-c", STOPPING, str(tmp_path), str(tests), str(tests.parents[1] / "support")]
    monkeypatch.setattr(delivery.send, "__defaults__", (0.2, ""))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdin
        assert owner.stdout
        assert int(owner.stdout.readline()) == owner.pid
        os.kill(owner.pid, signal.SIGSTOP)
        until(lambda: is_stopped(owner.pid))
        folder = tmp_path / "runs" / "r"
        if reads:
            monkeypatch.setattr(delivery, "put", claimed_as_by_the_owner(delivery.put))
        verdict = send(folder, answer("m1"))
        left = [path.name for path in (folder / "inbox").glob("*.json")]
        os.kill(owner.pid, signal.SIGCONT)
        said, _ = owner.communicate("go\n", timeout=60)

    if reads:
        assert (verdict.status, left) == ("queued", ["m1.json"])
        return
    assert (verdict.status, left) == ("refused", [])
    assert f"the run's owner is stopped: continue it with `kill -CONT {owner.pid}`" in verdict.detail
    assert said == "completed\n"
    finished = {one.turn: one for one in JsonlStore(tmp_path).read("r") if isinstance(one, TurnFinished)}
    assert finished["boss#1"].message == "m2"
    assert not [one for one in JsonlStore(tmp_path).read("r") if isinstance(one, MessageRefused)]


def claimed_as_by_the_owner(put: Callable[..., str]) -> Callable[..., str]:
    """*put*, after which the message is claimed."""

    def both(*given: Any) -> str:
        path = put(*given)
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
        return path

    return both


def test_a_message_that_comes_while_its_owner_lets_go_is_taken_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is queued, as its sender hears, and stays in the inbox until then."""
    run = "r-that-is-let-go"  # no other test's processes bear its mark
    folder, load, durable = tmp_path / "runs" / run, inbox.load_message, JsonlWriter.durable
    came, sent, shells = asyncio.Event(), list[asyncio.Task[Verdict]](), list[Shell]()

    def loaded(path: Path) -> RunMessage | Verdict:
        came.set()
        return load(path)

    async def slow(writer: JsonlWriter, seq: int) -> None:
        if not sent and shells[0].runs[run].core.stopped:
            sent.append(asyncio.create_task(asyncio.to_thread(send, folder, answer())))
            await asyncio.wait_for(came.wait(), 60)
        await durable(writer, seq)

    async def main() -> tuple[Outcome, Verdict]:
        turns = Asked(lambda: None)
        where = {"state_dir": tmp_path, "run_id": run, "cwd": tmp_path}
        return await launch.start(PLAN, {}, turns=turns, attach=shells.append, **where), await sent[0]  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(inbox, "load_message", loaded)
        patch.setattr(JsonlWriter, "begin", lambda writer: False)
        patch.setattr(JsonlWriter, "durable", slow)
        stopped, said = asyncio.run(main())
    assert (stopped.reason, said.status) == ("waiting", "queued")
    assert [path.name for path in (folder / "inbox").iterdir()] == ["m1.json"]

    outcome = asyncio.run(launch.resume(run, state_dir=tmp_path, turns=Asked(lambda: None)))
    assert outcome.status == "completed"
    assert results(tmp_path, run) == ["a#1", "boss#1"]
    assert list((folder / "inbox").iterdir()) == []


def test_the_doorbells_of_killed_owners_are_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of living owners stay, are there only once they listen, and do not ring for that."""
    monkeypatch.setattr(doorbell, "SWEEP_EVERY", 0.0)
    rung: list[str] = []

    async def yes(message: str, pid: int) -> Verdict:
        rung.append(message)
        return Verdict(status="accepted")

    folders = [tmp_path / name for name in ("dead", "alive", "next")]
    dead, alive, mine = (socket_path(folder) for folder in folders)
    for folder in folders:
        folder.mkdir()
    links = [dead.with_name(f"{tmp_path.parent.name}-{name}") for name in ("here", "gone")]
    for link in links:
        link.symlink_to(tmp_path / ("dead" if link is links[0] else "removed"))
    unfinished, other = (dead.with_name(f"{tmp_path.parent.name}-{name}.new") for name in ("killed", "begins"))
    for path in (dead, unfinished):
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(path))
            killed.listen()

    async def main() -> None:
        bells = [Doorbell(folder, yes) for folder in folders[1:]]
        for bell in bells:
            await bell.open()
        assert [path.exists() for path in (dead, unfinished, alive, mine)] == [False, False, True, True]
        assert [link.is_symlink() for link in links] == [True, False]
        links[0].unlink()
        for path in (alive, mine):
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b"1\n")
            assert b"accepted" in await reader.readline()
            writer.close()
        for bell in bells:
            bell.close()
        assert not alive.exists()

    with socket.socket(socket.AF_UNIX) as beginning:
        beginning.bind(str(other))
        beginning.listen()
        asyncio.run(main())
        assert other.exists()
    other.unlink()
    assert rung == ["1", "1"]
    assert not any(path.with_suffix(".new").exists() for path in (dead, alive, mine))


def test_what_dead_owners_left_is_searched_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's start does not cost more beside many sockets; a clock that went back is no reason to wait."""
    monkeypatch.setattr(files, "runtime_folder", lambda: tmp_path)
    gone, swept = tmp_path / "gone", tmp_path / "swept"
    found = []

    async def opened() -> bool:
        gone.unlink(missing_ok=True)
        gone.symlink_to(tmp_path / "removed")
        bell = Doorbell(tmp_path / "run", nobody)
        await bell.open()
        bell.close()
        return gone.is_symlink()

    async def nobody(message: str, pid: int) -> Verdict:
        return Verdict(status="refused")

    (tmp_path / "run").mkdir()
    for age in (None, 0, 30, 61, -10):
        if age is not None:
            os.utime(swept, (time.time() - age,) * 2)
        found.append(asyncio.run(opened()))
    assert found == [False, True, True, False, False]


def test_only_messages_in_the_outbox_itself_are_collected(tmp_path: Path) -> None:
    """An outbox that is a link moves nothing into the run: not the user's settings, and no answer of another run."""
    run, attempt, elsewhere = tmp_path / "run", tmp_path / "run" / "turns" / "a#1.1", tmp_path / "elsewhere"
    for folder in (run / "inbox", attempt / "own", elsewhere):
        folder.mkdir(parents=True)
    (elsewhere / "settings.json").write_text("{}")
    (attempt / "own" / "outbox").symlink_to(elsewhere)
    collect(attempt, run)
    assert [path.name for path in elsewhere.iterdir()] == ["settings.json"]

    (attempt / "own" / "outbox").unlink()
    outbox = attempt / "own" / "outbox"
    outbox.mkdir()
    (outbox / "good.json").write_text("{}")
    (outbox / "link.json").symlink_to(elsewhere / "settings.json")
    (outbox / "folder.json").mkdir()
    os.link(elsewhere / "settings.json", outbox / "linked.json")
    (run / "inbox" / "known.json").write_text("first")
    (outbox / "known.json").write_text("second")
    collect(attempt, run)
    collect(None, run)
    assert sorted(path.name for path in (run / "inbox").iterdir()) == ["good.json", "known.json"]
    assert (run / "inbox" / "known.json").read_text() == "first"
    assert (elsewhere / "settings.json").exists()

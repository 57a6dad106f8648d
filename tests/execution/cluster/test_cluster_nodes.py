"""What a node keeps for the attempts of a run that it performs at once: the files, and how they are heard."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from asking import agent, request
from bundles import bundle
from repositories import git, put, repository
from sealing import raw
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.common import RawValue
from temporalio.service import RPCError, RPCStatusCode

from coterie.base.ids import folder_name
from coterie.errors import ClusterFailed, UsageError
from coterie.execution.cluster.cleanup import remove_ended
from coterie.execution.cluster.files import Head, RunFiles, files_after, merged, pack
from coterie.execution.cluster.keys import KeyRing
from coterie.execution.cluster.relay import Outbox, Relay
from coterie.execution.cluster.seals import seal
from coterie.execution.cluster.serve import claim_home
from coterie.execution.cluster.turn_files import WorkTrees
from coterie.execution.runs.messages import RunMessage, Verdict, guidance
from coterie.execution.runs.messages.doorbell import Doorbell
from coterie.execution.runs.messages.tokens import Tokens
from coterie.history.journal.export import FolderExport
from coterie.history.journal.lock import is_held
from coterie.history.journal.records import TreeSaved


def test_attempts_at_once_have_the_files_of_a_run_that_is_new_here(tmp_path: Path) -> None:
    """Also where a node was killed while it made their repository."""
    (submitted := tmp_path / "submitted").mkdir()
    (submitted / "file").write_text("here")
    (tmp_path / "home" / folder_name("r") / "files.git").mkdir(parents=True)

    async def main() -> list[str]:
        export = FolderExport(tmp_path / "export")
        (place, _), trees = await pack(submitted, export), WorkTrees(tmp_path / "home", export)

        async def read(name: str) -> str:
            async with trees.of("r", name, place) as at:
                return (at.cwd / "file").read_text()

        return await asyncio.gather(*(read(f"r/{name}#1.1") for name in "abc"))

    assert asyncio.run(main()) == ["here"] * 3


def test_a_run_that_was_submitted_below_the_top_of_its_repository_works_there(tmp_path: Path) -> None:
    """All of the repository comes along."""
    put(repository(tmp_path / "r"), "src/app/main.py", "app")

    async def main() -> tuple[str, list[str]]:
        export = FolderExport(tmp_path / "export")
        place, _ = await pack(tmp_path / "r" / "src" / "app", export)
        async with WorkTrees(tmp_path / "home", export).of("r", "a#1.1", place) as at:
            return place.cwd, sorted(path.name for path in at.cwd.iterdir())

    assert asyncio.run(main()) == ("src/app", ["main.py"])


def test_the_files_at_a_record_are_those_of_the_turns_before_it(tmp_path: Path) -> None:
    """Turns side by side included; what a later turn left is in none of them."""
    put(tmp_path / "at", "file", "begun")

    async def main() -> list[set[str]]:
        export = FolderExport(tmp_path / "export")
        begun, _ = await pack(tmp_path / "at", export)
        trees, place, saved = WorkTrees(tmp_path / "home", export), begun, list[TreeSaved]()

        async def work(name: str, given: RunFiles) -> Head:
            async with trees.of("r", f"r/{name}", given) as at:
                put(at.cwd, name, "here")
                return (await at.end(name, 1)).head

        for n, names in enumerate((("a",), ("b", "c"), ("d",))):
            given = place
            for name in names:
                head, after = await work(name, given), tuple(one.commit for one in given.heads)
                place = merged(place, given, head)
                saved.append(
                    TreeSaved(
                        seq=len(saved) + 1,
                        at=n,
                        turn=name,
                        attempt=1,
                        commit=head.commit,
                        bundles=head.bundles,
                        after=after,
                    )
                )
        found = []
        for end in range(len(saved) + 1):
            async with trees.of("r", f"r/look{end}", files_after(place, saved[:end][::-1])) as at:
                found.append({one.name for one in at.cwd.iterdir()} - {".git", "file"})
        assert files_after(place, saved) == place
        return found

    assert asyncio.run(main()) == [set(), {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}]


def test_nodes_in_one_folder_keep_their_files_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is given belongs to one node; what a node leaves, the next one takes."""
    monkeypatch.chdir(tmp_path)
    first, second, given = claim_home(None), claim_home(None), claim_home(Path("mine"))
    assert [home for home, _ in (first, second, given)] == [
        *(tmp_path / ".coterie" / name for name in ("node", "node-2")),
        tmp_path / "mine",
    ]
    with pytest.raises(UsageError, match=r"another node keeps its files in mine: .* --home DIR"):
        claim_home(Path("mine"))
    first[1].release()
    assert claim_home(None)[0] == first[0]
    (tmp_path / "file").touch()
    with pytest.raises(ClusterFailed, match="file"):
        claim_home(Path("file"))


class Describes:
    """A client of a server that knows when runs ended; None: it has not."""

    def __init__(self, ended: dict[str, float | None]) -> None:
        self._ended = ended

    def get_workflow_handle(self, run: str) -> Any:
        async def describe() -> Any:
            if run not in self._ended:
                raise RPCError("unknown", RPCStatusCode.NOT_FOUND, b"")
            at = self._ended[run]
            if at is None:
                return SimpleNamespace(status=WorkflowExecutionStatus.RUNNING, close_time=None)
            closed = datetime.fromtimestamp(at, UTC)
            return SimpleNamespace(status=WorkflowExecutionStatus.TERMINATED, close_time=closed)

        return SimpleNamespace(describe=describe)


def test_files_of_ended_runs_are_removed_after_a_time(tmp_path: Path) -> None:
    """Of a run that the server has forgotten, when nothing has changed for that long; a run's secret stays."""
    now = time.time()
    client: Any = Describes({"goes on": None, "old": now - 100, "just ended": now - 10})
    for run in ("goes on", "old", "just ended", "unknown", "long unknown"):
        name = folder_name(run)
        for path in (f"files/{name}/trees/dead/file", f"read/{name}/file", f"runs/{name}/turns/a/file"):
            put(tmp_path, path, "here")
        put(tmp_path, f"runs/{name}/secret", "kept")
        for folder in ("files/{}", "read/{}", "runs/{}/turns"):
            at = now - (100 if run == "long unknown" else 0)
            os.utime(tmp_path / folder.format(name), (at, at))

    os.utime(tmp_path / "files" / folder_name("unknown"), (now - 100,) * 2)  # one of its folders has changed since
    put(tmp_path, "runs/old/turns.removed/file", "left by a kill")
    assert asyncio.run(remove_ended(client, tmp_path, 50)) == ["long unknown", "old"]

    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {one.split("/")[1] for one in left if "/secret" not in one} == {"goes on", "just ended", "unknown"}
    assert len([one for one in left if one.endswith("/secret")]) == 5
    assert asyncio.run(remove_ended(client, tmp_path, 50)) == []


SECRETS = ("deploy/.env", "certs/a.pem", "certs/b.PEM")


def sent(folder: Path, home: Path, *include: str) -> tuple[list[str], set[str]]:
    """Which files of *folder* are named as left out, and which a turn finds."""

    async def main() -> tuple[list[str], set[str]]:
        export = FolderExport(home / "export")
        place, left_out = await pack(folder, export, [folder / one for one in include])
        async with WorkTrees(home / "home", export).of("r", "r/a#1.1", place) as at:
            there = {str(one.relative_to(at.root)) for one in at.root.rglob("*") if one.is_file()}
            return sorted(left_out), there - {".git"}

    return asyncio.run(main())


@bundle(
    ("include", "left_out"),
    [
        ((), {*SECRETS}),
        (("certs",), {"deploy/.env"}),
        (("certs/a.pem", "deploy/.env"), {"certs/b.PEM"}),
        ((".",), set()),
    ],
)
def test_what_looks_secret_is_not_sent(include: tuple[str, ...], left_out: set[str], tmp_path: Path) -> None:
    """But if it is included; what Coterie keeps there is neither sent nor named."""
    for name in ("app.py", "deploy/.env.example", ".coterie/x.key", *SECRETS):
        put(tmp_path / "at", name, "hush")

    named, there = sent(tmp_path / "at", tmp_path, *include)

    assert named == sorted(left_out)
    assert there == {"app.py", "deploy/.env.example", *SECRETS} - left_out


def test_of_a_repository_what_looks_secret_is_sent_if_git_knows_it(tmp_path: Path) -> None:
    """In a commit or staged; seen from a folder in it, whose neighbours are left out too."""
    top = repository(tmp_path / "at", known__key="hush", __gitignore="ignored.key\n")
    for name in ("staged.key", "ignored.key", "sub/app.py", *SECRETS):
        put(top, name, "hush")
    git(top, "add", "staged.key")

    named, there = sent(top / "sub", tmp_path, "../certs")

    assert named == ["../deploy/.env"]
    assert there == {".gitignore", "a.txt", "known.key", "staged.key", "sub/app.py", "certs/a.pem", "certs/b.PEM"}


@contextlib.asynccontextmanager
async def emitting(client: Any, folder: Path) -> AsyncIterator[Outbox]:
    """The messages of an attempt whose agent has emitted."""
    asked = request(agent("a"), folder=folder / "a", root=folder)
    ref = asked.ref
    token = Tokens.of(folder).attempt(ref.run, ref.turn, ref.attempt, ref.epoch)
    emit = RunMessage(id="e", kind="emit", turn=ref.turn, attempt=1, epoch=ref.epoch, token=token, event="done")
    async with Relay(client, KeyRing.of_user()).of(asked) as outbox:
        put(folder, "inbox/e.json", msgspec.json.encode(emit).decode())
        yield outbox


def test_what_an_agent_emitted_arrives_before_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may be away when the attempt ends: its node tries again until there is a verdict."""
    monkeypatch.setattr("coterie.execution.cluster.relay.COLLECT_EVERY", 0.0)
    away = RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    answers = [away, Verdict(status="queued", detail="it is handed over"), away, Verdict(status="accepted")]

    async def update(*given: object, **how: object) -> RawValue:
        if isinstance(found := answers.pop(0), Exception):
            raise found
        return raw(seal(found, KeyRing.of_user(), "verdict", request(agent("a")).run, "e"))

    client: Any = SimpleNamespace(get_workflow_handle=lambda run: SimpleNamespace(execute_update=update))

    async def main() -> None:
        async with emitting(client, tmp_path) as outbox:
            await outbox.deliver()
            assert not outbox.waits()

    asyncio.run(main())
    assert answers == []
    assert list((tmp_path / "inbox").iterdir()) == []


@pytest.mark.parametrize("source", ["operator", "forged", "unsigned"])
def test_only_agents_speak_to_their_run_through_a_node(tmp_path: Path, source: str) -> None:
    """An operator is told how to reach it; neither that nor what nobody proves reaches the server, or waits."""
    nobody: Any = None
    relay, asked = Relay(nobody, KeyRing.of_user()), request(agent("a"), folder=tmp_path / "a", root=tmp_path)

    async def main() -> Verdict:
        async with relay.of(asked):
            said, tokens = guidance("be brief"), Tokens.of(tmp_path)
            if source == "operator":
                said = msgspec.structs.replace(said, token=tokens.operator(said.signed))
            if source == "forged":
                said = RunMessage(id=said.id, kind="emit", turn=asked.turn, attempt=1, token="x", event="done")
            put(tmp_path, f"inbox/{said.id}.json", msgspec.json.encode(said).decode())
            [post] = relay._open.values()
            verdict = await post._judge(said.id, 0)
            assert not (tmp_path / "inbox" / f"{said.id}.json").exists()
            return verdict

    verdict = asyncio.run(main())
    why = {"operator": "an operator speaks to the run on the cluster", "forged": "the token of"}
    assert (verdict.status, why.get(source, "neither") in verdict.detail) == ("refused", True), verdict


def test_an_attempt_that_is_cancelled_waits_for_no_verdict(tmp_path: Path) -> None:
    """The client of the server answers a cancellation with an error of its own, as if it were away."""
    asked = asyncio.Event()

    async def update(*given: object, **how: object) -> Verdict:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise WorkflowUpdateRPCTimeoutOrCancelledError from None
        raise AssertionError

    client: Any = SimpleNamespace(get_workflow_handle=lambda run: SimpleNamespace(execute_update=update))

    async def main() -> None:
        async with emitting(client, tmp_path) as outbox:
            delivering = asyncio.create_task(outbox.deliver())
            await asked.wait()
            delivering.cancel()
            await asyncio.wait([delivering])
            assert delivering.cancelled()
            assert outbox.waits()

    asyncio.run(main())


def test_an_attempt_that_ends_does_not_close_what_another_one_is_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock by which agents tell that somebody hears them is held until the last of them has ended."""
    may_open = asyncio.Event()

    async def slowly(bell: Doorbell) -> None:
        await may_open.wait()

    monkeypatch.setattr(Doorbell, "open", slowly)
    nobody: Any = None
    relay = Relay(nobody, nobody)

    async def main() -> None:
        async with AsyncExitStack() as stack:

            async def begin_and_end() -> None:
                async with relay.of(request(agent("b"), folder=tmp_path / "b", root=tmp_path)):
                    pass

            first = relay.of(request(agent("a"), folder=tmp_path / "a", root=tmp_path))
            beginning = asyncio.create_task(stack.enter_async_context(first))
            other = asyncio.create_task(begin_and_end())
            await asyncio.wait({other}, timeout=0.1)
            may_open.set()
            await asyncio.gather(beginning, other)
            assert is_held(tmp_path / "lock")
        assert not is_held(tmp_path / "lock")

    asyncio.run(main())

"""A tree on a node is prepared as on one machine, by `worktree.copy` and `worktree.setup`."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from asking import agent, request
from cluster_stage import Server, coterie, serving
from loop_projects import project
from repositories import commit, git, put, repository

from coterie.agents.workspace.trees.preparation import copy_files
from coterie.errors import UsageError
from coterie.execution.cluster import preparation
from coterie.execution.cluster.files import RunFiles, merged, pack
from coterie.execution.cluster.preparation import pack_copies, unpack
from coterie.execution.cluster.turn_files import LeftFiles, TurnFiles, WorkTrees
from coterie.history.journal.export import FolderExport
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import AttemptFailed, EventEmitted, GateChecked, RunFinished, TurnFinished
from coterie.team.planning.plan import TreePlan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with ignored files."""
    folder = repository(tmp_path / "r", __gitignore=".env\ndeps/\nconfig/*.local\nbuilt\n", b__txt="b\n")
    put(folder, ".env", "KEY=1")
    put(folder, "deps/bin/tool", "#!/bin/sh\n")
    (folder / "deps/bin/tool").chmod(0o755)
    (folder / "deps/tool").symlink_to("bin/tool")
    (folder / "deps/empty").mkdir()
    put(folder, "deps/server.pem", "a key")
    put(folder, "config/a.local", "local")
    return folder


def packed(folder: Path, *patterns: str, include: tuple[str, ...] = ()) -> tuple[bytes, list[str]]:
    return pack_copies(
        folder, TreePlan(copy=patterns), ("a.txt", "b.txt", "src/a.txt"), [folder / name for name in include]
    )


def names(top: Path) -> list[str]:
    return sorted(str(path.relative_to(top)) for path in top.rglob("*"))


def test_an_archive_has_files_as_they_are_and_no_secret_that_nobody_named(folder: Path, tmp_path: Path) -> None:
    """Modes, links and empty folders too; what travels with the run's files is left out, and so is the state."""
    put(folder, "src/a.txt", "tracked")
    put(folder, ".coterie/runs/x", "state")
    data, left_out = packed(folder, ".env", "de*", "config/*.local", "*.txt", "src", ".coterie", "missing")
    unpack(data, tmp_path / "out")

    assert left_out == [".env", "deps/server.pem"]
    assert names(tmp_path / "out") == [
        *("config", "config/a.local", "deps", "deps/bin", "deps/bin/tool", "deps/empty", "deps/tool")
    ]
    assert os.access(tmp_path / "out/deps/bin/tool", os.X_OK)
    assert (tmp_path / "out/deps/tool").readlink() == Path("bin/tool")
    assert packed(folder, ".env", "de*", "config/*.local", "*.txt", "src", ".coterie") == (data, left_out)

    data, left_out = packed(folder, ".env", "deps", include=(".env", "deps"))
    unpack(data, tmp_path / "all")
    assert left_out == []
    assert (tmp_path / "all/.env").read_text() == "KEY=1"
    assert (tmp_path / "all/deps/server.pem").read_text() == "a key"
    assert packed(folder, ".env") == (b"", [".env"])


def test_installed_dependencies_contain_no_secrets_of_the_user(folder: Path, tmp_path: Path) -> None:
    """Test certificates of a library travel with it, as the sandbox also lets them be read."""
    put(folder, "node_modules/lib/test/key.pem", "a key of a test")
    data, left_out = packed(folder, "node_modules")
    unpack(data, tmp_path / "out")
    assert (left_out, names(tmp_path / "out")[-1]) == ([], "node_modules/lib/test/key.pem")


@pytest.mark.parametrize(("pattern", "said"), [("../x", "leads out of"), ("/etc/hosts", "leads out of")])
def test_a_pattern_that_leads_out_is_refused(folder: Path, pattern: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        packed(folder, pattern)


def test_more_than_can_travel_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file, and what to do."""
    monkeypatch.setattr(preparation, "LARGEST", 64 << 10)
    for n in range(40):
        (folder / f"deps/{n}").write_bytes(os.urandom(10_000))
    with pytest.raises(UsageError, match=r"from 'deps/.* let worktree\.setup make them on the nodes"):
        packed(folder, "deps")


def test_nothing_is_copied_through_a_link_in_the_tree(folder: Path, tmp_path: Path) -> None:
    """An agent may have made it in an earlier turn."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tree/config").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="leads out of the tree"):
        copy_files(folder, tmp_path / "tree", ("config/*.local",))
    assert names(tmp_path / "elsewhere") == []


class PreparedNode:
    """A node, and a run submitted from *folder* whose trees are prepared."""

    def __init__(self, folder: Path, top: Path, *patterns: str) -> None:
        self.export = FolderExport(top / "export")
        self.trees = WorkTrees(top / "home", self.export)
        wanted = TreePlan(copy=patterns)
        self.place: RunFiles = asyncio.run(pack(folder, self.export, [folder / ".env"], wanted))[0]

    async def turn(self, number: int, act: Any) -> LeftFiles:
        asked = request(agent("a"), run="r", turn=f"a#{number}")
        async with self.trees.of("r", asked.ref.marker, self.place, asked) as at:
            await at.prepared()
            await act(at)
            left = await at.end(asked.turn, 1)
        assert left.head is not None
        self.place = merged(self.place, self.place, left.head)
        return left


def test_the_tree_of_each_turn_gets_the_ignored_files_and_they_do_not_come_back(folder: Path, tmp_path: Path) -> None:
    """What an agent does to them stays in its turn; ignored files that it wrote are named."""
    node = PreparedNode(folder, tmp_path, ".env", "deps", "b.txt")
    seen = list[str]()

    async def act(at: TurnFiles) -> None:
        seen.append((at.root / ".env").read_text() + (at.root / "deps/bin/tool").read_text())
        put(at.root, ".env", "changed")
        put(at.root, "built", "12345")
        put(at.root, "work.txt", "work")

    left = [asyncio.run(node.turn(n, act)) for n in (1, 2)]
    assert seen == ["KEY=1#!/bin/sh\n"] * 2
    [note] = left[0].attested.notes if left[0].attested else ()
    assert note == "ignored files do not travel, and are removed with the tree of the turn: built (5 bytes)"
    assert left[0].head is not None
    listed = git(tmp_path / "home/r/files.git", "ls-tree", "-r", "--name-only", left[0].head.commit).split()
    assert listed == [".gitignore", "a.txt", "b.txt", "work.txt"]
    assert not (tmp_path / "home/r/trees/r%2Fa#1.1").exists()


def test_a_repository_among_the_ignored_files_stays_on_the_node(folder: Path, tmp_path: Path) -> None:
    """Nothing of it is removed with the tree of the turn, and the attempt counts."""
    node = PreparedNode(folder, tmp_path)

    async def act(at: TurnFiles) -> None:
        repository(at.root / "deps/clone", deep__txt="deep\n")

    left = asyncio.run(node.turn(1, act))
    assert left.attested is not None
    assert (left.attested.problem, left.attested.voids) == ("", False)
    [note] = left.attested.notes
    assert note.startswith("deps/clone: repositories, which stay in ")
    assert (tmp_path / "home/r/trees/r%2Fa#1.1/tree/deps/clone/deep.txt").read_text() == "deep\n"


def test_a_repository_that_was_copied_keeps_no_tree(folder: Path, tmp_path: Path) -> None:
    """The user has it."""
    repository(folder / "deps/clone", deep__txt="deep\n")
    node = PreparedNode(folder, tmp_path, "deps")

    async def act(at: TurnFiles) -> None:
        assert (at.root / "deps/clone/deep.txt").read_text() == "deep\n"

    left = asyncio.run(node.turn(1, act))
    assert left.attested is not None
    assert left.attested.notes == ()
    assert not (tmp_path / "home/r/trees/r%2Fa#1.1").exists()


def test_a_gate_works_in_the_tree_of_the_attempt_that_waits_for_it(folder: Path, tmp_path: Path) -> None:
    """The tree is there until both are done; a gate after the attempt gets one of its own."""
    node = PreparedNode(folder, tmp_path)
    gate = request(agent("a", kind="gate"), run="r", turn="a#1", clean=True)

    async def main() -> None:
        roots = list[Path]()
        during = node.trees.of("r", gate.marker, node.place, gate)

        async def act(at: TurnFiles) -> None:
            put(at.root, "built", "before")
            other = await during.__aenter__()
            assert (other.root, other.is_prepared) == (at.root, True)
            roots.append(at.root)

        await node.turn(1, act)
        assert (roots[0] / "built").read_text() == "before"
        await during.__aexit__(None, None, None)
        assert not roots[0].exists()
        async with node.trees.of("r", gate.marker, node.place, gate) as at:
            assert at.root != roots[0]
            assert not (at.root / "built").exists()

    asyncio.run(main())


# -- on a server ------------------------------------------------------------------------------------------------------

WORKS = """
pathlib.Path("work.txt").write_text(pathlib.Path(".env").read_text() + pathlib.Path("built").read_text())
subprocess.run([emit, "emit", "done"], check=True)
print(pathlib.Path.cwd())
"""
GATE = ["sh", "-c", "cat work.txt built; pwd"]


@pytest.mark.slow
def test_a_loop_on_a_node_is_prepared_and_its_gate_sees_what_the_agent_did(
    temporal_server: Server, folder: Path, tmp_path: Path
) -> None:
    """The gate runs where the agent works; a setup that fails fails the attempt, and is tried again."""
    setup = [["sh", "-c", f"test -e {tmp_path}/ready || {{ echo no >&2; exit 3; }}; echo made > built"]]
    copies = f"worktree.copy = ['.env', 'deps']\nworktree.setup = {json.dumps(setup)}\n"
    project(folder / "loop", WORKS, f"{copies}event_loop.gates = {json.dumps([GATE])}\n")
    commit(folder, "the loop")
    cluster = f"{temporal_server.url}?export={tmp_path / 'export'}"
    words = ("submit", "loop", "go", "--id", "prepared-1", "--include", ".env", "--wait")
    with serving(tmp_path, cluster):
        failed = coterie(*words, cwd=folder, cluster=cluster)
        assert failed.returncode == 1, failed.stdout + failed.stderr
        assert "deps/server.pem" in failed.stderr
        (tmp_path / "ready").touch()
        coterie("resume", "prepared-1", "--retry", cwd=folder, cluster=cluster)
        done = coterie(*words, cwd=folder, cluster=cluster)
    assert done.returncode == 0, done.stdout + done.stderr
    records = list(JsonlStore(tmp_path / "export").read("prepared-1"))
    reasons = {one.reason for one in records if isinstance(one, AttemptFailed)}
    assert any(reason.startswith("worktree.setup: ") and "status 3" in reason for reason in reasons), reasons
    assert [one.event for one in records if isinstance(one, EventEmitted)] == ["done"]
    [checked] = [one for one in records if isinstance(one, GateChecked)]
    [turn] = [one for one in records if isinstance(one, TurnFinished)]
    where = turn.text.splitlines()[-1]
    assert (checked.passed, checked.output) == (True, f"KEY=1made\nmade\n{where}")
    assert isinstance(records[-1], RunFinished)

"""What must have reached the disk before the next step: each sync, by the file it is for and what was there by then."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.execution.runs.fork import PARTS, fork
from coterie.history.journal.jsonl import JOURNAL, JsonlStore
from coterie.history.journal.records import RunOwned, RunStarted

Sync = tuple[str, str, frozenset[str]]
"""The kind of a sync, the path it was for, and the files below the state directory at that time."""


@pytest.fixture
def syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sync]:
    """Every sync from now on, in order."""
    seen: list[Sync] = []

    if not hasattr(os, "fdatasync"):
        pytest.skip("macOS has no fdatasync")

    def watch(kind: str) -> Callable[[int], None]:
        real = getattr(os, kind)

        def sync(fd: int) -> None:
            files = frozenset(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
            path = os.readlink(f"/proc/self/fd/{fd}").removeprefix(str(tmp_path)).lstrip("/")
            seen.append((kind, path, files))
            real(fd)

        return sync

    for kind in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, kind, watch(kind))
    return seen


def begun(tmp_path: Path) -> JsonlStore:
    store = JsonlStore(tmp_path)
    writer = store.claim("r")
    writer.append([RunStarted(seq=1, run="r", engine="flow"), RunOwned(seq=2, epoch=1)])
    writer.give_up()
    return store


def test_a_claim_syncs_what_an_earlier_owner_may_have_only_written(tmp_path: Path, syncs: list[Sync]) -> None:
    """That owner may have been killed between its write and its sync, and readers have seen the record."""
    store = begun(tmp_path)
    syncs.clear()

    writer = store.claim("r")

    assert [(kind, path) for kind, path, _ in syncs] == [("fdatasync", f"runs/r/{JOURNAL}")]
    writer.give_up()


def test_a_torn_end_is_safe_before_it_is_cut_off(tmp_path: Path, syncs: list[Sync]) -> None:
    """First the copy, then its name in the folder, and only then the shorter journal."""
    store = begun(tmp_path)
    with (tmp_path / "runs/r" / JOURNAL).open("ab") as file:
        file.write(b'{"torn')
    syncs.clear()

    writer = store.claim("r")

    assert [(kind, path) for kind, path, _ in syncs] == [
        ("fsync", "runs/r/journal.torn-1"),
        ("fsync", "runs/r"),
        ("fsync", f"runs/r/{JOURNAL}"),
        ("fdatasync", f"runs/r/{JOURNAL}"),
    ]
    writer.give_up()


def test_a_fork_shares_only_what_is_durable_and_its_own_name_is(
    tmp_path: Path, syncs: list[Sync], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal it copies from is synced before the copy; its folder's name once it has been renamed into place."""
    from coterie.team.planning.plan import AgentPlan, FlowPlan, Plan, to_json

    plan = Plan(name="p", agents={"a": AgentPlan(name="a")}, coordination=FlowPlan(mentions=("a",), groups=()))
    store = JsonlStore(tmp_path)
    writer = store.claim("r")
    first = RunStarted(seq=1, run="r", engine="flow", plan=to_json(plan).decode())
    writer.append([first, RunOwned(seq=2, epoch=1)])
    writer.give_up()
    syncs.clear()

    fork("r", state_dir=tmp_path, run_id="copy")

    kind, path, files = syncs[0]
    assert (kind, path) == ("fsync", f"runs/r/{JOURNAL}")
    assert not any(PARTS in one for one in files), "nothing of the fork may be there yet"
    kind, path, files = syncs[-1]
    assert (kind, path) == ("fsync", "runs")
    assert f"runs/copy/{JOURNAL}" in files
    copied = [path for kind, path, _ in syncs if kind == "fdatasync"]
    assert f"{PARTS}/copy/runs/copy/{JOURNAL}" in copied

"""What killed processes have left of an ended run is removed by whoever meets the run next."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking_models import MODELS
from fake_models import FakeModels, Say

import coterie
from coterie.agents.backends.models.steps import STEPS
from coterie.base import agent_writes
from coterie.errors import RunIsFinished
from coterie.execution.runs import launch, removal
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.removal import prune
from coterie.execution.runs.repository import Runs
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.journal.records import RunStarted

PAID: list[int] = []
API = "anthropic"
HEAD = f"""topology t : [pipeline] {{
  extensions {{ coterie {{ backend: model  provider: {API}  }} }}
"""
CLERK = f"""
  agent NAME {{
    model: "{MODELS[API]}"  prompt: "Pay."  OUTPUTS
    extensions {{ coterie {{ MORE tools: ["{__name__}:pay"] }} }}
  }}
"""
PAY, DONE = Say(calls=[("pay", {"euros": 1})]), Say("Done.")


def pay(euros: int) -> str:
    """Pay."""
    PAID.append(euros)
    return f"paid {euros}"


def clerk(name: str, outputs: str = "", more: str = "") -> str:
    return CLERK.replace("NAME", name).replace("OUTPUTS", outputs).replace("MORE", more)


ONE = f"{HEAD}{clerk('a')} flow {{ a }}\n}}\n"
FAILS = f"{HEAD}{clerk('a')}{clerk('b', more='options { max-turns: 1 } ')} flow {{ a -> b }}\n}}\n"


@pytest.fixture(autouse=True)
def fresh() -> None:
    PAID.clear()


def run(text: str | Path, models: FakeModels, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in models.environment.items():
        monkeypatch.setenv(name, value)
    return asyncio.run(coterie.run(text, "go", state_dir=folder, id="mine"))


def killed_before_its_files_were_removed(
    text: str, models: FakeModels, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    with monkeypatch.context() as dead:
        dead.setattr(AttemptFolders, "forget", lambda *given: None)
        dead.setattr(launch, "clear_ended", lambda *given: None)
        return run(text, models, folder, monkeypatch)


def by_resume(text: str, folder: Path) -> None:
    with pytest.raises(RunIsFinished):
        asyncio.run(coterie.resume("mine", state_dir=folder))


def by_prune(text: str, folder: Path) -> None:
    assert list(prune(folder, time.time() - 3600)) == []


def by_its_id(text: str, folder: Path) -> None:
    asyncio.run(coterie.run(text, "go", state_dir=folder, id="mine"))


def conversations(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.rglob(STEPS))


OPENERS = pytest.mark.parametrize("opened", [by_resume, by_prune, by_its_id])


@OPENERS
def test_a_conversation_does_not_outlive_its_run(
    opened: Callable[[str, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the process was killed after the run's end was durable, and before its last turn was forgotten."""
    with FakeModels(PAY, DONE) as models:
        ended = killed_before_its_files_were_removed(ONE, models, tmp_path, monkeypatch)
        assert (ended.status, conversations(tmp_path)) == ("completed", ["a#1.1"])
        opened(ONE, tmp_path)

    assert conversations(tmp_path) == []


@OPENERS
def test_of_a_failed_run_only_what_a_retry_continues_stays(
    opened: Callable[[str, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation of the turn that failed; it goes on where it was."""
    with FakeModels(PAY, DONE, PAY, DONE) as models:
        ended = killed_before_its_files_were_removed(FAILS, models, tmp_path, monkeypatch)
        assert (ended.status, conversations(tmp_path)) == ("failed", ["a#1.1", "b#1.1"])
        opened(FAILS, tmp_path)
        assert conversations(tmp_path) == ["b#1.1"]
        again = asyncio.run(coterie.resume("mine", retry=True, state_dir=tmp_path))

    assert (again.status, PAID, len(models.requests)) == ("completed", [1, 1], 4)
    assert conversations(tmp_path) == []


def test_a_completed_run_keeps_no_conversation_of_a_failed_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the run went on, a retry could have continued it."""
    (tmp_path / "inner.at").write_text(FAILS)
    team = 'agent team { on-fail: skip  extensions { coterie { topology: "inner.at" } } }'
    with FakeModels(PAY, DONE, PAY) as models:
        (tmp_path / "outer.at").write_text(f"topology u : [pipeline] {{\n{team}\nflow {{ team }}\n}}\n")
        ended = run(tmp_path / "outer.at", models, tmp_path, monkeypatch)

    assert (ended.status, PAID) == ("completed", [1, 1])
    assert conversations(tmp_path) == []


@pytest.mark.parametrize("is_alive", [False, True])
def test_a_killed_attempt_of_a_removed_run_writes_no_more(
    is_alive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user changes later is the user's, unless a process of the attempt is still there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(removal, "attempts_live", lambda runs, run: is_alive)
    (project := tmp_path / "project").mkdir()
    store = JsonlStore(project / ".coterie")
    owner = store.claim("r")
    owner.append([RunStarted(seq=1, run="r", engine="flow")])
    owner.flush()
    owner.give_up()
    attempt = store.folder("r") / "turns/a#1.1"
    with monkeypatch.context() as patch, agent_writes.noted(attempt, [project], {}):
        patch.setattr(agent_writes, "_note", lambda one: None)  # its owner is killed
    assert agent_writes.is_open(attempt)

    removal.remove(Runs(project / ".coterie"), "r")
    (later := project / "later").write_text("x")

    assert agent_writes.writer_of(later) == (str(attempt) if is_alive else "")

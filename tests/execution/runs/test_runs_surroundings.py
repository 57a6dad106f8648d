"""What surrounds a run, beside which a turn costs the same: files of the folder, names in the home, other processes."""

import asyncio
from pathlib import Path

import flow_agents
import pytest
from audited import audited, listings

import coterie
from coterie.agents.actors.turns import ActorBackend
from coterie.agents.backends.base import OnEvent, Request, Session
from coterie.agents.backends.sandbox import choice
from coterie.base import agent_writes
from coterie.execution.runs import tool_files
from coterie.team.planning.plan import Plan
from coterie.team.planning.team_files import team_files


def chain(turns: int, *options: str, command: str = "true") -> str:
    """A team whose *turns* follow each other."""
    lines = "\n".join([*options, f'command: ["sh", "-c", "{command}"]'])
    agents = "\n".join(f"agent a{n} {{ extensions {{ coterie {{\n{lines}\n}} }} }}" for n in range(turns))
    flow = " -> ".join(f"a{n}" for n in range(turns))
    return f"topology t : [pipeline] {{\n{agents}\nflow {{ {flow} }}\n}}\n"


def run(path: Path, text: str) -> list[tuple[str, str]]:
    """The calls of a run of the team *text*, which is written to *path*."""
    path.write_text(text)
    with audited() as calls:
        outcome = asyncio.run(coterie.run(path, "go"))
    assert outcome.status == "completed"
    return calls


def test_a_turn_does_not_list_the_folder_of_its_team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an attempt that keeps its process or tools from the team's files needs their names."""
    monkeypatch.chdir(tmp_path)
    one, five = (listings(run(tmp_path / "t.at", chain(turns)), tmp_path) for turns in (1, 5))
    assert five == one


def test_a_confined_turn_cannot_change_the_file_of_its_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor the files of the teams beside it, which it may use."""
    if choice.working() is None:
        pytest.skip(f"no sandbox works here: {choice.absence()}")
    monkeypatch.chdir(tmp_path)
    text = chain(2, "sandbox: required", command="echo evil >> t.at; echo evil > other.pattern.yaml; echo x > new.txt")
    (tmp_path / "other.pattern.yaml").write_text("pattern: debate\n")
    run(tmp_path / "t.at", text)
    assert (tmp_path / "t.at").read_text() == text
    assert (tmp_path / "other.pattern.yaml").read_text() == "pattern: debate\n"
    assert (tmp_path / "new.txt").exists()


def test_the_files_of_a_flow_are_those_from_which_teams_beside_it_are_read(tmp_path: Path) -> None:
    """Also where the folder is not there any more."""
    plan = Plan(name="t", folder=str(tmp_path))
    for name in ("a.at", "topology.yaml", "b.pattern.yaml", "at", "b.yaml", "a.at.bak"):
        (tmp_path / name).touch()
    assert [path.name for path in team_files(plan, {})] == ["a.at", "b.pattern.yaml", "topology.yaml"]
    assert list(team_files(Plan(name="t", folder=str(tmp_path / "gone")), {})) == []


def test_git_is_not_started_at_the_end_of_a_run_whose_attempts_wrote_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What attempts of other runs wrote does not concern it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    looked = list[Path]()
    monkeypatch.setattr(tool_files, "find", looked.append)
    for run, found in (("r2", 0), ("r1", 1)):
        with agent_writes.noted(tmp_path / f"runs/{run}/turns/a#1.1", [tmp_path], {}):
            (tmp_path / ".envrc").write_text(run)
        assert len(list(tool_files.changed_tool_files(tmp_path, "r1", None, tmp_path))) == found
        assert len(looked) == found


def test_the_place_of_a_function_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing reads it; an agent of a class keeps the answers of its models there."""
    monkeypatch.chdir(tmp_path)
    placed, start = dict[str, bool](), ActorBackend.start

    async def noted(backend: ActorBackend, request: Request, on_event: OnEvent) -> Session:
        placed[request.agent.name] = request.folder is not None
        return await start(backend, request, on_event)

    monkeypatch.setattr(ActorBackend, "start", noted)
    team = coterie.flow("two", [coterie.agent(flow_agents.a), coterie.agent("echo", flow_agents.Echo)])
    assert asyncio.run(coterie.run(team, "go")).status == "completed"
    assert placed == {"a": False, "echo": True}

"""The paths of a run's files where its turns work: only fields that are paths move, never texts and commands."""

import asyncio
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from bundles import bundle
from hypothesis import given
from hypothesis import strategies as st
from loop_projects import project
from repositories import put, repository
from temporalio.testing import ActivityEnvironment

from coterie.agents.backends.base import Request
from coterie.errors import TopologyError
from coterie.execution.cluster.activities import TurnActivities
from coterie.execution.cluster.driver_activities import DriverActivities
from coterie.execution.cluster.files import RunFiles, pack
from coterie.execution.cluster.paths import moving, placed_request
from coterie.execution.kernel.run_exit import RunExit
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.repository import Runs
from coterie.history.journal.export import FolderExport
from coterie.history.journal.records import ConfigAnswer, ConfigChanged, ConfigKept, RunNotified
from coterie.interfaces.cli.team_file import plan_for_a_run
from coterie.team.planning.loop import LoopGiven, LoopPlan
from coterie.team.planning.loops.folder import planned_for_copies
from coterie.team.planning.plan import AgentPlan, Plan, from_json, to_json

THERE, HERE = Path("/app"), Path("/node/tree")
TEXTS = (
    "Read https://example.com/app/docs, then compare /opt/app/config.toml with /app/src/main.py",
    "/app",
    "/app/x and '/app', /app:",
    'a "quoted" \\ path: /app/"we\\ird"',
)


@bundle(
    ("path", "moved"),
    [
        ("/app", "/node/tree"),
        ("/app/", "/node/tree"),
        ("/app/src/main.py", "/node/tree/src/main.py"),
        ("/app/app/app", "/node/tree/app/app"),
        ('/app/we"ird\\ one', '/node/tree/we"ird\\ one'),
        *((other, other) for other in ("", ".", "src", "../app", "/apps/x", "/opt/app", "app", "/", "//host/app/x")),
    ],
)
def test_a_path_in_the_submitted_folder_moves(path: str, moved: str) -> None:
    """Any other one is as it was, and so is a relative one: it begins where the turn works."""
    assert moving(THERE, HERE)(path) == moved


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@given(st.lists(NAMES, min_size=1), st.lists(NAMES), st.lists(NAMES, min_size=1))
def test_what_moves_to_a_node_and_back_is_as_it_was(there: list[str], below: list[str], here: list[str]) -> None:
    """Whatever characters the names of the folders have."""
    top, node = Path("/", *there), Path("/node", *here)
    path = str(Path(top, *below))
    gone = moving(top, node)(path)

    assert gone == str(Path(node, *below))
    assert moving(node, top)(gone) == path


def asked(text: str) -> Request:
    """A request in which *text* is everything that a user or an agent wrote."""
    wrote = AgentPlan(
        name="a",
        argv=("echo", text, "{here}/x"),
        steps=(("sh", "-c", text),),
        prompt=text,
        role=text,
        description=text,
        env={"DOCS": text},
        options={"base_url": text, "gates": [["check", text]]},
        cwd="/app/part",
    )
    return Request(
        run="r",
        turn="a#1",
        attempt=1,
        agent=wrote,
        prompt=text,
        context={"task": text, "inputs": [{"text": text, "outputs": {"at": text}}]},
        history=(("user", text),),
        env={"AUTOLOOP_ALLOWED_EVENTS": text, "AUTOLOOP_STATE_DIR": "/app/.autoloop"},
        cwd=Path("/app"),
        here=Path("/app/team"),
        team=(Path("/app/team/t.at"), Path("/etc/t.at")),
    )


@bundle("text", list(TEXTS))
def test_a_request_arrives_as_it_was_written(text: str) -> None:
    """Prompt, earlier results, commands, addresses, variables; its paths are those of the node."""
    placed = placed_request(asked(text), moving(THERE, HERE), HERE / "sub")

    assert (placed.cwd, placed.here) == (HERE / "sub", HERE / "team")
    assert placed.team == (HERE / "team/t.at", Path("/etc/t.at"))
    assert placed.agent.cwd == "/node/tree/part"
    assert placed.env == {"AUTOLOOP_ALLOWED_EVENTS": text, "AUTOLOOP_STATE_DIR": "/node/tree/.autoloop"}
    of_paths = {"cwd": None, "here": None, "team": (), "env": {}}
    left, before = (
        msgspec.structs.replace(one, agent=msgspec.structs.replace(one.agent, cwd=""), **of_paths)
        for one in (placed, asked(text))
    )
    assert left == before


@pytest.mark.parametrize("option", [{"type": "plans:write"}, {"python_tools": {"read": "plans:read"}}])
def test_a_node_imports_no_python_from_the_files_of_a_run(option: dict[str, Any]) -> None:
    """An agent may have changed them: it would run in the process of the node, without a sandbox."""
    request = asked("x")
    request = msgspec.structs.replace(request, agent=msgspec.structs.replace(request.agent, options=option))
    placed = placed_request(request, moving(THERE, HERE), HERE / "sub")
    assert (placed.cwd, placed.here) == (HERE / "sub", Path("/app/team"))


def test_a_node_places_a_request_only_where_its_run_has_files(tmp_path: Path) -> None:
    node: Any = TurnActivities.__new__(TurnActivities)
    node._files, node._hidden = AttemptFolders(Runs(tmp_path)), ()
    place: Any = RunFiles(root="/app", base="", heads=())
    at: Any = SimpleNamespace(root=tmp_path / "tree", cwd=tmp_path / "tree", repository=None)

    assert node._placed(asked(TEXTS[0]), place, at).cwd == tmp_path / "tree"
    without = node._placed(asked(TEXTS[0]), None, None)
    assert (without.cwd, without.agent.cwd) == (Path("/app"), "/app/part")


# -- a loop, whose texts name its folders -----------------------------------------------------------------------------

OUTER = """
completion = "done"
[[role]]
id = "team"
emits = ["done"]
topology = "inner"
[handoff]
"loop.start" = ["team"]
"""
FOLDERS = "State: {{STATE_DIR}}/notes, team: {{PRESET_DIR}}/roles"


def loop(home: Path, text: str = FOLDERS, settings: str = "", below: str = "loop") -> Plan:
    """The plan of a loop in a folder of the repository *home*, submitted from the top of that."""
    project(home / below, "", settings)
    put(home, f"{below}/harness.md", text)
    return plan_for_a_run(str(home / below), LoopGiven())[0]


def of_loop(plan: Plan) -> LoopPlan:
    assert isinstance(plan.coordination, LoopPlan)
    return plan.coordination


def test_the_texts_of_a_loop_name_its_folders_as_its_turns_find_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By relative paths, also in a team within; what was no placeholder stays, and a run here names them in full."""
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    here = loop(home, f"{FOLDERS}; {home}/loop is where I live")
    inner = Plan(name="outer", agents={"team": AgentPlan(name="team", kind="topology", child=here)})
    there = planned_for_copies(inner, str(home)).agents["team"].child

    assert of_loop(here).harness.startswith(f"State: {home}/.autoloop/notes, team: {home}/loop/roles;")
    assert there is not None
    assert of_loop(there).harness == f"State: .autoloop/notes, team: loop/roles; {home}/loop is where I live"
    assert planned_for_copies(there, str(home)) == there
    monkeypatch.chdir(home / "loop")
    (home / "loop" / "harness.md").write_text(FOLDERS)
    within = planned_for_copies(plan_for_a_run(".", LoopGiven())[0], str(home))
    assert of_loop(within).harness == "State: .autoloop/notes, team: ./roles"


def test_a_loop_within_a_loop_names_its_folders_so_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And two clones of one repository give one plan."""
    hashes = set()
    for name in ("one", "two"):
        home = repository(tmp_path / name)
        monkeypatch.chdir(home)
        loop(home)
        loop(home, below="loop/inner")
        put(home, "loop/topology.toml", OUTER)
        plan = planned_for_copies(plan_for_a_run("loop", LoopGiven())[0], str(home))
        inner = plan.agents["team"].child
        assert inner is not None
        hashes.add(msgspec.structs.replace(inner, agents={}).content_hash())  # the commands of these name the clone
        assert of_loop(inner).harness == "State: .autoloop/notes, team: loop/inner/roles"
    assert len(hashes) == 1


def test_a_loop_that_is_submitted_from_elsewhere_works_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its run keeps its state lies elsewhere, and has no copy."""
    home = repository(tmp_path / "home")
    (cwd := tmp_path / "cwd").mkdir()
    monkeypatch.chdir(cwd)
    plan = planned_for_copies(loop(home), str(home))
    assert of_loop(plan).harness == f"State: {cwd}/.autoloop/notes, team: ./roles"


def test_a_folder_that_does_not_travel_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop from elsewhere: its turns have no copy of it."""
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    away = tmp_path / "away"
    plan = planned_for_copies(loop(away), str(home))
    assert of_loop(plan).harness == f"State: .autoloop/notes, team: {away}/loop/roles"


def test_a_loop_that_became_invalid_before_it_was_submitted_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    plan = loop(home)
    put(home, "loop/topology.toml", "[[role]")
    with pytest.raises(TopologyError):
        planned_for_copies(plan, str(home))


def reread(plan: Plan, home: Path, keep: Path) -> ConfigAnswer:
    """What a node finds when it reads the files of *plan*, as they are in *home*, again."""

    async def main() -> ConfigAnswer:
        export = FolderExport(keep / "export")
        place, _ = await pack(home, export)
        activities = DriverActivities(export, keep / "home")
        found: ConfigAnswer = await ActivityEnvironment().run(activities.reread, "r", to_json(plan).decode(), place)
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("name", ["home", 'we"ird \\ home'])
def test_a_loop_that_is_read_again_on_a_node_is_the_same_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """If its files are; what changed comes back with the paths of the machine that submitted it."""
    home = repository(tmp_path / name)
    monkeypatch.chdir(home)
    plan = planned_for_copies(loop(home), str(home))
    assert reread(plan, home, tmp_path) == ConfigKept()

    put(home, "loop/harness.md", f"{FOLDERS}, and {home}/x")
    changed = reread(plan, home, tmp_path)
    assert isinstance(changed, ConfigChanged)
    found = from_json(changed.plan)
    assert changed.plan_hash == found.content_hash()
    assert of_loop(found).harness == f"State: .autoloop/notes, team: loop/roles, and {home}/x"
    assert msgspec.structs.replace(of_loop(found), harness=of_loop(plan).harness) == of_loop(plan)
    assert (found.folder, found.agents) == (plan.folder, plan.agents)


def test_the_same_settings_elsewhere_on_a_node_are_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    for machine in ("one", "two"):
        put(tmp_path / machine, "autoloop/config.toml", "review.enabled = false\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "one"))
    plan = planned_for_copies(loop(home), str(home))
    assert [path for path in of_loop(plan).given.grammars if "/one/" in path]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "two"))
    assert reread(plan, home, tmp_path) == ConfigKept()


def test_a_loop_of_a_release_that_named_its_folders_in_full_learns_their_relative_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is read again: its turns work on copies."""
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    changed = reread(loop(home), home, tmp_path)
    assert isinstance(changed, ConfigChanged)
    assert from_json(changed.plan) == planned_for_copies(loop(home), str(home))


def test_the_command_at_the_end_is_called_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among the files of the run, with the submitted folder in its arguments."""
    home = repository(tmp_path / "home")
    monkeypatch.chdir(home)
    out = tmp_path / "out"
    words = ["sh", "-c", f"pwd > {shlex.quote(str(out))}; ls loop >> {shlex.quote(str(out))}; echo $0 >&2; exit 3"]
    plan = loop(home, settings=f"notify.command = {[*words, f'https://x.example{home}/y']!r}")

    async def main() -> RunNotified:
        export = FolderExport(tmp_path / "export")
        place, _ = await pack(home, export)
        ended = RunExit(run="r", status="completed")
        activities = DriverActivities(export, tmp_path / "node")
        said: RunNotified = await ActivityEnvironment().run(activities.notify, ended, to_json(plan).decode(), place)
        return said

    assert f"https://x.example{home}/y" in asyncio.run(main()).problem
    where, *names = out.read_text().split()
    assert where.startswith(str(tmp_path / "node"))
    assert "topology.toml" in names


def test_a_file_that_an_agent_reads_is_found_by_its_full_path(tmp_path: Path) -> None:
    """As on one machine."""
    put(home := tmp_path / "home", "sub/notes.txt", "mine")

    async def main(*names: str) -> list[str | None]:
        export = FolderExport(tmp_path / "export")
        place, _ = await pack(home, export)
        activities = DriverActivities(export, tmp_path / "node")
        return [await ActivityEnvironment().run(activities.read, "r", name, place) for name in names]

    assert asyncio.run(main(f"{home}/sub/notes.txt", f"{home}/../key", f"{home}er/sub/notes.txt")) == [
        "mine",
        None,
        None,
    ]

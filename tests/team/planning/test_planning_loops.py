"""A loop's folder, its settings and the command line, resolved once into a plan."""

import sys
from pathlib import Path

import msgspec
import pytest
from bundles import bundle
from loops import TWO, folder, loop_of, pair, plan, planned

from coterie.team.planning import plan as plan_topology
from coterie.team.planning.loop import LoopGiven, ParallelPlan, RolePlan
from coterie.team.planning.loops import plan_folder, reread
from coterie.team.planning.loops.agents import agent_plan
from coterie.team.planning.loops.backends import settle
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, Plan, from_json, to_json

COMMAND = 'backend.command = "agent"\n'


def again(made: Plan, path: Path) -> tuple[Plan | None, list[str]]:
    """The plan as the files in *path* are now, and the codes of what was found."""
    now, found = reread(made, env={"HOME": str(path.parent / "home")})
    return now, [each.code for each in found]


def test_a_folder_is_a_plan(tmp_path: Path) -> None:
    """Roles with whole prompts, agents by their names, defaults where nobody says anything."""
    made = plan(pair(tmp_path / "pair"))
    loop = loop_of(made)

    assert loop.roles == (
        RolePlan(id="writer", emits=("draft.ready",), prompt="You write."),
        RolePlan(id="reader", emits=("draft.rejected", "task.complete"), prompt="You read."),
    )
    assert loop.handoff == (
        ("loop.start", ("writer",)),
        ("draft.ready", ("reader",)),
        ("draft.rejected", ("writer",)),
    )
    assert (loop.completion, loop.promise, loop.max_iterations) == ("task.complete", "LOOP_COMPLETE", 3)
    assert loop.place == RunPlace(project=str(tmp_path / "pair"), preset="pair", work_dir=str(tmp_path))
    assert made.agents == {
        name: AgentPlan(name=name, backend="command", argv=("agent",), prompt_via="arg", timeout=300.0)
        for name in ("writer", "reader", "@review")
    }


def test_settings_are_in_the_plan(tmp_path: Path) -> None:
    """Each where it has effect; times in seconds."""
    settings = """
[event_loop]
max_iterations = 7
completion_event = "done"
completion_promise = ""
required_events = ["draft.ready"]
prompt = "Write {{STATE_DIR}}."
max_runtime = "2h"
max_cost_usd = 1.5
stall_iterations = 4
max_failures = 2
[review]
enabled = false
[parallel]
enabled = true
max_branches = 5
branch_timeout_ms = 2000
[memory]
prompt_budget_chars = 10
[tasks]
prompt_budget_chars = 20
[notify]
command = ["tell", "me"]
"""
    made = plan(pair(tmp_path / "pair", settings))
    loop = loop_of(made)

    assert (loop.max_iterations, loop.max_runtime, loop.max_cost) == (7, 7200.0, 1.5)
    assert (loop.completion, loop.promise, loop.required) == ("done", "", ("draft.ready",))
    assert (loop.stall, loop.max_failures, loop.notify) == (4, 2, ("tell", "me"))
    assert (loop.memory_chars, loop.tasks_chars) == (10, 20)
    assert loop.objective == "Write {{STATE_DIR}}."
    assert loop.parallel == ParallelPlan(most=5, timeout=2.0)
    assert loop.review is None
    assert list(made.agents) == ["writer", "reader"]


def test_the_topology_says_what_completes_before_settings_do(tmp_path: Path) -> None:
    """And the settings before the default."""
    settings = COMMAND + 'event_loop.completion_event = "done"\n'

    assert loop_of(plan(pair(tmp_path / "a", settings))).completion == "done"
    named = pair(tmp_path / "b", settings, topology_toml='completion = "draft.rejected"\n' + TWO)
    assert loop_of(plan(named)).completion == "draft.rejected"


def test_without_roles_the_loop_itself_is_asked(tmp_path: Path) -> None:
    """And it is reviewed after every iteration."""
    made = plan(folder(tmp_path / "plain", {"autoloops.toml": COMMAND}))

    assert list(made.agents) == ["@loop", "@review"]
    assert (review := loop_of(made).review) is not None
    assert review.every == 1


def test_texts_come_from_files_unless_they_are_written_in_place(tmp_path: Path) -> None:
    """The objective, the harness's instructions, the review's prompt; unnamed files need not be there."""
    settings = COMMAND + 'event_loop.prompt_file = "goal.md"\n'
    path = pair(tmp_path / "pair", settings, goal_md="Goal.\n", harness_md="Be kind.\n", metareview_md="Tidy up.\n")
    loop = loop_of(plan(path))
    assert (loop.objective, loop.harness, loop.review and loop.review.prompt) == (
        "Goal.\n",
        "Be kind.\n",
        "Tidy up.\n",
    )

    (path / "autoloops.toml").write_text(settings + 'event_loop.prompt = "Now."\nreview.prompt = "Look."\n')
    loop = loop_of(plan(path))
    assert (loop.objective, loop.review and loop.review.prompt) == ("Now.", "Look.")


def test_placeholders_are_filled_but_for_the_attempts_own(tmp_path: Path) -> None:
    """The state's folder, the loop's folder; whoever is asked has the path of its command."""
    path = pair(
        tmp_path / "pair",
        COMMAND + 'core.state_dir = "state"\n',
        roles__reader_md="{{TOOL_PATH}} in {{STATE_DIR}}",
        harness_md="See {{PRESET_DIR}}/notes.md",
    )
    loop = loop_of(plan(path))

    assert loop.roles[1].prompt == f"{{{{TOOL_PATH}}}} in {tmp_path}/state"
    assert loop.harness == f"See {path}/notes.md"


@bundle(
    ("tree", "isolation", "wanted"),
    [
        ("", "", None),
        ("true", "", True),
        ("", "true", True),
        ("false", "true", True),
        ("true", "false", True),
        ("false", "", False),
        ("", "false", False),
    ],
)
def test_either_key_switches_a_work_tree_on(tree: str, isolation: str, wanted: bool | None, tmp_path: Path) -> None:
    """An explicit no of either switches only the automatic one off."""
    lines = [
        COMMAND,
        f"worktree.enabled = {tree}\n" * bool(tree),
        f"isolation.enabled = {isolation}\n" * bool(isolation),
    ]

    assert loop_of(plan(pair(tmp_path / "pair", "".join(lines)))).place.worktree is wanted


# -- who thinks --------------------------------------------------------------------------------------------------------


def test_the_time_out_of_a_role_wins_then_that_of_iterations(tmp_path: Path) -> None:
    """Then the backend's; a review has its own."""
    settings = COMMAND + 'backend.timeout_ms = 1000\nevent_loop.max_iteration_runtime = "90s"\n'
    own = TWO.replace('id = "writer"', 'id = "writer"\nbackend_timeout_ms = 2500')
    made = plan(pair(tmp_path / "pair", settings, topology_toml=own))

    assert {name: agent.timeout for name, agent in made.agents.items()} == {
        "writer": 2.5,
        "reader": 90.0,
        "@review": 300.0,
    }


def test_the_command_line_beats_settings_and_a_role_beats_it(tmp_path: Path) -> None:
    """Its arguments go with it; what a role says of its own stays, with a warning."""
    settings = 'backend.command = "agent"\nbackend.args = ["--fast"]\nbackend.model = "m"\n'
    own = TWO.replace('id = "writer"', 'id = "writer"\nbackend_command = "mine"')
    path = pair(tmp_path / "pair", settings, topology_toml=own)
    made, found = planned(path, backend="./other", overrides=("backend.command=third", "backend.timeout_ms=7000"))

    assert made is not None
    assert {name: (agent.argv, agent.model, agent.timeout) for name, agent in made.agents.items()} == {
        "writer": (("mine",), "m", 7.0),
        "reader": (("./other",), "m", 7.0),
        "@review": (("./other",), "m", 300.0),
    }
    assert [(each.code, each.is_error) for each in found] == [("role-keeps-backend", False)]
    assert "'writer' keeps its own backend" in found[0].message


def test_further_arguments_are_for_whoever_has_the_common_ones(tmp_path: Path) -> None:
    """They come last, and say nothing about the kind."""
    settings = 'backend.command = "agent"\nbackend.args = ["--fast"]\n'
    own = TWO.replace('id = "writer"', 'id = "writer"\nbackend_args = ["--slow"]')
    made = plan(pair(tmp_path / "pair", settings, topology_toml=own), args=("--model", "x"))

    assert {name: agent.argv for name, agent in made.agents.items()} == {
        "writer": ("agent", "--slow"),
        "reader": ("agent", "--fast", "--model", "x"),
        "@review": ("agent", "--fast", "--model", "x"),
    }


def test_further_arguments_follow_those_of_a_provider(tmp_path: Path) -> None:
    """They do not take their place."""
    made = plan(pair(tmp_path / "pair", 'backend.kind = "kiro"\n'), args=("--verbose",))

    assert made.agents["writer"].argv == ("kiro-cli", "acp", "--verbose")


@bundle("backend", ["", "claude", "model", "scripted", "human"])
def test_a_backend_that_is_no_program_takes_no_arguments(backend: str, tmp_path: Path) -> None:
    """A plain `claude` is one: further arguments do not make a command of it."""
    made, found = planned(pair(tmp_path / "pair", 'backend.model = "sonnet"\n'), backend=backend, args=("--x",))

    assert made is None
    assert [each.code for each in found if each.is_error] == ["no-arguments"]


def test_a_person_is_not_hurried_unless_somebody_says_so(tmp_path: Path) -> None:
    """The usual time-out is for machines."""
    path = pair(tmp_path / "pair", "review.enabled = false\n")

    assert {agent.timeout for agent in plan(path, backend="human").agents.values()} == {None}
    assert {agent.kind for agent in plan(path, backend="human").agents.values()} == {"human"}
    hurried = plan(path, backend="human", overrides=("backend.timeout_ms=60000",))
    assert {agent.timeout for agent in hurried.agents.values()} == {60.0}


def test_a_session_is_planned_with_all_it_needs() -> None:
    """Though nobody runs it yet."""
    layer = {"kind": "acp", "provider": "kiro", "agent": "gpu", "model": "m", "trust_all_tools": False}

    assert agent_plan("r", settle(layer)) == AgentPlan(
        name="r",
        backend="acp",
        argv=("kiro-cli", "acp"),
        model="m",
        timeout=300.0,
        options={"trust_all_tools": False, "provider": "kiro", "agent": "gpu"},
    )


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ('backend.kind = "comand"\n', "unknown-backend"),
        ('backend.kind = "model"\n', "no-provider"),
        ('backend.kind = "acp"\n', "no-command"),
        ('backend.command = "agent"\nreview.kind = "pie"\n', "unknown-backend"),
    ],
)
def test_a_backend_that_cannot_be_is_an_error(settings: str, code: str, tmp_path: Path) -> None:
    """Whoever it is for."""
    made, found = planned(pair(tmp_path / "pair", settings))

    assert made is None
    assert {each.code for each in found} == {code}


# -- profiles ----------------------------------------------------------------------------------------------------------


def test_profiles_add_to_prompts_in_their_order(tmp_path: Path) -> None:
    """Those of the settings, then the command line's; the repository's and the user's own."""
    path = pair(tmp_path / "pair", COMMAND + 'profiles.default = ["repo:strict"]\n')
    folder(tmp_path / ".autoloop/profiles/strict/pair", {"writer.md": "Be strict.\n", "nobody.md": "x"})
    folder(tmp_path / "home/.config/autoloop/profiles/mine/pair", {"writer.md": "\nBe mine.", "reader.md": "Read."})
    made = loop_of(plan(path, profiles=("user:mine", "repo:strict")))

    assert [role.prompt for role in made.roles] == ["You write.\n\nBe strict.\n\nBe mine.", "You read.\n\nRead."]
    bare = loop_of(plan(path, profiles=("user:mine",), default_profiles=False))
    assert [role.prompt for role in bare.roles] == ["You write.\n\nBe mine.", "You read.\n\nRead."]


def test_a_profile_that_is_not_there_is_an_error_and_an_idle_one_a_warning(tmp_path: Path) -> None:
    """Of another preset, it says nothing here."""
    folder(tmp_path / ".autoloop/profiles/strict/other", {"writer.md": "x"})
    path = pair(tmp_path / "pair")

    assert [each.code for each in planned(path, profiles=("repo:strict",))[1]] == ["idle-profile"]
    made, found = planned(path, profiles=("repo:strct", "user:../x", "strict"))
    assert made is None
    assert [each.code for each in found] == ["no-such-profile", "bad-profile", "bad-profile"]
    assert "'strict'" in found[0].hint


# -- reading again -----------------------------------------------------------------------------------------------------


def test_what_was_not_changed_is_the_same_plan(tmp_path: Path) -> None:
    """Whatever the command line said is in it; it is plain data, and its hash knows no folder."""
    path = pair(tmp_path / "a/pair")
    said = {"overrides": ("event_loop.max_iterations=9",), "backend": "./x", "args": ("-v",)}
    made = plan(path, **said)

    assert again(made, path) == (made, [])
    assert from_json(to_json(made)) == made
    elsewhere = plan(pair(tmp_path / "b/pair"), **said)
    assert elsewhere != made
    assert elsewhere.content_hash() == made.content_hash()
    assert plan(path).content_hash() != made.content_hash()


def test_a_change_is_seen_under_what_the_command_line_said(tmp_path: Path) -> None:
    """Overrides are applied again, and so is `-b`."""
    path = pair(tmp_path / "pair")
    made = plan(path, overrides=("event_loop.max_iterations=9",), backend="./x")
    (path / "autoloops.toml").write_text(
        'backend.command = "y"\nevent_loop.max_iterations = 2\nevent_loop.max_failures = 8\n'
    )
    (path / "roles/reader.md").write_text("You read aloud.")
    now, codes = again(made, path)

    assert codes == []
    assert now is not None
    assert (loop_of(now).max_iterations, loop_of(now).max_failures) == (9, 8)
    assert loop_of(now).roles[1].prompt == "You read aloud."
    assert now.agents["reader"].argv == ("./x",)


def test_what_is_fixed_stays_and_a_change_is_told(tmp_path: Path) -> None:
    """Where it is written; texts keep naming the old state."""
    path = pair(tmp_path / "pair", roles__reader_md="{{STATE_DIR}}")
    made = plan(path)
    (path / "autoloops.toml").write_text(COMMAND + 'core.state_dir = "new"\nworktree.cleanup = "never"\n')
    now, found = reread(made, env={"HOME": str(tmp_path / "home")})

    assert now is not None
    assert loop_of(now).place == loop_of(made).place
    assert loop_of(now).roles[1].prompt == f"{tmp_path}/.autoloop"
    told = [(each.code, each.message.split("'")[1], each.span.line if each.span else 0) for each in found]
    assert told == [
        ("fixed-setting", "core.state_dir", 2),
        ("fixed-setting", "worktree.cleanup", 3),
    ]


def test_a_file_is_read_as_it_was_at_the_start(tmp_path: Path) -> None:
    """One that was TOML then is not read line by line now: what is wrong gives no plan."""
    path = pair(tmp_path / "pair")
    made = plan(path)
    (path / "autoloops.toml").write_text("backend.command = agent\n")
    now, codes = again(made, path)
    assert now is None
    assert codes == ["not-toml"]

    lines = plan(path)
    assert again(lines, path)[0] == lines


@bundle("gone", ["topology.toml", "autoloops.toml", "agents.toml", "harness.md", "metareview.md"])
def test_a_file_that_goes_gives_no_plan(gone: str, tmp_path: Path) -> None:
    """Not even where it need not have been there; until it is back."""
    path = pair(tmp_path / "pair", harness_md="Be kind.", metareview_md="Tidy up.", agents_toml="")
    made = plan(path)
    text = (path / gone).read_text()
    (path / gone).unlink()

    now, codes = again(made, path)
    assert now is None
    assert "file-gone" in codes
    (path / gone).write_text(text)
    assert again(made, path) == (made, [])


def test_a_file_that_nobody_names_any_more_may_go(tmp_path: Path) -> None:
    """Its text stands elsewhere now."""
    path = pair(tmp_path / "pair", metareview_md="Tidy up.")
    made = plan(path)
    (path / "metareview.md").unlink()
    (path / "autoloops.toml").write_text(COMMAND + 'review.prompt = "Look."\n')
    now, codes = again(made, path)

    assert codes == []
    assert now is not None
    assert (review := loop_of(now).review) is not None
    assert review.prompt == "Look."


def test_a_loop_that_can_only_be_read_in_part_gives_no_plan(tmp_path: Path) -> None:
    """Although what was read of it could run."""
    made, found = planned(pair(tmp_path / "pair", topology_toml=TWO.replace('prompt = "You write."', "prompt = 5")))

    assert made is None
    assert [each.code for each in found] == ["bad-value"]


@pytest.mark.parametrize("broken", ["topology.toml", "roles/reader.md", "autoloops.toml"])
def test_what_is_wrong_or_gone_gives_no_plan(broken: str, tmp_path: Path) -> None:
    """It is told, and the run keeps the one it has."""
    path = pair(tmp_path / "pair")
    made = plan(path)
    (path / broken).unlink()
    if broken != "roles/reader.md":
        (path / broken).write_text("x = [")

    now, codes = again(made, path)
    assert now is None
    assert codes


def test_only_a_folder_can_be_read_again() -> None:
    """A plan of something else is a mistake of the caller."""
    with pytest.raises(TypeError, match="not a loop read from a folder"):
        reread(Plan(name="x"))


# -- among others ------------------------------------------------------------------------------------------------------


def test_a_loop_answers_at_a_node_of_a_flow(tmp_path: Path) -> None:
    """Its topology is named as any other file is."""
    from coterie.team import formats

    pair(tmp_path / "pair")
    text = """
topology outer : [pipeline] {
  agent a { model: sonnet  extensions { coterie { topology: "pair/topology.toml" } } }
  agent b { model: sonnet }
  flow { a -> b }
}
"""
    file = tmp_path / "outer.at"
    file.write_text(text)
    source = formats.read(file)
    assert source.topology is not None
    made, found = plan_topology(source.topology)

    assert made is not None, found
    child = made.agents["a"].child
    assert child is not None
    assert list(child.agents) == ["writer", "reader", "@review"]


def test_planning_is_asked_with_a_topology_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan()` takes a loop as it takes a flow."""
    from coterie.team import formats

    monkeypatch.chdir(tmp_path)
    path = pair(tmp_path / "pair")
    topology = formats.read(path).topology
    assert topology is not None

    assert plan_topology(topology, backend="./x")[0] == plan_folder(path, given=LoopGiven(backend="./x"))[0]


def test_reading_a_plan_loads_no_reader() -> None:
    """A journal holds plans, and is read fast."""
    import subprocess

    code = "import sys, coterie.team.planning.plan; print(*sorted(m for m in sys.modules if 'formats' in m))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert loaded == ["coterie.team.formats", "coterie.team.formats.bounds"]


def test_a_plan_of_an_earlier_time_can_be_read() -> None:
    """What it did not say then has its default."""
    text = '{"name": "x", "coordination": {"engine": "loop"}}'

    assert loop_of(from_json(text)).given == LoopGiven()
    assert msgspec.json.decode(to_json(from_json(text)))["coordination"]["engine"] == "loop"

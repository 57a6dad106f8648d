"""Teams that answer for roles of a loop: found, planned with their own, bounded, and read again."""

from pathlib import Path

from bundles import bundle
from loops import folder, loop_of, plan, planned

from coterie.team.formats import read
from coterie.team.planning.loops import reread
from coterie.team.planning.pattern import PatternPlan
from coterie.team.planning.plan import from_json, to_json
from coterie.team.planning.resolve import plan as plan_topology
from coterie.team.topology.composition import MAX_DEPTH
from coterie.team.topology.conditions import Condition, Operator

JURY = """
pattern: {type: crosscheck, slots: {primary: a, checker: a}}
agents: {a: {type: scripted}}
"""
FLOW = """
topology pair : [pipeline] {
  agent a { model: haiku }
  agent b { model: haiku outputs: { verdict: good | bad } }
  flow { a -> b }
  extensions { coterie { backend: scripted } }
}
"""
AROUND = """
topology around : [pipeline] {{
  agent a {{ extensions {{ coterie {{ topology: "{}" }} }} }}
  agent b {{ model: haiku }}
  flow {{ a -> b }}
}}
"""
SETTINGS = 'backend.kind = "scripted"\nreview.enabled = false\n'


def topology(team: str, events: str = 'events = {"done" = "final_approved == true", "again" = ""}', **more: str) -> str:
    """A loop of a writer and a jury, for which *team* answers."""
    fields = "".join(f"{name} = {value}\n" for name, value in more.items())
    return (
        'completion = "done"\n[[role]]\nid = "writer"\nemits = ["ready"]\n'
        f'[[role]]\nid = "jury"\nemits = ["done", "again"]\ntopology = "{team}"\n{events}\n{fields}'
        '[handoff]\n"loop.start" = ["writer"]\nready = ["jury"]\nagain = ["writer"]\n'
    )


def court(path: Path, text: str, **files: str) -> Path:
    named = {name.replace("__", "/").replace("_", "."): content for name, content in files.items()}
    return folder(path, {"topology.toml": text, "autoloops.toml": SETTINGS, **named})


def test_a_pattern_file_a_flow_and_a_folder_answer(tmp_path: Path) -> None:
    """The agent of the role is a topology; what thinks there is the team's own business."""
    files = {
        "jury_pattern_yaml": JURY,
        "pair_at": FLOW,
        "inner__topology_toml": topology("../x", events="").replace('topology = "../x"', ""),
        "inner__autoloops_toml": SETTINGS,
    }
    for name, kind in (("jury.pattern.yaml", "pattern"), ("pair.at", "flow"), ("inner", "loop"), ("inner/", "loop")):
        made = plan(court(tmp_path / kind, topology(name, 'events = {"done" = ""}'), **files))
        agent = made.agents["jury"]
        assert (agent.kind, agent.backend, agent.timeout) == ("topology", "", None)
        assert agent.child is not None
        assert type(agent.child.coordination).__struct_config__.tag == kind
        assert from_json(to_json(made)) == made


def test_what_is_emitted_when_is_part_of_the_plan(tmp_path: Path) -> None:
    made = plan(court(tmp_path / "loop", topology("jury.pattern.yaml"), jury_pattern_yaml=JURY))
    writer, jury = loop_of(made).roles

    assert writer.events is None
    assert jury.events == (("done", Condition("jury", "final_approved", Operator.EQ, True)), ("again", None))


def test_a_role_that_emits_one_thing_need_not_say_when(tmp_path: Path) -> None:
    text = topology("jury.pattern.yaml", "").replace('emits = ["done", "again"]', 'emits = ["done"]')
    made = plan(court(tmp_path / "loop", text, jury_pattern_yaml=JURY))

    assert loop_of(made).roles[1].events == (("done", None),)


def test_only_the_time_of_an_iteration_bounds_a_team(tmp_path: Path) -> None:
    """What `backend.timeout_ms` bounds is an attempt of one agent."""
    path = court(tmp_path / "loop", topology("jury.pattern.yaml"), jury_pattern_yaml=JURY)

    assert plan(path, overrides=("backend.timeout_ms=1000",)).agents["jury"].timeout is None
    assert plan(path, overrides=("event_loop.max_iteration_runtime=40s",)).agents["jury"].timeout == 40.0


def test_whoever_names_a_backend_is_told_of_teams(tmp_path: Path) -> None:
    path = court(tmp_path / "loop", topology("jury.pattern.yaml"), jury_pattern_yaml=JURY)
    made, found = planned(path, backend="human")

    assert made is not None
    assert made.agents["writer"].kind == "human"
    assert [each.message for each in found if each.code == "role-keeps-backend"] == [
        "role 'jury' keeps its own backend despite -b"
    ]


@bundle(
    ("team", "code", "words"),
    [
        ("nobody.at", "no-such-file", "role 'jury' names the file 'nobody.at', which does not exist"),
        ("../other.at", "outside-folder", "role 'jury' names '../other.at', which is outside"),
        (
            "jury.py:report",
            "no-such-file",
            "role 'jury' names the program 'jury.py:report', and reading a file runs no",
        ),
        ("topology.toml", "topology-cycle", "topology.toml -> topology.toml"),
        (".", "topology-cycle", "topology.toml -> topology.toml"),
        ("back.at", "topology-cycle", "topology.toml -> back.at -> topology.toml"),
        ("wrong.pattern.yaml", "missing-slot", "wrong.pattern.yaml:2:"),
    ],
)
def test_a_team_that_cannot_be_had_is_told_where_it_is_named(tmp_path: Path, team: str, code: str, words: str) -> None:
    back = AROUND.format("topology.toml")
    wrong = "\npattern: {type: debate, slots: {proponent: a}}\nagents: {a: {type: scripted}}\n"
    path = court(tmp_path / "loop", topology(team), back_at=back)
    (path / "wrong.pattern.yaml").write_text(wrong)
    made, found = planned(path)

    assert made is None
    told = next(each for each in found if each.code == code)
    assert words in told.message
    assert told.file == str(path / "topology.toml")
    assert told.text.splitlines()[told.span.line - 1 if told.span else 0].startswith("topology =")


def test_loops_in_each_other_end_somewhere(tmp_path: Path) -> None:
    """One role is the loop below, and so on."""
    path = tmp_path / "loop"
    for depth in range(MAX_DEPTH + 1):
        court(path.joinpath(*["in"] * depth), topology("in", 'events = {"done" = ""}'))
    court(path.joinpath(*["in"] * (MAX_DEPTH + 1)), 'completion = "done"\n[[role]]\nid = "a"\nemits = ["done"]\n')
    made, found = planned(path)

    assert made is None
    assert "nested-too-deep" in {each.code for each in found}
    assert planned(path / "in")[0] is not None


def test_what_a_loop_at_a_node_names_lies_in_a_chain_with_what_named_it(tmp_path: Path) -> None:
    """A flow has a loop as a node, whose role is a flow that has the loop as a node."""
    court(tmp_path / "loop", topology("inside.at"), inside_at=AROUND.format("topology.toml"))
    (tmp_path / "flow.at").write_text(AROUND.format("loop/topology.toml"))
    source = read(tmp_path / "flow.at")
    assert source.topology is not None
    made, found = plan_topology(source.topology)
    [one] = [each for each in found if each.is_error]

    assert made is None
    assert one.code == "topology-cycle"
    assert "flow.at -> topology.toml -> inside.at -> topology.toml" in one.message


def test_it_is_read_again_with_its_loop(tmp_path: Path) -> None:
    """A change of the team is a change of the loop; a team that is gone or wrong changes nothing."""
    env = {"HOME": str(tmp_path / "home")}
    path = court(tmp_path / "loop", topology("jury.pattern.yaml"), jury_pattern_yaml=JURY)
    made = plan(path)
    again, _ = reread(made, env=env)
    assert again == made

    (path / "jury.pattern.yaml").write_text(JURY.replace("crosscheck", "crosscheck, config: {quorum: 1}"))
    changed, _ = reread(made, env=env)
    assert changed is not None
    child = changed.agents["jury"].child
    assert child is not None
    assert isinstance(child.coordination, PatternPlan)
    assert child.coordination.config["quorum"] == 1
    assert changed.content_hash() != made.content_hash()

    (path / "jury.pattern.yaml").unlink()
    gone, found = reread(made, env=env)
    assert gone is None
    assert "no-such-file" in {each.code for each in found}

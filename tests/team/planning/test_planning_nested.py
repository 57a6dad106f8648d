from pathlib import Path

import pytest
from planned import planned, sayings, team, topology

from coterie.errors import TopologyError
from coterie.team.planning import plan, plan_or_raise, resolve
from coterie.team.topology.model import Topology

INNER = team("x -> y", x='model: m  prompt: "Think"')


def outer(file: str = "inner.at", more: str = "") -> str:
    return team("a -> b", b=f'extensions {{ coterie {{ topology: "{file}" {more} }} }}')


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.at").write_text(text)
    return folder


def test_a_topology_answers_at_a_node(tmp_path: Path) -> None:
    """Its plan is a part of the other's."""
    write(tmp_path, inner=INNER)

    agent = planned(outer(), tmp_path).agents["b"]
    assert (agent.kind, agent.backend) == ("topology", "")
    assert agent.child is not None
    assert agent.child.agents["x"].prompt == "Think"
    assert agent.child.folder == str(tmp_path.resolve())


def test_the_backend_of_the_run_goes_down_and_the_topologys_own_does_not(tmp_path: Path) -> None:
    """A file says who thinks in it, whoever uses it."""
    write(tmp_path, inner=INNER)
    text = outer().replace("  flow", "  extensions { coterie { backend: human } }\n  flow")

    inherited = planned(text, tmp_path).agents
    assert inherited["a"].backend == "human"
    assert inherited["b"].child is not None
    assert inherited["b"].child.agents["x"].backend == ""
    told = planned(text, tmp_path, backend="scripted").agents["b"].child
    assert told is not None
    assert told.agents["x"].backend == "scripted"


def test_the_files_of_an_inner_topology_lie_in_its_folder(tmp_path: Path) -> None:
    """Not merely in that of the outer one."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret.md").write_text("hidden")
    (tmp_path / "inner" / "team.at").write_text(team("x -> y", x='model: m  prompt: "../secret.md"'))

    assert sayings(outer("inner/team.at"), tmp_path) == [
        'error[outside-folder] "inner/team.at": inner/team.at:2:31: '
        "the prompt of agent 'x' names '../secret.md', which is outside the topology's folder"
    ]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            "../other.at",
            "error[outside-folder] \"../other.at\": agent 'b' names '../other.at', "
            "which is outside the topology's folder",
        ),
        ("gone.at", "error[no-such-file] \"gone.at\": agent 'b' names the file 'gone.at', which does not exist"),
        *(
            (
                name,
                f"error[no-such-file] \"{name}\": agent 'b' names the program '{name}', "
                "and reading a file runs no code",
            )
            for name in ("plans.py:report", "team.plans:report")
        ),
    ],
)
def test_an_inner_topology_lies_in_the_folder(tmp_path: Path, file: str, said: str) -> None:
    """And is there."""
    assert sayings(outer(file), tmp_path) == [said]


def test_what_is_wrong_inside_is_told_where_it_is_named(tmp_path: Path) -> None:
    """With its place in its own file."""
    write(tmp_path, inner="topology t : [pipeline] {\n  agent x { model: m }\n  flow { x -> ghost }\n}\n")

    assert sayings(outer(), tmp_path) == [
        "error[unknown-agent] \"inner.at\": inner.at:3:15: the flow names 'ghost', which is not declared"
    ]


def test_a_topology_that_can_only_be_read_in_part_is_refused(tmp_path: Path) -> None:
    """Although what was read of it could run."""
    write(tmp_path, inner=INNER.replace("model: m", "model m", 1))
    (said,) = sayings(outer(), tmp_path)

    assert said.startswith('error[missing-colon] "inner.at": inner.at:2:')


def test_a_topology_without_a_flow_cannot_be_asked(tmp_path: Path) -> None:
    """There is nothing to run in it."""
    write(tmp_path, inner="topology idle : [debate] {\n  agent x { model: m }\n}\n")

    assert sayings(outer(), tmp_path) == [
        "error[no-flow] \"inner.at\": inner.at:1:1: 'idle' has no flow, so there is nothing to run"
    ]


def test_a_topology_is_no_part_of_itself(tmp_path: Path) -> None:
    """The chain is named, at whatever depth it closes."""
    write(tmp_path, team=outer("one.at"), one=outer("two.at"), two=outer("team.at"))

    assert sayings(outer("one.at"), tmp_path) == [
        'error[topology-cycle] "one.at": a topology cannot contain itself: team.at -> one.at -> two.at -> team.at'
    ]


def test_topologies_lie_at_most_eight_deep(tmp_path: Path) -> None:
    """The ninth below the first is refused."""
    files = {f"t{i}": outer(f"t{i + 1}.at") for i in range(1, 10)}
    write(tmp_path, **files, t10=INNER)

    assert planned(outer("t3.at"), tmp_path).agents["b"].child is not None
    assert sayings(outer("t2.at"), tmp_path) == [
        'error[nested-too-deep] "t2.at": topologies are nested more than 8 deep: '
        + " -> ".join(["team.at", *(f"t{i}.at" for i in range(2, 11))])
    ]


def test_a_plan_holds_a_bounded_number_of_topologies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four uses at each of eight depths would be 87,380; four at three are 84."""
    assert resolve.MAX_TOPOLOGIES == 1000
    nodes = "abcd"

    def wide(file: str) -> str:
        uses = dict.fromkeys(nodes, f'extensions {{ coterie {{ topology: "{file}" }} }}')
        return team(" -> ".join(nodes), **uses)

    write(tmp_path, **{f"t{i}": wide(f"t{i + 1}.at") for i in range(1, 8)}, t8=INNER)
    many = {"too-many-topologies"}
    for most, first, found in [(85, "t6.at", set()), (84, "t6.at", many), (84, "t1.at", many)]:
        monkeypatch.setattr(resolve, "MAX_TOPOLOGIES", most)
        assert {each.code for each in plan(topology(wide(first), tmp_path))[1]} == found


def test_another_reader_may_be_given(tmp_path: Path) -> None:
    """It is asked for each file once, by its path; what it refuses is reported."""
    write(tmp_path, inner="not read")
    asked: list[Path] = []

    def read(path: Path) -> Topology:
        asked.append(path)
        return topology(INNER)

    made, _ = plan(topology(outer(), tmp_path), read=read)
    assert made is not None
    assert made.agents["b"].child is not None
    assert asked == [(tmp_path / "inner.at").resolve()]
    with pytest.raises(TopologyError, match=r"no-topology.*inner\.at:1:1: there is no topology"):
        plan_or_raise(topology(outer(), tmp_path))


def test_a_topology_without_a_file_has_no_folder() -> None:
    """Then it can name no other."""
    assert sayings(outer()) == [
        "error[no-folder] \"inner.at\": agent 'b' names the file 'inner.at', but the topology has no folder"
    ]


def test_a_team_has_no_time_out_but_its_own(tmp_path: Path) -> None:
    """What the topology says of its agents bounds one program, not a whole team; the node's own field bounds it."""
    write(tmp_path, inner=INNER)

    def timeouts(node: str) -> tuple[float | None, float | None]:
        text = team("a -> b", b=f'{node} extensions {{ coterie {{ topology: "inner.at" }} }}')
        agents = planned(text.replace("  flow", "  extensions { coterie { timeout: 30s } }\n  flow"), tmp_path).agents
        return agents["a"].timeout, agents["b"].timeout

    assert timeouts("") == (30.0, None)
    assert timeouts("timeout: 5m") == (30.0, 300.0)

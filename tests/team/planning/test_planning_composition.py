"""Plans of teams in several files: imports, parameters, the interface."""

from pathlib import Path

import pytest
from planned import topology

from coterie.team.formats import read
from coterie.team.planning import examine, plan, plan_or_raise
from coterie.team.planning.plan import Plan
from coterie.team.topology.model import Agent, Import, Topology

POLISH = """topology polish : [pipeline] {
  params { tone: string  rounds: number = 3 }
  interface { entry: editor, exit: critic }
  agent editor { model: m  prompt: "words.md" }
  agent critic { model: m  outputs { verdict: revise | approve } }
  agent keeper { model: m }
  flow {
    editor -> critic -> keeper
    critic -> editor [when critic.verdict == revise, max "${param.rounds}"]
  }
}
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.at").write_text(text)
    (folder / "words.md").write_text("Be ${param.tone}, not ${param.other}, in ${LANG}.")
    return folder / "main.at"


def main(statement: str, flow: str = "a -> p") -> str:
    return f"topology t : [pipeline] {{\n  {statement}\n  agent a {{ model: m }}\n  flow {{ {flow} }}\n}}\n"


def planned(path: Path) -> Plan:
    source = read(path)
    assert source.topology is not None
    assert not source.has_errors
    return plan_or_raise(source.topology)


def said(path: Path) -> list[str]:
    source = read(path)
    _, found = examine(source)
    return [each.render(source.text).splitlines()[0].replace(f"{path.parent}/", "") for each in found]


def test_an_import_is_a_child_with_its_values(tmp_path: Path) -> None:
    """In its flow, its texts and the files of its prompts."""
    path = write(tmp_path, main=main('import "polish.at" as p with { tone: dry, rounds: 2 }'), polish=POLISH)

    agent = planned(path).agents["p"]
    assert (agent.kind, agent.backend) == ("topology", "")
    assert agent.child is not None
    assert agent.child.agents["editor"].prompt == "Be dry, not ${param.other}, in ${LANG}."
    assert agent.child.coordination is not None
    assert agent.child.coordination.exit == "critic"
    assert [group.max for group in agent.child.coordination.groups] == [None, None, 2]
    assert agent.child.folder == str(tmp_path.resolve())


def test_the_outputs_of_an_import_are_known_and_not_judged_twice(tmp_path: Path) -> None:
    """Its own run judged them; when its exit had no turn they are not there, and nobody is asked again."""
    path = write(tmp_path, main=main('import "polish.at" as p with { tone: dry }'), polish=POLISH)

    [wanted] = planned(path).agents["p"].outputs
    assert (wanted.name, wanted.type, wanted.values, wanted.declared) == (
        "verdict",
        "enum",
        ("revise", "approve"),
        False,
    )


def test_a_file_imported_twice_is_two_teams(tmp_path: Path) -> None:
    """Each with its own values."""
    statement = 'import "polish.at" as p with { tone: dry }  import "polish.at" as q with { tone: warm }'
    path = write(tmp_path, main=main(statement, "a -> p -> q"), polish=POLISH)

    agents = planned(path).agents
    prompts = [agents[name].child.agents["editor"].prompt for name in "pq" if agents[name].child]  # type: ignore[union-attr]
    assert prompts == ["Be dry, not ${param.other}, in ${LANG}.", "Be warm, not ${param.other}, in ${LANG}."]


def test_a_team_whose_parameters_lack_values_is_valid_and_not_run(tmp_path: Path) -> None:
    """It is told which, and how to give them."""
    path = write(tmp_path, main=POLISH)

    assert said(path)[0] == "main.at:2:12: note[param-not-set]: 'polish' needs a value for 'tone'"
    source = read(path)
    assert source.topology is not None
    made, [found] = plan(source.topology)
    assert made is None
    assert (found.is_error, found.hint) == (True, "run it with --set tone=…")


def test_an_inner_topology_that_wants_values_is_imported(tmp_path: Path) -> None:
    """An agent's extension can give none."""
    text = main('agent p { extensions { coterie { topology: "polish.at" } } }')
    path = write(tmp_path, main=text, polish=POLISH)

    assert said(path) == ["main.at:2:46: error[missing-param]: 'polish.at' needs a value for 'tone'"]


def test_a_fragment_is_valid_and_not_run(tmp_path: Path) -> None:
    """Not as an inner topology either."""
    part = "fragment part {\n  agent x { model: m }\n  flow { x -> y }\n}\n"
    text = main('agent p { extensions { coterie { topology: "part.at" } } }')
    path = write(tmp_path, main=text, part=part)

    assert said(tmp_path / "part.at") == [
        "part.at:1:1: note[fragment]: 'part' is a fragment, which cannot run by itself"
    ]
    assert said(path) == [
        "main.at:2:46: error[no-topology]: 'part.at' is a fragment, and only a topology can be a node"
    ]


def test_what_is_in_a_registry_is_not_fetched(tmp_path: Path) -> None:
    """The file is valid, and a run is refused."""
    path = write(tmp_path, main=main('import "catalogue/polish@1.2.0" as p'))

    assert said(path) == [
        "main.at:2:10: warning[registry-import]: 'catalogue/polish@1.2.0' is in a registry, but nothing is downloaded"
    ]
    source = read(path)
    assert source.topology is not None
    assert plan(source.topology)[0] is None


def test_a_finding_of_planning_is_told_in_its_file(tmp_path: Path) -> None:
    """With that file's line, also when the file is included by an inner topology."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "part.at").write_text(
        'fragment part {\n  agent x {\n    extensions { coterie { backend: "nobody" } } } }\n'
    )
    inner = 'topology inner : [pipeline] { include "parts/part.at"  flow { x -> x [max 2] } }'
    path = write(
        tmp_path,
        main='topology t : [pipeline] {\n  include "parts/part.at"\n  flow { x -> x [max 2] }\n}',
        inner=inner,
        outer=main('import "inner.at" as p'),
    )

    fault = "'backend' of agent 'x' must be a backend, not 'nobody'"
    assert said(path) == [f"parts/part.at:3:37: error[unknown-backend]: {fault}"]
    source = read(path)
    [found] = examine(source)[1]
    assert found.render(source.text).splitlines()[1] == '  3 |     extensions { coterie { backend: "nobody" } } } }'
    assert said(tmp_path / "outer.at") == [f"outer.at:2:10: error[unknown-backend]: parts/part.at:3:37: {fault}"]


def test_an_import_made_in_python_brings_its_topology(tmp_path: Path) -> None:
    """The file it names is then the place where it would lie."""
    (tmp_path / "inner.at").write_text("not read")
    inner = topology("topology inner : [pipeline] { agent x { model: m }  flow { x -> x [max 2] } }")
    node = Agent(name="p", extension={"topology": "inner.at"}, imported=Import(source="inner.at", topology=inner))
    outer = topology(main("agent p { model: m }"), tmp_path)
    made, _ = plan(Topology(**{**_fields(outer), "nodes": (outer.nodes[1], node)}))

    assert made is not None
    assert made.agents["p"].child is not None


def _fields(value: Topology) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


@pytest.mark.parametrize("folder", ["parts", "parts/deeper"])
def test_paths_begin_where_they_are_written(tmp_path: Path, folder: str) -> None:
    """Prompts, imports and inner topologies of a fragment lie beside it."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    write(place, polish=POLISH)
    (place / "part.at").write_text(
        'fragment part { agent x { model: m  prompt: "words.md" }  import "polish.at" as p with { tone: dry }\n'
        'agent y { extensions { coterie { topology: "plain.at" } } } }'
    )
    (place / "plain.at").write_text("topology plain : [pipeline] { agent z { model: m }  flow { z -> z [max 2] } }")
    path = tmp_path / "main.at"
    path.write_text(main(f'include "{folder}/part.at"', "a -> x -> p -> y"))

    made = planned(path)
    assert made.agents["x"].prompt.startswith("Be ${param.tone}")
    assert made.agents["p"].child is not None
    assert made.agents["p"].child.folder == str(place)
    assert made.agents["y"].child is not None


def test_a_prompt_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    """From a fragment neither."""
    (tmp_path / "secret.md").write_text("hidden")
    team = tmp_path / "team"
    (team / "parts").mkdir(parents=True)
    (team / "parts" / "part.at").write_text('fragment part { agent x { model: m  prompt: "../../secret.md" } }')
    path = team / "main.at"
    path.write_text(main('include "parts/part.at"', "a -> x"))

    assert said(path) == [
        "parts/part.at:1:45: error[outside-folder]: the prompt of agent 'x' names 'parts/../../secret.md', "
        "which is outside the topology's folder"
    ]

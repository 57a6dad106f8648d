"""`coterie.flow` builds the team that a file would describe."""

import asyncio
import shutil
import warnings
from pathlib import Path
from typing import Any, Literal

import flow_agents as functions
from bundles import bundle

import coterie
from coterie import action, agent, flow, gate, human
from coterie.patterns import debate
from coterie.team.topology.model import Topology

ECHO = ["sh", "-c", "cat >/dev/null; echo ok"]

FILE = """
topology review : [pipeline, fan-out, human-gate] {
  agent planner { prompt: "Plan." extensions { coterie { command: ["true"] } } }
  agent analyst { model: haiku }
  agent security { model: opus }
  agent writer { model: sonnet retry: 2 on-fail: skip reads: [analyst] }
  agent reviewer { model: opus outputs { verdict: approve | revise } }
  human boss { description: "Publish?" outputs { answer: yes | no } timeout: 1d }
  action publish { commands: ["echo done"] }
  gate tests { after: writer before: reviewer run: "true" on-fail: bounce-back retry: 2 }
  flow {
    planner -> [analyst, security]
    [analyst, security] -> writer
    writer -> reviewer
    reviewer -> writer [when reviewer.verdict == "revise", max 2, per planner, on-max fail]
    reviewer -> boss [when reviewer.verdict == "approve"]
    boss -> publish [when boss.answer == "yes"]
    boss -> writer [when boss.answer == "no", max 1]
  }
}
"""


def in_python() -> Topology:
    planner = agent("planner", prompt="Plan.", command=["true"])
    analyst, security = agent("analyst", model="haiku"), agent("security", model="opus")
    writer = agent("writer", model="sonnet", max_retries=2, on_fail="skip", reads=[analyst])
    reviewer = agent("reviewer", model="opus", outputs={"verdict": Literal["approve", "revise"]})
    boss = human("boss", "Publish?", outputs={"answer": Literal["yes", "no"]}, timeout_seconds=86400)
    publish = action("publish", "echo done")
    tests = gate("tests", "true", after=writer, before=reviewer, on_fail="bounce-back", max_retries=2)
    again = (reviewer >> writer).when(reviewer.verdict == "revise").max(2).per(planner).on_max("fail")
    return flow(
        "review",
        [planner, analyst, security, writer, reviewer, boss, publish, tests],
        [
            planner >> [analyst, security],
            [analyst, security] >> writer >> reviewer,
            again,
            (reviewer >> boss).when(reviewer.verdict == "approve"),
            (boss >> publish).when(boss["answer"] == "yes"),
            (boss >> writer).when(boss.answer == "no").max(1),
        ],
    )


def test_a_flow_in_python_has_the_plan_of_its_file(tmp_path: Path) -> None:
    """Every kind of node and attribute gives the plan that the notation gives."""
    (tmp_path / "review.at").write_text(FILE)
    built = coterie.plan(in_python())

    assert built.content_hash() == coterie.plan(coterie.load(tmp_path / "review.at")).content_hash()


def test_a_flow_is_written_and_read_again(tmp_path: Path) -> None:
    """What `to_at` writes has the plan of the team that it was made of."""
    team = in_python()
    (tmp_path / "team.at").write_text(coterie.to_at(team))

    assert coterie.plan(coterie.load(tmp_path / "team.at")).content_hash() == coterie.plan(team).content_hash()


REPOSITORY = Path(__file__).parents[2]


def _flows(folder: str) -> list[str]:
    found = sorted(path.relative_to(REPOSITORY) for path in (REPOSITORY / folder).rglob("*.at"))
    return [str(path) for path in found if not path.name.startswith(("invalid", "."))]


@bundle(
    "name", [one for folder in ("examples", "tests/data/at/valid", "tests/data/at/rules") for one in _flows(folder)]
)
def test_every_flow_of_a_file_is_written_and_read_again(name: str, tmp_path: Path) -> None:
    """Whatever a file contains, the text that `to_at` makes of it has the same plan, and is written alike again."""
    path = REPOSITORY / name
    try:
        team = coterie.load(path)
        plan = coterie.plan(team)
    except coterie.TopologyError:  # a rule's valid case may lack a backend, or be a fragment
        return
    if plan.flow is None:
        return
    text = coterie.to_at(team)
    written = shutil.copytree(path.parent, tmp_path / "copy") / "written.at"
    written.write_text(text)
    again = coterie.load(written)

    assert coterie.plan(again).content_hash() == plan.content_hash()
    assert coterie.to_at(again) == text


def test_functions_are_written_by_module_and_name() -> None:
    """A function is `type: module:name`, and its schemas are in the file."""
    editor, reviewer = agent(functions.editor), agent(functions.reviewer)
    team = flow(
        "note",
        [editor, reviewer],
        [editor >> reviewer, (reviewer >> editor).when(reviewer.verdict == "revise").max(2)],
    )
    text = coterie.to_at(team)

    assert 'type: "flow_agents:editor"' in text
    assert "schemas {" in text
    assert "reads: [reviewer]" in text


def test_teams_patterns_classes_and_people_are_nodes() -> None:
    """What may fill a slot may be a node, and runs."""
    inner = flow("inner", [agent("one", command=ECHO)])
    talk = debate(proponent=agent(command=ECHO), opponent=agent(command=ECHO), mediator=agent(command=ECHO))
    nested, argued = agent("nested", inner), agent("argued", talk)
    echo, boss = agent("echo", functions.Echo), human("boss", "Well?", outputs={"answer": str})
    team = flow("outer", [nested, argued, echo, boss], [nested >> argued >> echo >> boss], result=echo)

    async def answer(request: Any) -> str:
        return "answer: fine"

    outcome = asyncio.run(coterie.run(team, "tea", human=answer))

    assert outcome.status == "completed", outcome.reason
    plan = coterie.plan(team)
    assert [one.kind for one in plan.agents.values()] == ["topology", "topology", "agent", "human"]


def test_a_person_may_answer_with_values() -> None:
    """By name, or the only one that is wanted; what is neither is the reason of the failure."""

    async def answers(value: Any) -> Any:
        async def answer(request: Any) -> Any:
            return value

        boss = human("boss", "Well?", outputs={"fine": bool})
        outcome = await coterie.run(flow("asked", [boss]), human=answer)
        return outcome.result.outputs.get("boss") or outcome.reason

    assert asyncio.run(answers({"fine": True})) == {"fine": True}
    assert asyncio.run(answers(False)) == {"fine": False}
    assert "not JSON serializable" in asyncio.run(answers(object()))


def test_agents_without_arrows_work_side_by_side() -> None:
    """A flow of agents alone starts them all."""
    outcome = asyncio.run(coterie.run(flow("pair", [agent("a", command=ECHO), agent("b", command=ECHO)]), "tea"))

    assert set(outcome.result.outputs) == {"a", "b"}


def test_a_prompt_of_several_lines_keeps_its_text(tmp_path: Path) -> None:
    """Indentation, quotes, braces and empty lines of prompts survive the way through a file."""
    texts = [
        "Two\nlines",
        "  indented\n    more\n\nend",
        'a "quote" {brace}\nnext',
        "tab\there",
        "trailing \nblank",
        "",
    ]
    for n, text in enumerate(texts):
        team = flow("one", [agent("writer", model="haiku", prompt=text)])
        path = tmp_path / f"{n}.at"
        path.write_text(coterie.to_at(team))
        assert coterie.plan(coterie.load(path)).agents["writer"].prompt == text


def test_warnings_of_a_flow_are_warnings_of_python() -> None:
    """What `validate` warns of is a warning where the flow is built."""
    a, b, c = (agent(name, model="haiku") for name in "abc")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        flow("odd", [a, b, c], [a >> b])
    assert "[unused-agent]" in str(found[0].message)
    assert found[0].filename == __file__


def test_the_shape_of_the_readme_in_python() -> None:
    """The team that README opens with has the plan of its file."""
    planner = agent("planner", model="sonnet", tools=["Read", "Grep"])
    analyzer = agent("analyzer", model="sonnet", tools=["Read", "Grep"])
    security = agent("security", model="opus", tools=["Read", "Grep"])
    writer = agent("writer", model="sonnet", tools=["Read", "Write"])
    reviewer = agent("reviewer", model="opus", tools=["Read"])
    team = flow(
        "code-review",
        [planner, analyzer, security, writer, reviewer],
        [
            planner >> [analyzer, security],
            [analyzer, security] >> writer >> reviewer,
            (reviewer >> writer).when(reviewer.verdict == "revise").max(2),
        ],
    )
    text = "topology code-review" + (REPOSITORY / "README.md").read_text().partition("topology code-review")[2]

    assert coterie.plan(team).content_hash() == coterie.plan(coterie.load(text.partition("```")[0])).content_hash()


def test_the_incident_in_python() -> None:
    """Programs that fail, hang and print too much, a fallback and a person: the plan of `examples/incident`."""
    folder = REPOSITORY / "examples" / "incident"

    def program(name: str, file: str, *words: str, **settings: Any) -> Any:
        return agent(name, command=["{python}", f"{{here}}/agents/{file}.py", *words], **settings)

    collector = program(
        "collector",
        "collector",
        description="Prints the service's log, all of it",
        outputs={"lines": int},
        timeout_seconds=60,
    )
    archive = program("archive", "status", "--stored", description="Gives the last status that was stored")
    status = program(
        "status", "status", description="Requests the status page, which is down", max_retries=1, fallback=archive
    )
    tracer = program(
        "tracer", "tracer", description="Follows a request, and never ends", on_fail="skip", timeout_seconds=2
    )
    digest = program(
        "digest",
        "digest",
        description="Says what the log and the status page have to say",
        reads=[collector, status, tracer],
        outputs={"errors": int},
    )
    lead = human(
        "lead",
        "Wake the person on call? Answer page or wait, with a reason if you like.",
        outputs={"verdict": Literal["page", "wait"]},
        timeout_seconds=7 * 86400,
    )
    pager = program("pager", "close", "paged the person on call", reads=[digest])
    diary = program("diary", "close", "wrote it down for the morning", reads=[digest])
    team = flow(
        "incident",
        [collector, status, tracer, digest, lead, pager, diary],
        [
            [collector, status, tracer] >> digest >> lead,
            (lead >> pager).when(lead.verdict == "page"),
            (lead >> diary).when(lead.verdict == "wait"),
        ],
        folder=folder,
    )

    assert coterie.plan(team).content_hash() == coterie.plan(coterie.load(folder / "incident.at")).content_hash()


def test_a_fraction_of_a_second_is_written_and_read_again(tmp_path: Path) -> None:
    """A time-out in the notation is in whole seconds, so a fraction has a field of its own."""
    writer = agent("writer", timeout_seconds=1.5, command=["true"])
    critic = agent("critic", timeout_seconds=90, command=["true"])
    team = flow("slow", [writer, critic], [writer >> critic, (critic >> writer).max(2)])
    (tmp_path / "team.at").write_text(coterie.to_at(team))
    again = coterie.plan(coterie.load(tmp_path / "team.at"))

    assert {name: one.timeout for name, one in again.agents.items()} == {"writer": 1.5, "critic": 90.0}
    assert again.content_hash() == coterie.plan(team).content_hash()


def tells(first: str) -> str:
    """What the agent `first` said."""
    return first


def test_a_function_reads_what_it_is_told_to_beside_its_parameters() -> None:
    """Neither replaces the other."""
    first, second, last = (agent(name, command=["true"]) for name in ("first", "second", "last"))
    teller = agent(tells, reads=[second])
    team = flow("told", [first, second, last, teller], [first >> second >> last >> teller])

    assert coterie.plan(team).agents["tells"].reads == ("second", "first")

"""Work on a list, in Python and in files: the same flow, and its results in the items' order."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import coterie
from coterie.errors import TopologyError, UsageError
from coterie.execution.runs.rehearsal import rehearse
from coterie.history.engines.commands import Note
from coterie.history.engines.flow import FlowEngine
from coterie.history.journal.records import RunStarted, SetEnded
from coterie.team.formats import read_text
from coterie.team.formats.at.layout import format_text
from coterie.team.formats.at.writer import to_at
from coterie.team.planning import plan
from coterie.team.planning.plan import ChunkedFlowPlan, FlowPlan, MappedFlowPlan, from_json, to_json

ASKED: list[str] = []


def scout(prompt: str) -> list[str]:
    return ["a", "b", "c"]


def reader(item: str) -> int:
    """Fails twice for one item."""
    ASKED.append(item)
    if item == "b" and ASKED.count("b") < 3:
        raise ValueError("unreadable")
    return len(ASKED) if item == "c" else 0


def by_singular(file: str) -> str:
    return file.upper()


def total(reader: list[int]) -> str:
    return f"{len(reader)} read"


def result_of(team: coterie.Topology, given: Any = "go") -> Any:
    return asyncio.run(coterie.run(team, given)).result


def test_map_and_reduce_in_python() -> None:
    """A function gets its item; an item that fails twice is asked again; the next function gets the list."""
    ASKED.clear()
    find, read, sum_up = coterie.agent(scout), coterie.agent(reader, max_retries=2), coterie.agent(total)
    arrows = [(find >> read).each(find.result, at_most=10, at_once=3), read >> sum_up]

    assert result_of(coterie.flow("review", [find, read, sum_up], arrows, result=sum_up)) == "3 read"
    assert sorted(ASKED) == ["a", "b", "b", "b", "c"]


def test_a_mapped_exit_gives_a_list_of_the_runs_own_list() -> None:
    """The parameter may be the singular of the list's name."""
    shout = coterie.agent(by_singular)
    team = coterie.flow("shout", [shout], [shout.each("files", at_most=2)], result=[shout])

    assert result_of(team, {"files": ["x", "y"]}) == ["X", "Y"]
    for given, why in (
        ({"files": ["x"] * 3}, "at most 2"),
        ("go", "missing; pass"),
        ({"files": "x"}, "is not a list"),
    ):
        with pytest.raises(UsageError, match=why):
            result_of(team, given)


def stores(item: str) -> None:
    assert item


def undeclared(item: str) -> Any:
    return {"length": len(item)} if item != "b" else None


def sees_undeclared(undeclared: Any) -> Any:
    return undeclared


def sees_stored(stores: list[None]) -> list[None]:
    return stores


def sees_each_desk(desk: list[int | None]) -> list[int | None]:
    return desk


def mapped_and_read(mapped: Any, reader: Any = None) -> coterie.Topology:
    """*mapped* on each of the run's items, whose answers *reader* gives, or the flow itself."""
    nodes, last = (mapped, reader) if reader else (mapped,), reader or [mapped]
    return coterie.flow(
        "t", nodes, [mapped.each("items", at_most=3), *([mapped >> reader] if reader else [])], result=last
    )


@pytest.mark.parametrize("items", [[], ["a", "b", "c"]])
def test_a_function_that_gives_nothing_gives_a_list_of_none(items: list[str]) -> None:
    """One for each item: to a reader, as the result, and from a flow at the mapped node."""
    one = coterie.agent(stores)
    desk = coterie.agent("desk", coterie.flow("inner", [one], result=one))
    for mapped, reader in ((one, sees_stored), (desk, sees_each_desk)):
        for team in (mapped_and_read(mapped), mapped_and_read(mapped, coterie.agent(reader))):
            assert result_of(team, {"items": items}) == [None] * len(items)


def test_a_function_that_declares_nothing_gives_the_outputs_that_it_gave() -> None:
    """They are lists by name; where no item gave any, there is one list of None."""
    team = mapped_and_read(coterie.agent(undeclared), coterie.agent(sees_undeclared))

    assert result_of(team, {"items": ["a", "b"]}) == {"length": [1, None]}
    assert result_of(team, {"items": ["b"]}) == [None]


@pytest.mark.parametrize(("version", "names"), [(3, ()), (FlowEngine.version, ("result",))])
def test_a_set_that_an_earlier_version_began_ends_as_it_did(version: int, names: tuple[str, ...]) -> None:
    """Its journal has the end of a set without outputs, with which the engine must agree."""
    made = coterie.plan(mapped_and_read(coterie.agent(stores)))
    assert isinstance(made.coordination, FlowPlan)
    engine = FlowEngine(made.coordination, made.agents)
    (begun,) = engine.step(RunStarted(run="r", engine="flow", engine_version=version, input={"items": []}))
    (ended,) = engine.step(begun.record)  # type: ignore[union-attr]

    assert ended == Note(record=SetEnded(set="stores@1", outputs=names))


def several(files: list[str]) -> str:
    return "".join(files)


def test_an_item_may_be_several_of_the_list() -> None:
    """The last one is shorter; a function may call them by the name of the list."""
    join = coterie.agent(several)
    team = coterie.flow("join", [join], [join.each("files", by=2, at_most=2)], result=[join])

    assert result_of(team, {"files": ["a", "b", "c"]}) == ["ab", "c"]
    assert result_of(team, {"files": []}) == []
    with pytest.raises(UsageError, match="has 3 lists of up to 2 items, but 'several' takes at most 2"):
        result_of(team, {"files": ["x"] * 5})
    with pytest.raises(UsageError, match="whole numbers from 1"):
        join.each("files", by=0, at_most=2)


def test_the_result_says_whether_it_is_a_list() -> None:
    """Type checkers cannot see which agent is mapped, so the flow is told; the other form is refused."""
    shout = coterie.agent(by_singular)
    with pytest.raises(
        UsageError, match=r"works on each item of a list, and gives a list: write result=\[by_singular\]"
    ):
        coterie.flow("t", [shout], [shout.each("files", at_most=2)], result=shout)
    with pytest.raises(UsageError, match="by_singular works once: write result=by_singular"):
        coterie.flow("t", [shout], result=[shout])
    for several in ([], [shout, shout]):
        with pytest.raises(UsageError, match="is one of its agents"):
            coterie.flow("t", [shout], result=several)


def sums(cat: list[str]) -> int:
    return len(cat)


def test_answers_without_outputs_are_one_text() -> None:
    """Whoever wants a list of them learns what to declare, before anything runs."""
    cat = coterie.agent("cat", command=["cat"])
    with pytest.raises(UsageError, match=r"the answers of cat have no type of Python: give it outputs=TYPE"):
        mapped_and_read(cat)
    with pytest.raises(UsageError, match=r"reads 'cat' as list\[str\], and cat gives one text.*outputs=\{…\}"):
        mapped_and_read(cat, coterie.agent(sums))


def test_a_condition_on_items_says_which() -> None:
    """Also in Python."""
    find, read = coterie.agent(scout), coterie.agent(reader)
    mapped = (find >> read).each(find.result, at_most=3)
    for wrong in (read.result == 1, find.result.any == 1):
        with pytest.raises(TopologyError):
            coterie.flow("t", [find, read], [mapped, (read >> find).when(wrong).max(1)])


TEXT = """\
topology review : [pipeline, fan-out] {
  agent scout { model: sonnet  outputs { files: list of text, tags: list } }
  agent reader { model: sonnet  outputs { verdict: ok | bad } }
  agent checker { model: sonnet }
  agent writer { model: sonnet }
  flow {
    checker [each input.words by 3, at-most 9]
    scout -> [reader, writer] [max 2, each scout.files, at-most 5, at-once 2, on-more first, tolerate 9%, EARLY]
    reader -> writer [when all reader.verdict == ok, each scout.files, at-most 5, at-once 2, on-more first, tolerate 9%]
  }
}
"""
EARLY = "until any reader.verdict == bad"


def test_files_are_read_formatted_and_written_again() -> None:
    """Every attribute survives; formatting twice changes nothing."""
    text = TEXT.replace(", EARLY", "")
    found = read_text(text)
    assert found.topology is not None
    assert [one.message for one in found.diagnostics if one.is_error] == []

    formatted = format_text(text)
    again = read_text(formatted).topology
    written = read_text(to_at(found.topology)).topology
    assert again is not None
    assert written is not None
    assert format_text(formatted) == formatted
    assert again.flow == found.topology.flow == written.flow
    assert [str(one) for one in again.flow.each] == [
        "each input.words by 3, at-most 9",
        *["each scout.files, at-most 5, at-once 2, on-more first, tolerate 9%"] * 3,
    ]


def test_until_is_read() -> None:
    """It is a condition on the node itself."""
    found = read_text(TEXT.replace("EARLY", EARLY)).topology
    assert found is not None
    assert found.flow is not None
    assert str(found.flow.each[1].until) == 'any reader.verdict == "bad"'


def test_a_plan_with_maps_has_a_tag_of_its_own_and_one_without_is_as_before() -> None:
    """Releases that do not know maps refuse it."""
    made = plan(read_text(TEXT.replace(", EARLY", "")).topology)[0]  # type: ignore[arg-type]
    assert made is not None
    assert isinstance(made.coordination, ChunkedFlowPlan)
    assert from_json(to_json(made)) == made
    assert b'"engine":"flow-each-by"' in to_json(made)
    single = plan(read_text(TEXT.replace(", EARLY", "").replace(" by 3", "")).topology)[0]  # type: ignore[arg-type]
    assert single is not None
    assert isinstance(single.coordination, MappedFlowPlan)
    assert b'"engine":"flow-each"' in to_json(single)
    assert b'"by"' not in to_json(single)

    plain = plan(read_text("topology t : [pipeline] {\n agent a { model: x }\n flow { a }\n}\n").topology)[0]  # type: ignore[arg-type]
    assert plain is not None
    assert type(plain.coordination) is FlowPlan
    assert b"maps" not in to_json(plain)


def test_a_rehearsal_shows_the_sets() -> None:
    """`sets` has an entry for each; a turn of a set says which item it worked on."""
    team = read_text(
        "topology t : [pipeline] {\n agent a { model: x  outputs { l: list } }\n agent b { model: x }\n"
        " flow { a -> b [each a.l, at-most 3] }\n}\n"
    ).topology
    played = rehearse(team, "go", {"a": [{"outputs": {"l": [1, 2, 3]}}]})  # type: ignore[arg-type]

    assert [turn.get("item") for turn in played["turns"]] == [None, [1, 3], [2, 3], [3, 3]]
    assert [(one["agent"], one["n"], one["items"], one["marked_by"]) for one in played["sets"]] == [("b", 1, 3, ["a"])]


FILE = """\
topology read : [fan-out] {
  agent scout { extensions { coterie { type: "documents:scout" } } outputs { result: list of text } }
  agent reader { retry: 2 extensions { coterie { type: "documents:reader" } } outputs { result: integer } }
  agent writer { extensions { coterie { type: "documents:writer" } } outputs { result: integer } }
  flow {
    scout -> reader [each scout.result, at-most 10, at-once 3]
    reader -> writer }
}
"""
CODE = """\
tries = {}

def scout() -> list[str]:
    return [f"document {n}" for n in range(10)]

def reader(item: str) -> int:
    tries[item] = tries.get(item, 0) + 1
    assert item != "document 4" or tries[item] > 2, "unreadable"
    return len(item)

def writer(reader: list[int]) -> int:
    return sum(reader)
"""


@pytest.mark.slow
def test_map_and_reduce_over_ten_documents_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three at once, one of which fails twice: at most 8 lines of `.at` and 12 of Python."""
    (tmp_path / "read.at").write_text(FILE)
    (tmp_path / "documents.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    assert result_of(coterie.load("read.at"))["outputs"] == {"writer": {"result": 100}}
    assert sys.modules["documents"].tries == {f"document {n}": 1 + 2 * (n == 4) for n in range(10)}
    assert FILE.count("\n") <= 8
    assert CODE.count("\n") <= 12

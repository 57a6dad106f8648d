"""The repository of runs: what it finds, the tree of child runs, and how often a resume decodes a journal."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from decoded import count_decoded
from loop_play import loop_plan, plan_of
from msgspec.structs import replace
from steps import most_held

from coterie.agents.backends.base import Answer, OnEvent, Request
from coterie.errors import JournalUnreadable, NoSuchRun, NoSuchTurn
from coterie.execution.kernel.turns import CompletedSession
from coterie.execution.runs import launch
from coterie.execution.runs.fork import fork
from coterie.execution.runs.local_turns import LocalTurns
from coterie.execution.runs.outcome import Outcome
from coterie.execution.runs.repository import Runs, find
from coterie.execution.runs.turn_detail import detail
from coterie.history.journal import lines, texts
from coterie.history.journal.jsonl import JOURNAL
from coterie.history.journal.records import OperatorSaid, RunFinished, TurnCancelled
from coterie.team.planning.place import RunPlace
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan
from coterie.team.topology.model import ArrowGroup

CHILD, GRANDCHILD = "r/team#1.1", "r/team#1.1/team#1.1"


class Stub:
    """A backend that answers at once."""

    def __init__(self, answer: str = "done") -> None:
        self._answer = answer

    async def start(self, request: Request, on_event: OnEvent) -> CompletedSession:
        return CompletedSession(Answer(text=self._answer.format(turn=request.turn)))

    async def close(self) -> None: ...


def team(depth: int) -> Plan:
    """`a`, then a team of the same form while *depth* lasts, then `b`."""
    middle = AgentPlan(name="team", backend="stub")
    if depth:
        middle = AgentPlan(name="team", kind="topology", child=team(depth - 1))
    agents = {"a": AgentPlan(name="a", backend="stub"), "team": middle, "b": AgentPlan(name="b", backend="stub")}
    groups = (ArrowGroup(source="a", targets=("team",)), ArrowGroup(source="team", targets=("b",)))
    return Plan(name="team", agents=agents, coordination=FlowPlan(mentions=tuple(agents), groups=groups))


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A state directory with a run `r`, three deep, that stopped in its innermost team."""
    return stopped_in(tmp_path, team(2), Limits(max_turns=4))


def stopped_in(folder: Path, plan: Plan, limits: Limits, answer: str = "done") -> Path:
    """The state directory *folder* with a run `r` of *plan* that *limits* stopped."""
    turns = LocalTurns({"stub": Stub(answer)})
    main = launch.start(plan, {"prompt": "x"}, state_dir=folder, run_id="r", turns=turns, limits=limits)
    assert asyncio.run(main).status == "stopped"
    return folder


def resumed(folder: Path, limits: Limits, answer: str = "done") -> Outcome:
    """The outcome of that run, resumed with *limits*."""
    turns = LocalTurns({"stub": Stub(answer)})
    return asyncio.run(launch.resume("r", limits=limits, state_dir=folder, turns=turns))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, int]]:
    """How often each record was decoded, by its journal and seq."""
    return count_decoded(monkeypatch)


def test_a_resume_decodes_each_record_once(stopped: Path, decoded: Counter[tuple[str, int]]) -> None:
    """For the plan, the claim and the fold, of the run and of the child runs that go on."""
    main = launch.resume("r", limits=Limits(max_turns=-1), state_dir=stopped, turns=LocalTurns({"stub": Stub()}))

    assert asyncio.run(main).status == "completed"
    assert len({place for place, _ in decoded}) == 3
    assert set(decoded.values()) == {1}


def test_what_earlier_owners_did_is_recalled_without_decoding_it_again(
    stopped: Path, decoded: Counter[tuple[str, int]]
) -> None:
    """A display gets all records of the tree before the first new one."""
    told: list[str] = []
    main = launch.resume(
        "r",
        state_dir=stopped,
        turns=LocalTurns({"stub": Stub()}),
        limits=Limits(max_turns=-1),
        recall=lambda news: told.extend(run for run, _ in news),
        observe=lambda run, record: told.append("new"),
    )

    assert asyncio.run(main).status == "completed"
    assert list(dict.fromkeys(told)) == ["r", CHILD, GRANDCHILD, "new"]
    assert set(decoded.values()) == {1}


def test_a_long_journal_is_resumed_as_a_short_one(
    stopped: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its records are read again instead of kept; what follows is the same."""

    def recorded(folder: Path) -> list[tuple[str, type, str]]:
        assert resumed(folder, Limits(max_turns=-1)).status == "completed"
        return [(run, type(one), getattr(one, "turn", "")) for run, one in Runs(folder).history("r")]

    short = recorded(stopped)
    monkeypatch.setattr(lines, "KEPT", 0)

    assert recorded(stopped_in(tmp_path_factory.mktemp("long"), team(2), Limits(max_turns=4))) == short


def test_a_resume_holds_a_small_part_of_a_long_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the records nor the answers that no later prompt shows."""
    for kept in (lines, texts):
        monkeypatch.setattr(kept, "KEPT", 100_000)
    rounds, answer = 100, "{turn} " + "abcdefghi " * 3_000
    agents = {name: AgentPlan(name=name, backend="stub") for name in "ab"}
    groups = (ArrowGroup(source="a", targets=("b",)), ArrowGroup(source="b", targets=("a",), max=rounds))
    plan = Plan(name="long", agents=agents, coordination=FlowPlan(mentions=("a", "b"), groups=groups))
    stopped_in(tmp_path, plan, Limits(max_turns=2 * rounds), answer)
    resumed(tmp_path, Limits(max_turns=2 * rounds))  # what is loaded once

    size = Runs(tmp_path).file("r").stat().st_size
    held = most_held(lambda: resumed(tmp_path, Limits(max_turns=2 * rounds)))
    assert size > 5_000_000
    assert held < size / 3, (held, size)


def test_a_journal_that_grew_since_it_was_read_is_claimed_as_it_is_now(stopped: Path) -> None:
    """Another owner may have driven the run in between, or put another journal in its place."""
    runs = Runs(stopped)
    early = runs.journal("r", is_claimed_next=True)
    assert (
        asyncio.run(
            launch.resume("r", limits=Limits(max_turns=-1), state_dir=stopped, turns=LocalTurns({"stub": Stub()}))
        ).status
        == "completed"
    )

    owner = runs.store.claim("r")
    now = list(runs.read("r"))
    owner.give_up()

    assert now[: len(early.records)] == list(early.records)
    assert owner.last == len(now) > len(early.records)

    runs.journal("r/team#1.1", is_claimed_next=True)
    lines = runs.file("r").read_bytes().splitlines(keepends=True)
    runs.file("r").unlink()
    runs.file("r").write_bytes(b"".join(lines[:2]))
    owner = runs.store.claim("r")
    owner.give_up()

    assert owner.last == len(list(Runs(stopped).read("r"))) < len(early.records)


def test_the_tree_is_read_once_each_run_with_its_plan(stopped: Path, decoded: Counter[tuple[str, int]]) -> None:
    """A team's plan is a part of the plan above it."""
    plan = team(2)
    below = plan.agents["team"].child
    assert below is not None

    told = [(one.run, one.turn, one.plan()) for one in Runs(stopped).tree("r")]

    assert told == [("r", "", plan), (CHILD, "team#1", below), (GRANDCHILD, "team#1", below.agents["team"].child)]
    assert set(decoded.values()) == {1}
    assert Runs(stopped).plan(GRANDCHILD) == told[2][2], "found from below, too"


def test_reading_can_be_awaited(stopped: Path) -> None:
    """A display or a service reads the same tree while its event loop goes on."""
    runs = Runs(stopped)

    async def main() -> None:
        found = [journal async for journal in runs.load_tree("r")]
        assert found == list(runs.tree("r"))
        assert (await runs.load(CHILD)).records == runs.journal(CHILD).records
        assert [(one.run, record) for one in found for record in one.records] == list(runs.history("r"))

    asyncio.run(main())


def test_a_run_is_found_by_what_a_person_types(stopped: Path) -> None:
    """An id, a beginning of one, `last`, and a child run behind any of them."""
    for name in ("r", "last"):
        assert find(name, stopped)[1] == "r"
    runs, run = find("last/team#1.1", stopped)

    assert (runs.root, run, runs.has(run), runs.list()) == (stopped, CHILD, True, ["r"])
    assert runs.status("r") == "stopped: max_turns"
    with pytest.raises(NoSuchRun):
        find("r/b#1.1", stopped)
    with pytest.raises(NoSuchRun):
        find("other", stopped)


def test_a_child_run_that_its_parents_plan_does_not_name_is_an_error_with_its_place(stopped: Path) -> None:
    """Such a folder came from somewhere else."""
    runs = Runs(stopped)
    strange = runs.file("r/b#1.1")
    strange.parent.mkdir(parents=True)
    strange.write_bytes(runs.file(CHILD).read_bytes())

    with pytest.raises(JournalUnreadable, match="no team 'b'"):
        runs.plan("r/b#1.1")


def test_a_run_that_never_began_has_no_plan(stopped: Path) -> None:
    """Its owner died before the first record was durable."""
    path = stopped / "runs" / "empty" / JOURNAL
    path.parent.mkdir()
    path.touch()

    with pytest.raises(JournalUnreadable, match="never began"):
        Runs(stopped).plan("empty")


def test_the_detail_of_a_turn_is_computed_by_the_library(stopped: Path, decoded: Counter[tuple[str, int]]) -> None:
    """Its question, its answer and its child run, from one reading of each journal; the command line only shows it."""
    runs = Runs(stopped)
    of_team, of_agent = detail(runs, "r", "team#1"), detail(Runs(stopped), CHILD, "a#1")

    assert (of_team.view.state, of_team.child) == ("running", CHILD)
    assert (of_agent.view.text, of_agent.child, of_agent.question.same) == ("done", None, True)
    assert {seq: n for (place, seq), n in decoded.items() if place == str(runs.file(CHILD))}[1] == 1
    with pytest.raises(NoSuchTurn):
        detail(runs, "r", "b#1")


def test_a_resume_of_a_loop_decodes_each_record_once(tmp_path: Path, decoded: Counter[tuple[str, int]]) -> None:
    """The files that it keeps for people are brought up to date from the same reading."""
    place = RunPlace(
        work_dir=str(tmp_path), state_dir=".autoloop", journal_file=".autoloop/journal.jsonl", project=str(tmp_path)
    )
    turns, state = LocalTurns({"stub": Stub()}), tmp_path / ".autoloop"
    plan = plan_of(loop_plan(place=place))
    plan = replace(plan, agents={name: replace(one, backend="stub") for name, one in plan.agents.items()})
    main = launch.start(plan, {"prompt": "x"}, state_dir=state, run_id="r", turns=turns, limits=Limits(max_turns=2))
    ended = asyncio.run(main)
    assert ended.status == "stopped", ended.reason
    (tmp_path / ".autoloop/journal.jsonl").unlink()
    decoded.clear()

    resumed = launch.resume("r", state_dir=state, turns=turns, limits=Limits(max_turns=3))

    assert asyncio.run(resumed).status == "stopped"
    assert set(decoded.values()) == {1}
    assert b"iteration" in (tmp_path / ".autoloop/journal.jsonl").read_bytes()


def test_a_resume_decodes_a_child_run_that_was_called_off_once(
    tmp_path: Path, decoded: Counter[tuple[str, int]]
) -> None:
    """Its owner was killed before it ended the child: whether that is open, its claim and its fold share a reading."""
    turns = LocalTurns({"stub": Stub()})
    main = launch.start(
        team(1), {"prompt": "x"}, state_dir=tmp_path, run_id="r", turns=turns, limits=Limits(max_turns=2)
    )
    assert asyncio.run(main).status == "stopped"
    runs = Runs(tmp_path)
    seq = len(list(runs.read("r")))
    writer = runs.store.claim("r")
    writer.append([OperatorSaid(seq=seq + 1, at=9e9, message="m", what="cancel", turn="team#1", source="operator")])
    cancelled = TurnCancelled(seq=seq + 2, at=9e9, turn="team#1", reason="cancelled by the operator")
    writer.append([cancelled])
    asyncio.run(writer.close())
    decoded.clear()

    assert asyncio.run(launch.resume("r", state_dir=tmp_path, turns=turns)).status != "stopped"
    child = str(runs.file(CHILD))
    assert {count for (place, _), count in decoded.items() if place == child} == {1}
    assert isinstance(list(runs.read(CHILD))[-1], RunFinished)


def test_a_fork_decodes_each_record_once(stopped: Path, decoded: Counter[tuple[str, int]]) -> None:
    """For the plan, the files that were kept and the copies of the run and its child runs."""
    made = fork("r", state_dir=stopped, run_id="again")

    assert made.run == "again"
    originals = {place: count for (place, _), count in decoded.items() if "again" not in place}
    assert (len(originals), set(originals.values())) == (3, {1})

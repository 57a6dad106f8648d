"""What readers of runs are shown beyond one journal: files, comparisons, details of a turn, rows of a list."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from audited import audited
from loop_play import plan_of
from page_runs import played
from stage import Cast, flow

from coterie.agents.backends.base import Answer
from coterie.errors import NoSuchTurn
from coterie.execution.runs.changed_files import changed_files
from coterie.execution.runs.comparison import compare
from coterie.execution.runs.repository import Runs, location_at
from coterie.execution.runs.rows import RunRows
from coterie.execution.runs.run_stream import RunStream
from coterie.execution.runs.turn_detail import detail
from coterie.history.journal import records as r
from coterie.history.journal.jsonl import JsonlStore
from coterie.history.views.compare import compare as compare_runs
from coterie.history.views.files import snapshots_of
from coterie.history.views.live import fold
from coterie.proofs.worst_case import worst_case
from coterie.team.planning.loop import LoopPlan
from coterie.team.planning.plan import AgentPlan, FlowPlan, Limits, Plan, Wanted, to_json
from coterie.team.topology.conditions import Condition, Operator
from coterie.team.topology.model import ArrowGroup

PLAN = flow("a -> b")


def write(
    state_dir: Path, run: str, *said: r.Record, plan: Plan = PLAN, keep: bool = False, **first: Any
) -> JsonlStore:
    """Write a journal: `run.started`, *said*; the store owns the run if it is to *keep* it."""
    store = JsonlStore(state_dir)
    writer = store.claim(run)
    engine = "loop" if isinstance(plan.coordination, LoopPlan) else "flow"
    begun = r.RunStarted(run=run, engine=engine, engine_version=3, plan=to_json(plan).decode(), **first)
    add(store, run, begun if "/" not in run else msgspec.structs.replace(begun, plan=""), *said)
    if not keep:
        writer.give_up()
        writer.lock.release()
    return store


def add(store: JsonlStore, run: str, *said: r.Record) -> None:
    """Append records to a run that *store* owns."""
    writer = store._writers[run]
    numbered = enumerate(said, writer.last + 1)
    writer.append([msgspec.structs.replace(one, seq=n, at=one.at or 1000.0 + n) for n, one in numbered])
    writer.flush()  # a loaded machine counts as a slow disk, for which `sync` writes nothing


def turn(id: str, at: float, *, ends: float | None, cause: int = 1, commit: str = "", **more: Any) -> list[r.Record]:
    """A turn with its snapshot."""
    agent = id.rpartition("#")[0]
    found: list[r.Record] = [r.TurnStarted(turn=id, agent=agent, at=at, cause=(cause, 0))]
    if commit:
        found.append(r.TreeSaved(turn=id, attempt=1, commit=commit, at=ends or at, apart=more.pop("apart", False)))
    if ends is not None:
        found.append(r.TurnFinished(turn=id, attempt=1, at=ends, **more))
    return found


# -- files --------------------


def numbered(*said: r.Record) -> list[r.Record]:
    return [msgspec.structs.replace(one, seq=n) for n, one in enumerate(said, 1)]


def test_the_snapshots_around_a_turn() -> None:
    """Before it is the last one of the same files, of any run of the tree; who worked meanwhile is named."""
    root = numbered(
        *turn("a#1", 1.0, ends=2.0, commit="A"),
        *turn("team#1", 2.0, ends=6.0, commit="T"),
        *turn("slow#1", 3.0, ends=9.0, commit="S"),
        *turn("b#1", 6.0, ends=7.0, commit="B"),
        *turn("late#1", 9.0, ends=None),
    )
    child = numbered(*turn("x#1", 4.0, ends=5.0, commit="X"))
    branch = [
        *numbered(
            r.TreeMade(run="r/w#1.1", path="p", branch="b", base="M"),
            *turn("y#1", 4.0, ends=5.0, commit="Y", apart=True),
        )
    ]
    log = [("r", one) for one in root] + [("r/team#1.1", one) for one in child] + [("r/w#1.1", one) for one in branch]
    found = {
        (run, id): snapshots_of(log, run, id)
        for run, id in [
            ("r", "a#1"),
            ("r", "team#1"),
            ("r", "b#1"),
            ("r", "late#1"),
            ("r/team#1.1", "x#1"),
            ("r/w#1.1", "y#1"),
        ]
    }
    shown = {id: (one.before, one.after, one.shared_with) for (_, id), one in found.items()}

    assert shown == {
        "a#1": ("", "A", ()),
        "team#1": ("A", "T", ("slow#1",)),
        "b#1": ("T", "B", ("slow#1",)),
        "late#1": ("S", "", ()),
        "x#1": ("A", "X", ("slow#1",)),
        "y#1": ("M", "Y", ()),
    }
    assert found["r", "late#1"].problem == "no snapshot was kept"
    with pytest.raises(NoSuchTurn):
        snapshots_of(log, "r", "x#1")


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Calls git in a new repository."""

    def call(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    call("init", "-q")
    return call


def test_the_diff_of_a_turn_and_the_command_that_takes_it(tmp_path: Path, git: Callable[..., str]) -> None:
    """Names with blanks, binary and deleted files; the command brings exactly these changes to a checkout."""
    (tmp_path / "gone.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text(".coterie\n")
    git("add", "-A")
    git("commit", "-qm", "1")
    (tmp_path / "early.txt").write_text("of another turn\n")
    git("add", "-A")
    git("commit", "-qm", "2")
    before = git("rev-parse", "HEAD")
    (tmp_path / "gone.txt").unlink()
    (tmp_path / "a b.txt").write_text("two\nthree\n")
    (tmp_path / "é.bin").write_bytes(b"\0\1\2")
    git("add", "-A")
    git("commit", "-qm", "3")
    after = git("rev-parse", "HEAD")
    said = [
        *turn("a#1", 1.0, ends=2.0, commit=before),
        *turn("b#1", 2.0, ends=3.0, commit=after),
        *turn("c#1", 3.0, ends=4.0, commit="f" * 40),
    ]
    write(tmp_path / ".coterie", "r", *said, cwd=str(tmp_path))
    runs = Runs(tmp_path / ".coterie")
    found = changed_files(runs, "r", "b#1")

    assert [(one.path, one.added, one.removed) for one in found.files] == [
        ("a b.txt", 2, 0),
        ("gone.txt", 0, 1),
        ("é.bin", None, None),
    ]
    assert "+three" in found.diff
    assert not found.problem
    git("checkout", "-q", "HEAD~2")
    subprocess.run(found.take, shell=True, cwd=tmp_path, check=True, capture_output=True)
    assert git("status", "--short") == 'A  "a b.txt"\nD  gone.txt\nA  "\\303\\251.bin"'
    assert [one.path for one in changed_files(runs, "r", "a#1").files] == ["early.txt"]
    assert "not in this machine's repository" in changed_files(runs, "r", "c#1").problem


def test_a_turn_without_a_snapshot_has_no_diff(tmp_path: Path) -> None:
    """It says why."""
    write(tmp_path, "r", *turn("a#1", 1.0, ends=2.0), *turn("b#1", 2.0, ends=None), cwd=str(tmp_path))
    problem = changed_files(Runs(tmp_path), "r", "a#1").problem

    assert problem == "no snapshot was kept; snapshots are kept in a git repository"


# -- two runs --------------------


def sides(*logs: list[r.Record]) -> Any:
    return compare_runs(
        *(fold([(f"r{n}", one) for one in numbered(*log)], f"r{n}").runs[f"r{n}"] for n, log in enumerate(logs))
    )


def test_two_runs_are_aligned_up_to_the_first_difference() -> None:
    """In what they differ is named; turns that only one has are where it has them."""
    one = [
        r.RunStarted(run="r0", engine="flow", input={"prompt": "x"}),
        *turn("a#1", 1.0, ends=2.0, text="same"),
        *turn("b#1", 2.0, ends=3.0, text="left", outputs={"n": 1}),
        *turn("d#1", 5.0, ends=6.0),
    ]
    other = [
        r.RunStarted(run="r1", engine="flow", input={"prompt": "y"}),
        *turn("a#1", 7.0, ends=9.0, text="same"),
        *turn("b#1", 9.0, ends=9.5, text="right", outputs={"n": 1}),
        *turn("c#1", 9.5, ends=9.6),
        *turn("d#1", 9.6, ends=None),
    ]
    found = sides(one, other)

    assert [(pair.turn, pair.differs) for pair in found.pairs] == [
        ("a#1", ()),
        ("b#1", ("text",)),
        ("c#1", ("missing",)),
        ("d#1", ("state",)),
    ]
    assert (found.same, found.first, found.differs) == (1, "b#1", ("input",))
    assert (found.pairs[2].a, found.pairs[2].b.agent) == (None, "c")
    assert sides(one, one).first == ""
    assert [pair.turn for pair in sides(other, one).pairs] == ["a#1", "b#1", "c#1", "d#1"]


def test_prompts_and_events_differ_but_not_by_the_path_of_a_command() -> None:
    """The prompt of an iteration holds the path of its command, which no two runs share."""

    def log(prompt: str, tool: str | None = None, event: str = "go") -> list[r.Record]:
        used = {"tool": tool} if tool else {}
        start = r.TurnStarted(turn="a#1", agent="a", prompt=prompt, used=used)
        return [r.RunStarted(run="r", engine="loop"), start, r.EventEmitted(turn="a#1", event=event)]

    assert sides(log("1"), log("2")).pairs[0].differs == ("prompt",)
    assert sides(log("1", "/x"), log("2", "/y")).pairs[0].differs == ()
    assert sides(log("1"), log("1", event="stop")).pairs[0].differs == ("events",)


def test_the_prompts_of_the_first_difference_are_beside_each_other(tmp_path: Path) -> None:
    """Rendered from both journals."""
    for run, prompt in (("r1", "one"), ("r2", "two")):
        hashed = hashlib.sha256(f"# Task\n\n{prompt}".encode()).hexdigest()
        start = r.TurnStarted(turn="a#1", agent="a", cause=(1, 0), prompt=hashed)
        write(tmp_path, run, start, input={"prompt": prompt})
    runs = Runs(tmp_path)
    found = compare((runs, "r1"), (runs, "r2"))

    assert found.prompts == ("# Task\n\none", "# Task\n\ntwo")
    assert found.pairs[0].differs == ("prompt",)


# -- a turn --------------------


def test_a_turn_in_detail(tmp_path: Path) -> None:
    """Each part of the prompt has its origin, each output its readers, each tool its result, each gate its output."""
    when = Condition("b", "verdict", Operator.EQ, "yes")
    groups = (ArrowGroup(source="a", targets=("b",)), ArrowGroup(source="b", targets=("c",), when=when))
    agents = {name: AgentPlan(name=name) for name in "ac"}
    agents["b"] = AgentPlan(
        name="b", prompt="Own prompt", role="Own role", outputs=(Wanted(name="verdict"),), reads=("notes.md",)
    )
    plan = Plan(name="t", agents=agents, coordination=FlowPlan(mentions=("a", "b", "c"), groups=groups))
    used = {"file:notes.md": "noted"}
    said: list[r.Record] = [
        *turn("a#1", 1.0, ends=2.0, text="what a said"),
        r.TurnStarted(turn="b#1", agent="b", inputs=("a#1",), cause=(3, 0), at=2.0, used=used),
        r.AttemptSession(turn="b#1", attempt=1, session="s-1", at=2.0),
        r.GateChecked(turn="b#1", attempt=1, argv=("make",), passed=True, output="all good", at=3.0),
        r.TurnFinished(turn="b#1", attempt=1, outputs={"verdict": "no"}, at=3.0),
    ]
    write(tmp_path, "r", *said, plan=plan, input={"prompt": "Do it", "depth": 2}, cwd=str(tmp_path))
    stream = tmp_path / "runs/r/turns/b#1.1/stream.jsonl"
    stream.parent.mkdir(parents=True)
    stream.write_text(
        '{"kind":"tool","name":"Bash","detail":"ls","id":"1"}\n{"kind":"text","text":"x"}\n'
        '{"kind":"tool","name":"Bash","state":"finished","id":"1","result":"a.txt"}\n{"kind":"tool","name":"Read","id":"2"}\n'
    )
    found = detail(Runs(tmp_path), "r", "b#1")

    assert [(part.origin, part.name) for part in found.question.parts] == [
        *(
            ("prompt", ""),
            ("role", ""),
            ("task", ""),
            ("input", ""),
            ("result", "a#1"),
            ("file", "notes.md"),
            ("outputs", ""),
        ),
    ]
    assert "\n\n".join(part.text for part in found.question.parts) == found.question.prompt
    assert [(one.output, one.arrow, one.held) for one in found.read_by] == [("verdict", "b -> c", False)]
    assert [(one.name, one.state, one.detail, one.result) for one in found.tools] == [
        ("Bash", "finished", "ls", "a.txt"),
        ("Read", "started", "", ""),
    ]
    assert ([gate.output for gate in found.gates], found.session) == (["all good"], "s-1")
    assert [reason.turn for reason in found.causes][-1] == ""


def test_a_prompt_with_a_schema_is_the_one_that_was_sent(tmp_path: Path) -> None:
    """It is made again from the plan in the journal, whose names have the order of the file or the type."""
    schema = {"type": "array", "items": {"type": "string"}}
    plan = flow("a -> b", a=AgentPlan(name="a", outputs=(Wanted(name="files", schema=schema),)))
    place = played(tmp_path, plan, cast=Cast({"a": [Answer(outputs={"files": ["x"]})]}, seconds=0))
    assert detail(place.runs, "r1", "a#1").data()["prompt_is_exact"]


def test_the_kept_prompt_of_an_iteration_has_parts_too(tmp_path: Path) -> None:
    """Where the text that was sent is kept, its parts are those of the same text rendered again."""
    plan = plan_of(LoopPlan(harness="Be brief.", objective="Tidy"))
    used = {"tool": "/t/tool", "memory": "remember"}
    said: list[r.Record] = [
        r.RunOwned(epoch=1),
        r.ConfigKept(cause=(1, 0)),
        r.IterationStarted(n=1, role="@loop", event="loop.start", cause=(3, 0)),
        r.TurnStarted(turn="iteration#1", agent="@loop", cause=(3, 1), used=used),
    ]
    write(tmp_path / "1", "r", *said, plan=plan)
    rendered = detail(Runs(tmp_path / "1"), "r", "iteration#1").question
    start = msgspec.structs.replace(said[-1], prompt=hashlib.sha256(rendered.prompt.encode()).hexdigest())
    write(tmp_path / "2", "r", *said[:-1], start, plan=plan)
    kept = tmp_path / "2/runs/r/turns/iteration#1.1/asked.md"
    kept.parent.mkdir(parents=True)
    kept.write_text(rendered.prompt)
    found = detail(Runs(tmp_path / "2"), "r", "iteration#1").question

    assert found == msgspec.structs.replace(rendered, same=True)
    assert [part.origin for part in found.parts][:3] == ["harness", "task", "memory"]
    assert found.parts[-1].origin == "outputs"


# -- lists --------------------


@pytest.mark.parametrize("is_here", [True, False])
def test_only_what_is_new_is_read(tmp_path: Path, is_here: bool) -> None:
    """Of files by their bytes, elsewhere by number; child runs that begin meanwhile come, too."""
    store = write(tmp_path, "r", r.TurnStarted(turn="a#1", agent="a"), keep=True)
    runs = Runs(tmp_path) if is_here else Runs(tmp_path / "node", archive=JsonlStore(tmp_path))
    news = RunStream(runs, "r", text=False)
    first = [(run, record.seq) for run, record in news.records()]
    store.claim("r/a#1.1")
    add(store, "r/a#1.1", r.RunStarted(run="r/a#1.1", engine="flow"))
    second = [(run, record.seq) for run, record in news.records()]
    add(store, "r/a#1.1", r.RunFinished(outcome="completed"))
    add(store, "r", r.TurnFinished(turn="a#1", attempt=1), *turn("b#1", 5.0, ends=6.0))
    third = [(run, record.seq) for run, record in news.records()]

    assert first == [("r", 1), ("r", 2)]
    assert second == [("r/a#1.1", 1)]
    assert sorted(third) == [("r", 3), ("r", 4), ("r", 5), ("r/a#1.1", 2)]
    assert list(news.records()) == []


def test_runs_are_listed_by_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the ends of their journals; of those at work, with what their agents do now."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    home = tmp_path / ".coterie"
    failed = r.TurnFailed(turn="a#1", kind="exit", reason="no")
    write(home, "done", *turn("a#1", 1.0, ends=2.0), r.RunFinished(outcome="completed"))
    write(
        home, "lost", r.TurnStarted(turn="a#1", agent="a"), failed, r.RunFinished(outcome="failed", reason="a#1 failed")
    )
    write(home, "halted", r.RunStopped(reason="max_turns"))
    write(home, "cut", r.TurnStarted(turn="a#1", agent="a"))
    write(home, "asks", r.RunStopped(reason="waiting"))
    usage = r.Usage(cost=0.5)
    owned = r.RunOwned(epoch=1, limits=Limits(max_cost=2.0))
    busy = write(
        home,
        "busy",
        owned,
        *turn("a#1", 1.0, ends=2.0, usage=usage),
        r.TurnStarted(turn="b#1", agent="b", at=2.5),
        keep=True,
        input={"prompt": "\n First line \nsecond"},
    )
    stuck = write(
        home,
        "stuck",
        r.RunOwned(epoch=1),
        r.TurnStarted(turn="a#1", agent="a"),
        r.AttentionAsked(id="a#1?1", turn="a#1", attempt=1, tool="Bash"),
        keep=True,
    )
    stream = home / "runs/busy/turns/b#1.1/stream.jsonl"
    stream.parent.mkdir(parents=True)
    stream.write_text(
        '{"kind":"tool","name":"Bash","detail":"make","id":"2"}\n'
        '{"kind":"tool","name":"Read","id":"1"}\n{"kind":"tool","name":"Read","id":"1","state":"finished"}\n'
    )
    asked: list[str] = []

    def bound(plan: Plan) -> int:
        asked.append(plan.name)
        return 7

    rows = RunRows(location_at(home), bound)
    listed = rows.listing()
    by_run = {one.run: one for one in listed}
    details = rows.details(one.key for one in listed)
    work = details[by_run["busy"].key]
    [agent] = work.agents

    assert {one.run: one.group for one in listed} == {
        **{"asks": "person", "stuck": "person", "busy": "running", "cut": "stopped", "halted": "stopped"},
        **{"lost": "failed", "done": "completed"},
    }
    assert list(dict.fromkeys(one.group for one in listed)) == ["person", "running", "stopped", "failed", "completed"]
    assert {run: by_run[run].words for run in ("asks", "halted", "lost", "cut")} == {
        "asks": "waits for a person",
        "halted": "stopped: max_turns",
        "lost": "failed: a#1 failed",
        "cut": "cut off",
    }
    assert work.row is not None
    assert (work.row.done, work.row.turns, work.most, work.row.cost, work.row.max_cost, work.prompt) == (
        1,
        2,
        7,
        0.5,
        2.0,
        "First line",
    )
    assert (agent.turn, agent.agent, agent.since, agent.tool, agent.heard > 0) == ("b#1", "b", 2.5, "Bash make", True)
    assert details[by_run["stuck"].key].attention == 1
    assert (details[by_run["cut"].key].agents, details[by_run["cut"].key].most, asked) == ((), None, ["test"])

    add(busy, "busy", r.TurnFinished(turn="b#1", attempt=1, at=4.0), r.RunFinished(outcome="completed", at=4.0))
    for store, run in ((busy, "busy"), (stuck, "stuck")):
        store._writers[run].lock.release()
    later = JsonlStore(home)
    later.claim("halted")
    add(later, "halted", r.RunOwned(epoch=2), r.RunFinished(outcome="completed"))
    later._writers["halted"].lock.release()
    again = {one.run: one.group for one in rows.listing()}
    assert [again[run] for run in ("busy", "stuck", "done", "halted")] == ["completed", "stopped", *["completed"] * 2]


def test_a_long_journal_of_a_run_that_is_over_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row has what its beginning and its end say."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("coterie.execution.runs.rows.LARGEST", 100)
    write(tmp_path / ".coterie", "r", r.RunFinished(outcome="completed"), input={"prompt": "hello"})
    rows = RunRows(location_at(tmp_path / ".coterie"))
    [one] = rows.listing()
    found = rows.details([one.key])[one.key]

    assert (one.state, found.prompt, found.row) == ("completed", "hello", None)


def test_a_run_that_cannot_be_read_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, without details."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path / ".coterie", "good", r.RunFinished(outcome="completed"))
    write(tmp_path / ".coterie", "bad", r.RunFinished(outcome="completed"))
    journal = tmp_path / ".coterie/runs/bad/journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"engine"', b'"engin!"'))
    rows = RunRows(location_at(tmp_path / ".coterie"))
    listed = rows.listing()

    assert sorted(one.run for one in listed) == ["bad", "good"]
    assert [Path(key).name for key in rows.details(one.key for one in listed)] == ["good"]


def kept(rows: RunRows) -> set[str]:
    """The keys of the runs of which *rows* keeps anything."""
    return {*rows._live, *rows._listed, *rows._shown, *rows._entries, *rows._found}


def test_nothing_is_kept_of_runs_that_are_no_longer_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is open for weeks, while runs come, are shown, and are deleted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rows = RunRows(location_at(tmp_path / ".coterie"))
    for name in ("a", "b", "c"):
        write(tmp_path / ".coterie", name, r.RunFinished(outcome="completed"))
        rows.details([one.key for one in rows.listing()])
        shutil.rmtree(tmp_path / ".coterie/runs" / name)

    assert rows.listing() == []
    assert kept(rows) == set()


def test_of_a_run_without_an_owner_only_the_details_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were asked for last; an unchanged run is not read again, a changed one is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("coterie.execution.runs.rows.KEPT", 2)
    for name in ("a", "b", "c"):
        write(tmp_path / ".coterie", name, r.RunFinished(outcome="completed"), input={"prompt": name})
    rows = RunRows(location_at(tmp_path / ".coterie"))
    keys = {one.run: one.key for one in rows.listing()}
    shown = rows.details([keys["a"], keys["b"]])
    rows.details([keys["a"]])
    rows.details([keys["c"]])

    assert (list(rows._shown), rows._live) == ([keys["a"], keys["c"]], {})
    rows.listing()
    with audited() as calls:
        assert rows.details([keys["a"]]) == {keys["a"]: shown[keys["a"]]}
    assert calls == []

    (tmp_path / ".coterie/runs/a/journal.jsonl").unlink()
    write(tmp_path / ".coterie", "a", r.RunFinished(outcome="completed"), input={"prompt": "changed"})
    rows.listing()
    assert rows.details([keys["a"]])[keys["a"]].prompt == "changed"


def test_a_run_is_kept_with_its_records_while_it_has_an_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its end its details remain as they were, however long its journal is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("coterie.execution.runs.rows.LARGEST", 100)
    store = write(tmp_path / ".coterie", "r", keep=True, input={"prompt": "hello"})
    rows = RunRows(location_at(tmp_path / ".coterie"))
    [one] = rows.listing()
    assert (one.state, list(rows._live)) == ("running", [one.key])
    assert rows.details([one.key])[one.key].row is not None

    add(store, "r", r.RunFinished(outcome="completed"))
    store._writers["r"].lock.release()
    [one] = rows.listing()
    assert (one.state, list(rows._live), list(rows._shown)) == ("completed", [], [one.key])
    assert rows.details([one.key])[one.key].row is not None


def test_the_worst_case_takes_the_prices_of_the_run() -> None:
    """An agent that has not run costs what the most expensive one did; without a cost there is none."""
    found = worst_case(flow("a -> b -> c"), {"a": 0.5, "b": 0.25})

    assert (found.turns, found.cost, found.is_exact) == (3, 1.25, True)
    assert worst_case(flow("a -> b"), {"a": 0.0}).cost is None
    assert worst_case(Plan(name="none"), {}).turns is None

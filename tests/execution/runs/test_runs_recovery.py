"""Recovery: which runs go on by themselves, which do not, and what several recoverers do."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import value_agents as values
from audited import audited

import coterie
from coterie import Limits, agent, flow, human
from coterie.execution.runs import attention
from coterie.execution.runs.recovery import goes_on
from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r
from coterie.history.views.recoveries import Recoveries

SUPPORT = str(Path(values.__file__).parent)
PROGRAM = """
import asyncio, sys
sys.path.append({support!r})
import coterie, recovery_agents as a
one = coterie.agent(a.waits_for_a_file)
team = coterie.flow("one", [one], result=one)
asyncio.run(coterie.run(team, "tea", id={id!r}))
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def runs() -> Runs:
    return Runs(Path(".coterie"))


def stopped(run: str) -> r.RunStopped:
    last = list(runs().read(run))[-1]
    assert isinstance(last, r.RunStopped), last
    return last


def recovered(**how: Any) -> tuple[coterie.Recovery, ...]:
    return asyncio.run(coterie.recover(**how))


def killed(id: str) -> None:
    """A run whose process was killed while its function was at work."""
    process = subprocess.Popen([sys.executable, "-c", PROGRAM.format(support=SUPPORT, id=id)])
    while not Path("begun").exists():
        assert process.poll() is None
    process.kill()
    process.wait()
    Path("begun").unlink()


@pytest.mark.slow
def test_runs_of_a_killed_process_go_on_and_only_once() -> None:
    """Two recoverers at once share the runs; a third finds nothing to do."""
    ids = ["order-1", "order-2"]
    for id in ids:
        killed(id)
    assert [runs().status(id) for id in ids] == ["cut off"] * 2
    Path("go").touch()

    async def main() -> list[coterie.Recovery]:
        return [one for found in await asyncio.gather(coterie.recover(), coterie.recover(at_once=1)) for one in found]

    done = asyncio.run(main())
    assert sorted(one.run for one in done) == ids
    assert [one.outcome.status for one in done if one.outcome] == ["completed"] * 2
    assert recovered() == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "by"), [(signal.SIGINT, "person"), (signal.SIGTERM, "process"), (signal.SIGHUP, "process")]
)
def test_the_record_of_a_stop_says_who_wanted_it(number: signal.Signals, by: str) -> None:
    """Ctrl-C is a person's, SIGTERM and SIGHUP are the end of a process, and only that is recovered."""
    Path("work.py").write_text(
        "import pathlib, time\npathlib.Path('begun').touch()\n"
        "while not pathlib.Path('go').exists():\n    time.sleep(0.01)\n"
    )
    Path("t.at").write_text(
        "topology t : [pipeline] {\n"
        f'  agent a {{ model: x  extensions {{ coterie {{ command: ["{sys.executable}", "work.py"] }} }} }}\n'
        "  flow { a }\n}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", "run", "t.at", "tea", "--yes", "--id", "order-1"],
        preexec_fn=partial(signal.signal, number, signal.SIG_DFL),  # the tests may run under nohup
    )
    while not Path("begun").exists():
        assert process.poll() is None
    os.kill(process.pid, number)
    process.wait()

    assert (stopped("order-1").reason, stopped("order-1").by) == ("interrupted", by)
    Path("go").touch()
    assert [one.run for one in recovered()] == (["order-1"] if by == "process" else [])


def test_a_cancelled_task_is_the_end_of_a_process_and_cancel_is_a_person() -> None:
    """A program that shuts down cancels its tasks; `StartedRun.cancel` is somebody's wish."""
    one = agent(values.sees_prompt)
    waits = flow("ask", [boss := human("boss", "Publish?"), one], [boss >> one])

    async def begun(id: str) -> Any:
        run = coterie.start(waits, "tea", id=id, park=False)
        async for event in run:
            if event.topic == "turn.started":
                return run

    async def main() -> None:
        await (await begun("cancelled")).cancel()
        await (await begun("shut")).cancel(by="process")
        run = await begun("ended")
        run._task.cancel()
        assert (await run).reason == "interrupted"

    asyncio.run(main())
    assert [stopped(id).by for id in ("cancelled", "shut", "ended")] == ["person", "process", "process"]
    assert [goes_on(runs(), id) for id in ("cancelled", "ended")] == [False, True]


def test_a_run_that_waits_goes_on_when_its_answer_has_come() -> None:
    """Before, it stays parked; a run that a limit stopped stays so."""
    one = agent(values.sees_prompt)
    asyncio.run(coterie.run(flow("ask", [boss := human("boss", "Publish?"), one], [boss >> one]), "tea", id="asks"))
    two = flow("two", [one, other := agent(values.sees_task)], [one >> other])
    asyncio.run(coterie.run(two, "tea", id="limited", limits=Limits(max_turns=1)))
    assert (stopped("limited").by, stopped("asks").by) == ("limit", "")
    assert recovered() == ()

    assert coterie.get("asks").answer("boss#1", "yes").status == "queued"
    [done] = recovered()
    assert done.outcome is not None
    assert (done.run, done.outcome.status) == ("asks", "completed")


def test_a_run_goes_on_when_the_time_of_its_question_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow decides then what follows without an answer; before, nothing is to be done."""
    one, boss = agent(values.sees_prompt), human("boss", "Publish?", timeout_seconds=3600)
    asyncio.run(coterie.run(flow("ask", [boss, one], [boss >> one]), "tea", id="asks"))
    assert not goes_on(runs(), "asks")
    due = time.time() + 3601
    monkeypatch.setattr("time.time", lambda: due)
    assert goes_on(runs(), "asks")


def test_runs_that_have_ended_are_read_once() -> None:
    """A program that recovers at each start, with thousands of runs on a slow disk, opens those that may go on."""
    one = agent(values.sees_prompt)
    for n in range(3):
        asyncio.run(coterie.run(flow("one", [one], result=one), "tea", id=f"ended-{n}"))
    asyncio.run(coterie.run(flow("ask", [boss := human("boss", "Publish?"), one], [boss >> one]), "tea", id="asks"))
    recovered()
    with audited() as calls:
        assert recovered() == ()
    assert {run for _, path in calls for run in runs().store.list() if f"/{run}/" in path} == {"asks"}


@pytest.mark.parametrize("line", [0, 2])
def test_a_journal_that_cannot_be_read_keeps_no_other_run_from_going_on(line: int) -> None:
    """The run is listed with the reason, wherever its journal is damaged."""
    one = agent(values.sees_prompt)
    for id in ("damaged", "whole"):
        asyncio.run(coterie.run(flow("ask", [boss := human("boss", "?"), one], [boss >> one]), "tea", id=id))
        coterie.get(id).answer("boss#1", "yes")
    lines = runs().file("damaged").read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"at":', b'"at":1')
    runs().file("damaged").write_bytes(b"".join(lines))

    [damaged, whole] = recovered()
    assert (damaged.run, damaged.outcome, "is damaged" in damaged.why) == ("damaged", None, True), damaged
    assert whole.outcome is not None
    assert (whole.run, whole.outcome.status) == ("whole", "completed")


def test_a_run_whose_module_is_gone_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not resumed, since every turn would fail; the reason names what cannot be imported."""
    Path("gone.py").write_text("def work(prompt: str) -> str:\n    return prompt\n")
    monkeypatch.syspath_prepend(".")
    import gone  # type: ignore[import-not-found]

    one = agent(gone.work)
    asyncio.run(coterie.run(flow("ask", [boss := human("boss", "?"), one], [boss >> one]), "tea", id="asks"))
    coterie.get("asks").answer("boss#1", "yes")
    Path("gone.py").unlink()
    del sys.modules["gone"]

    [done] = recovered()
    assert (done.outcome, "gone" in done.why) == (None, True), done
    before = list(runs().read("asks"))
    assert recovered() == (done,)
    assert list(runs().read("asks")) == before


@pytest.mark.parametrize(
    ("owners", "finished_in", "is_stuck"), [(3, "", False), (4, "", True), (9, "r", False), (9, "r/desk#1.1", False)]
)
def test_three_recoveries_without_a_result_are_the_last(owners: int, finished_in: str, is_stuck: bool) -> None:
    """Being taken over and beginning a turn again is no progress; an answer is, in a nested team as well."""
    past = Recoveries()
    past.apply("r", r.RunStarted(run="r", engine="flow"))
    if finished_in:
        past.apply(finished_in, r.TurnFinished(turn="a#1", attempt=owners, at=owners))
    for n in range(owners):
        past.apply("r", r.RunOwned(epoch=n + 1, at=n + 1))
        past.apply("r", r.TurnStarted(turn="a#1", agent="a", attempt=n + 1, at=n + 1))
        past.apply("r/desk#1.1", r.RunOwned(epoch=n + 1, at=n + 1))

    assert past.were_enough is is_stuck


def test_a_run_that_recoveries_do_not_get_further_needs_a_person() -> None:
    """It is neither recovered nor forgotten: attention lists it with the command that tries once more."""
    one = agent(values.sees_prompt)
    asyncio.run(coterie.run(flow("ask", [boss := human("boss", "?"), one], [boss >> one]), "tea", id="asks"))
    writer = runs().store.claim("asks")
    last = list(runs().read("asks"))[-1].seq
    writer.append([r.RunOwned(epoch=n, seq=last + n - 1) for n in range(2, 6)])
    asyncio.run(writer.close())

    [done] = recovered()
    assert (done.outcome, "3 times without getting further" in done.why) == (None, True), done
    [stuck] = [one for one in attention.find(Path(".coterie")) if one.kind == "stuck"]
    assert (stuck.run, stuck.command) == ("asks", "coterie resume asks")


def test_the_command_recovers() -> None:
    """`coterie recover` prints what became of the runs; without any it says so."""
    command = [sys.executable, "-m", "coterie", "recover"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "no run was recovered\n"), done.stderr
    Path("t.at").write_text(
        'topology t : [pipeline] {\n  human boss { description: "Publish?" }\n  agent a { model: x  extensions '
        '{ coterie { command: ["cat"] } } }\n  flow { boss -> a }\n}\n'
    )
    asyncio.run(coterie.run("t.at", "tea", id="asks"))
    coterie.get("asks").answer("boss#1", "yes")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "asks  completed\n"), done.stderr

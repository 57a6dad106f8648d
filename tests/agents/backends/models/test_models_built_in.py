"""The built-in tools, called by a model."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from asking import Heard, asked_alone, pass_time, pids, request
from asking import started as begun
from asking_models import answered, plan, put, results_of, tools_of
from fake_models import FakeModels, Say
from programs import PYTHON
from pydantic_ai import ToolFailed

from coterie.agents.backends.base import Answer, Launched, Result, Tool
from coterie.agents.backends.models.backend import ModelBackend
from coterie.agents.backends.models.built_in import built_in_tools
from coterie.agents.backends.processes import alive, started
from coterie.agents.backends.secrets import Secrets

EVERYTHING = ["Read", "Grep", "Glob", "Write", "Edit", "Bash"]


@pytest.fixture(params=["anthropic", "openai"])
def api(request: pytest.FixtureRequest) -> str:
    """Both dialects."""
    return str(request.param)


def options(*tools: str, **permissions: Any) -> dict[str, Any]:
    return {"built_in_tools": list(tools or EVERYTHING), "permissions": permissions}


def test_a_model_reads_and_changes_files(api: str, tmp_path: Path) -> None:
    """One call after the other where a call changes something; each is an event, and an error goes to the model."""
    (tmp_path / "a.txt").write_text("one two")
    calls = [
        ("Edit", {"path": "a.txt", "old": "one", "new": "1"}),
        ("Edit", {"path": "a.txt", "old": "two", "new": "2"}),
        ("Read", {"path": "a.txt"}),
        ("Read", {"path": "../b.txt"}),
        ("Read", {"path": "missing"}),
        ("Write", {"path": "b.txt", "content": "b"}),
        ("Glob", {"pattern": "*.txt"}),
    ]
    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        result, heard = put(models, plan(api, options()), cwd=tmp_path)

    assert isinstance(result, Answer)
    assert list(tools_of(models.requests[0])) == EVERYTHING
    assert tools_of(models.requests[0])["Edit"]["required"] == ["path", "old", "new"]
    told = results_of(models.requests[1])
    assert "1\\t1 2" in told[2] or "1\t1 2" in told[2]
    assert "outside the working directory" in told[3]
    assert "No such file or directory: missing" in told[4]
    assert "b.txt" in told[6]
    assert (tmp_path / "a.txt").read_text() == "1 2"
    states = [(event.name, event.state) for event in heard if isinstance(event, Tool)]
    assert len(states) == 2 * len(calls)
    assert states.count(("Read", "failed")) == 2


def test_changes_of_one_file_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """A model asks for many of them at once."""
    (tmp_path / "a.txt").write_text("".join(f"<{n}>" for n in range(60)))
    calls = [("Edit", {"path": "a.txt", "old": f"<{n}>", "new": "x"}) for n in range(60)]
    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        answered(models, plan(options=options()), cwd=tmp_path)

    assert (tmp_path / "a.txt").read_text() == "x" * 60


def test_only_offered_tools_can_be_called(tmp_path: Path) -> None:
    """Whatever a model makes up."""
    with FakeModels(Say(calls=[("Write", {"path": "x", "content": "x"})]), Say("Well.")) as models:
        answered(models, plan(options=options("Read")), cwd=tmp_path)

    assert list(tools_of(models.requests[0])) == ["Read"]
    assert list(tmp_path.iterdir()) == []


def test_an_agent_works_in_its_own_folder(tmp_path: Path) -> None:
    """`cwd` of its extension confines it there."""
    (tmp_path / "part").mkdir()
    (tmp_path / "a.txt").write_text("a")
    calls = [("Read", {"path": "../a.txt"}), ("Write", {"path": "b.txt", "content": "b"})]
    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        answered(models, plan(options=options(), cwd="part"), cwd=tmp_path)

    assert "outside" in results_of(models.requests[1])[0]
    assert (tmp_path / "part" / "b.txt").read_text() == "b"


def test_a_tool_that_is_called_after_the_attempt_changes_nothing(tmp_path: Path) -> None:
    """Its thread may still run when the attempt is cut off."""

    async def main() -> None:
        asked = request(plan(options=options("Write")), cwd=tmp_path)
        async with AsyncExitStack() as stack:
            [write] = built_in_tools(asked, Secrets({}), lambda event: None, stack)
            await write.function("early.txt", "early")  # type: ignore[call-arg, arg-type, misc]
        with pytest.raises(ToolFailed, match="the attempt is over"):
            await write.function("late.txt", "late")  # type: ignore[call-arg, arg-type, misc]

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["early.txt"]


def test_the_command_of_a_loop_is_there_only_where_a_run_can_hear_it(tmp_path: Path) -> None:
    """A loop that is kept in memory has no folder for messages."""
    agent = plan(options=options("Read"))

    async def names(**asked: Any) -> list[str]:
        async with AsyncExitStack() as stack:
            made = request(agent, cwd=tmp_path, **asked)
            return [one.name for one in built_in_tools(made, Secrets({}), lambda event: None, stack)]

    iteration = {"AUTOLOOP_ITERATION": "1"}
    assert asyncio.run(names(env=iteration, root=tmp_path / "runs" / "r")) == ["Read", "autoloops"]
    assert asyncio.run(names(env=iteration)) == asyncio.run(names(root=tmp_path / "runs" / "r")) == ["Read"]


def test_secrets_are_redacted_in_results(tmp_path: Path) -> None:
    """Those of the environment, wherever a tool finds them."""
    (tmp_path / "notes").write_text("the key is key-of-the-test")
    calls = [
        ("Read", {"path": "notes"}),
        ("Grep", {"pattern": "key"}),
        ("Read", {"path": "key-of-the-test"}),
        ("Bash", {"command": f"{PYTHON} -c \"print('key-of-' + 'the-test')\""}),
    ]
    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        _, heard = put(models, plan(options=options(allow=("Bash",))), cwd=tmp_path)

    told = results_of(models.requests[1])
    assert all("***" in each for each in told)
    assert not any("key-of-the-test" in each for each in told)
    assert "key-of-the-test" not in heard.said("log")


def bash(models: FakeModels, tmp_path: Path, **values: Any) -> tuple[Any, Heard]:
    agent = plan(options=options("Bash", allow=("Bash",)), env=values.pop("env", {}))
    return put(models, agent, cwd=tmp_path, **values)


def test_a_program_runs_without_a_shell(tmp_path: Path) -> None:
    """Its output and its status go to the model, and its output to the log of the attempt as it comes."""
    (tmp_path / "show.py").write_text(
        "import sys\nprint(sys.argv[1:], sys.stdin.read())\nprint('wrong', file=sys.stderr)\nsys.exit(3)\n"
    )
    calls = [
        ("Bash", {"command": f"{PYTHON} show.py 'a b' $HOME *"}),
        ("Bash", {"command": "echo a; echo b"}),
        ("Bash", {"command": "no-such-program-here"}),
        ("Bash", {"command": "echo 'open"}),
        ("Bash", {"command": ""}),
        ("Bash", {"command": "echo 'a; b' \";\""}),
    ]
    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        result, heard = bash(models, tmp_path)

    assert isinstance(result, Answer)
    told = results_of(models.requests[1])
    assert "exit status 3" in told[0]
    assert "['a b', '$HOME', '*']" in told[0]
    assert "wrong" in told[0]
    assert "no shell is used, so ';' has no meaning" in told[1]
    assert "program not found" in told[2]
    assert "No closing quotation" in told[3]
    assert "empty" in told[4]
    assert "a; b ;" in told[5]
    assert "wrong" in heard.said("log")
    assert len([event for event in heard if isinstance(event, Launched)]) == 2


def test_a_program_gets_the_agents_environment_and_no_other_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of the provider is not for programs that a model chooses."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-this-process")
    monkeypatch.setenv("HARMLESS", "there")
    names = ["ANTHROPIC_API_KEY", "HARMLESS", "MODE", "OWN_TOKEN", "COTERIE_TURN", "COTERIE_TOKEN"]
    program = f"import os; print([os.environ.get(name) for name in {names}] == {_WANTED})"
    with FakeModels(Say(calls=[("Bash", {"command": f'{PYTHON} -c "{program}"'})]), Say("Done.")) as models:
        env = {"MODE": "fast", "OWN_TOKEN": "given-by-the-file"}
        bash(models, tmp_path, env=env, root=tmp_path / "state" / "runs" / "r", token="of-the-attempt")

    assert "True" in results_of(models.requests[1])[0]


_WANTED = [None, "there", "fast", "given-by-the-file", "a#1", "of-the-attempt"]


def test_a_program_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """And the model goes on; a long output is cut at its beginning."""
    (tmp_path / "busy.py").write_text(BUSY)
    (tmp_path / "check.py").write_text(CHECK)
    calls = [
        ("Bash", {"command": f"{PYTHON} busy.py", "seconds": 500}),
        ("Bash", {"command": f"{PYTHON} -c \"print('x' * 100000, 'end')\""}),
        ("Bash", {"command": f"{PYTHON} check.py"}),
    ]

    async def main(models: FakeModels) -> Result:
        agent = plan(options=options("Bash", allow=("Bash",)))
        backend = ModelBackend(environment=models.environment)
        try:
            session, heard = await begun(backend, agent, cwd=tmp_path)
            await heard.until(lambda heard: "ready" in heard.said("log"))
            await pass_time(500.0)
            return await session.result()
        finally:
            await backend.close()

    with FakeModels(Say(calls=calls), Say("Done.")) as models:
        result = asyncio.run(main(models))

    assert isinstance(result, Answer)
    told = results_of(models.requests[1])
    assert "ended after 500 s, its limit of time" in told[0]
    assert "busy" in told[0]
    assert len(told[1]) < 31_000
    assert "end" in told[1][-100:]
    assert "the sleeper lives: False" in told[2]
    assert len(pids(tmp_path)) == 2
    assert not any(alive(pid, started(pid)) for pid in pids(tmp_path))


CHECK = """
import pathlib
from coterie.agents.backends.processes import alive, started
pid = int(pathlib.Path("pid-2").read_text())
print("the sleeper lives:", alive(pid, started(pid)))
"""

BUSY = """
import os, pathlib, subprocess, time
pathlib.Path("pid-1").write_text(str(os.getpid()))
print("busy", flush=True)
sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
pathlib.Path("pid-2").write_text(str(sleeper.pid))
print("ready", flush=True)
time.sleep(600)
"""


def test_what_a_program_left_behind_ends_with_the_attempt(tmp_path: Path) -> None:
    """Also when it left its group and its parent, and when the attempt is interrupted."""
    (tmp_path / "busy.py").write_text(BUSY)
    heard = Heard()

    async def main(models: FakeModels) -> None:
        backend = ModelBackend(environment=models.environment)
        agent = plan(options=options("Bash", allow=("Bash",)))
        session = await backend.start(request(agent, cwd=tmp_path), heard)
        await heard.until(lambda heard: "ready" in heard.said("log"))
        await session.interrupt()
        assert getattr(await session.result(), "kind", "") == "interrupted"
        await backend.close()

    with FakeModels(Say(calls=[("Bash", {"command": f"{PYTHON} busy.py"})])) as models:
        asyncio.run(main(models))

    assert len(pids(tmp_path)) == 2
    assert not any(alive(pid, started(pid)) for pid in pids(tmp_path))


def test_a_daemon_lives_until_the_attempt_is_over(tmp_path: Path) -> None:
    """A program may start a server for the next one; it does not outlive the attempt."""
    (tmp_path / "start.py").write_text(
        "import os, pathlib, subprocess\n"
        "quiet = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.DEVNULL)\n"
        "sleeper = subprocess.Popen(['setsid', 'sh', '-c', 'sleep 600 & echo $! > pid-1'], **quiet)\n"
        "sleeper.wait()\n"
    )
    with FakeModels(Say(calls=[("Bash", {"command": f"{PYTHON} start.py"})]), Say("Done.")) as models:
        backend = ModelBackend(environment=models.environment)
        agent = plan(options=options("Bash", allow=("Bash",)))
        result, _ = asyncio.run(asked_alone(backend, request(agent, cwd=tmp_path)))

    assert isinstance(result, Answer)
    assert len(pids(tmp_path)) == 1
    assert not any(alive(pid, started(pid)) for pid in pids(tmp_path))


def test_files_of_the_attempt_are_removed_afterwards(tmp_path: Path) -> None:
    """The prompt and the like are there while programs may run."""
    folder = tmp_path / "attempt"
    with FakeModels(Say(calls=[("Bash", {"command": "true"})]), Say("Done.")) as models:
        bash(models, tmp_path, folder=folder)

    assert [one.name for one in folder.iterdir()] == ["steps.jsonl"]

"""Claude Code through its SDK: what its messages mean, and how each way to fail ends."""

import asyncio
import importlib.machinery
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from asking import Heard, agent, ask, pass_time, request, started
from programs import program

from coterie.agents.backends.base import Failure, PastExchange, Permission, Result, SessionOpened, Tool, Used
from coterie.agents.backends.coding import claude, claude_process
from coterie.agents.backends.coding.attempt import Deadlines
from coterie.agents.backends.coding.claude import ClaudeBackend
from coterie.agents.backends.needs import missing
from coterie.team.planning.plan import AgentPlan

pytestmark = pytest.mark.extras("claude")
FAKE = Path(__file__).parents[3] / "support" / "fake_agents" / "claude_agent.py"


def plan(name: str = "a", **values: Any) -> AgentPlan:
    return agent(name, **{"backend": "claude-sdk", "argv": (sys.executable, str(FAKE)), **values})


def play(mood: str, session: str = "", **values: Any) -> tuple[Result, Heard]:
    """The result and the events of one prompt."""
    return ask(ClaudeBackend(), plan(**values), prompt=f"please {mood}", session=session)


def shown(**values: Any) -> dict[str, Any]:
    """The arguments and the environment of the program."""
    _, heard = play("shows", **values)
    found: dict[str, Any] = json.loads(heard.said())
    return found


def test_thinking_and_usage_are_passed_on_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage after each message of the model, by its price and with what the context window holds; totals at the end."""
    monkeypatch.setattr(claude, "known_prices", {"claude-sonnet-4-5": (10_000.0, 50_000.0)}.__getitem__)
    result, heard = play("thinks")

    assert (heard.said(), heard.said("thinking")) == ("an answer", "hm")
    used = [event.usage for event in heard if isinstance(event, Used)]
    assert [usage.output_tokens for usage in used] == [5, 10, 10]
    assert [usage.cost for usage in used] == pytest.approx([0.323, 0.646, 0.5])
    assert (result.usage.context_tokens, result.usage.context_window) == (15, 200_000)


def test_the_floor_holds_where_the_program_does_not_ask() -> None:
    """Each call passes a hook; what it refuses is an event, and the reason reaches the agent."""
    result, heard = play("forbidden")

    assert getattr(result, "text", "").startswith("rm-rf-root: ")
    [permission] = [event for event in heard if isinstance(event, Permission)]
    assert (permission.decision, permission.detail) == ("denied", "rm -rf /")


@pytest.mark.parametrize(("allowed", "message"), [(True, ""), (False, ""), (False, "use make")])
def test_a_person_decides_on_what_the_floor_cannot_read(allowed: bool, message: str) -> None:
    """The hook waits for the answer, also where the program would not ask; the agent hears what a person says."""

    async def main() -> tuple[Result, Heard]:
        backend = ClaudeBackend()
        try:
            session, heard = await started(backend, plan(), prompt="please unreadable")
            await heard.until(lambda heard: any(isinstance(event, Permission) for event in heard))
            [asked] = [event for event in heard if isinstance(event, Permission)]
            assert await session.permit(asked.id, allowed, message)
            return await asyncio.wait_for(session.result(), 300), heard
        finally:
            await backend.close()

    result, heard = asyncio.run(main())
    reason = "permission denied by a person, who says: use make" if message else "permission denied: do not try"
    assert getattr(result, "text", "").startswith("a person allowed it" if allowed else reason)
    assert [event.decision for event in heard if isinstance(event, Permission)] == [
        "",
        "allowed" if allowed else "denied",
    ]


def test_an_announced_retry_is_left_to_the_run() -> None:
    """The attempt ends at once, with the seconds that the provider named: the program itself would wait for them."""
    result, _ = play("retries")

    assert isinstance(result, Failure)
    assert (result.kind, result.wait) == ("rate_limited", pytest.approx(3863.355))
    assert "429" in result.reason


def test_who_sets_the_retries_of_the_program_gets_them() -> None:
    """Else it announces every retry, however long its delay."""
    assert shown()["env"]["CLAUDE_CODE_RETRY_WATCHDOG"] == "1"
    own = shown(env={"CLAUDE_CODE_MAX_RETRIES": "3"})["env"]
    assert own["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert "CLAUDE_CODE_RETRY_WATCHDOG" not in own


def test_a_sub_agent_uses_tools_and_tokens_but_does_not_answer() -> None:
    """What it writes is not the answer; without totals at the end, its messages count as they were reported."""
    result, heard = play("delegates")

    assert getattr(result, "text", "") == heard.said() == "an answer"
    used = [(event.name, event.state) for event in heard if isinstance(event, Tool)]
    assert used == [("Task", "started"), ("Read", "started"), ("Task", "finished")]
    assert (result.usage.input_tokens, result.usage.output_tokens) == (40, 12)


@pytest.mark.parametrize(("mood", "env"), [("unknown", {}), ("answers", {"FAKE_MOOD": "unauthorized"})])
def test_a_missing_login_says_what_to_do(mood: str, env: dict[str, str]) -> None:
    """Whether the handshake or the provider tells."""
    result, _ = play(mood, env=env)

    assert isinstance(result, Failure)
    assert result.kind == "auth"
    assert "claude /login" in result.reason


def test_a_result_while_a_tool_is_at_work_is_a_failure() -> None:
    """The tool may have written it; its cost, which is no number, is left to the run to refuse."""
    result, _ = play("forging")

    assert isinstance(result, Failure)
    assert ("a tool may have forged it" in result.reason, result.text, result.usage.cost) == (True, "forged", -1.0)


def test_an_agent_at_its_limit_of_turns_has_failed() -> None:
    """It is no answer."""
    result, _ = play("endless")

    assert isinstance(result, Failure)
    assert (result.kind, "maximum number of turns" in result.reason) == ("failed", True)


@pytest.mark.parametrize(("mood", "answer"), [("guided", "then thinks"), ("answers", "an answer\n\nan answer")])
def test_guidance_reaches_the_running_turn(mood: str, answer: str) -> None:
    """Or the turn that follows it, if the agent had answered before it took it up; nothing is lost."""

    async def main() -> Result:
        session = await ClaudeBackend().start(request(plan(), prompt=mood), Heard())
        assert await session.steer("then thinks")
        result = await session.result()
        assert not await session.steer("too late")
        return result

    assert getattr(asyncio.run(main()), "text", "") == answer


def test_guidance_that_is_not_taken_up_costs_no_answer() -> None:
    """It is logged, after the deadline of a handshake, and does not count as delivered."""

    async def main() -> Heard:
        heard = Heard()
        session = await ClaudeBackend(Deadlines(handshake=600.0)).start(request(plan(), prompt="answers"), heard)
        steering = asyncio.create_task(session.steer("do nothing"))
        await heard.until(lambda heard: sum(isinstance(event, Used) for event in heard) == 2)  # the second is the total
        await pass_time(600.0)
        assert await steering is False
        assert getattr(await session.result(), "text", "") == "an answer"
        return heard

    assert "does not take up the guidance" in asyncio.run(main()).said("log")


def test_a_session_goes_on_without_its_earlier_usage() -> None:
    """The program's totals include that of earlier processes."""
    result, heard = play("answers", session="session-1")

    assert SessionOpened(id="session-1", resumed=True) in heard
    assert (result.usage.input_tokens, result.usage.output_tokens) == (10, 5)
    assert result.usage.cost == pytest.approx(0.25)


def test_the_plan_is_in_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model, the tools, and settings of the project only; sub-agents and retries are bounded.

    That coterie itself runs in Claude Code is not passed on.
    """
    monkeypatch.setenv("CLAUDECODE", "1")
    found = shown(model="claude-opus-4-6", tools=("Read", "Bash", "mcp.calc.add"), env={"DISABLE_AUTOUPDATER": "0"})

    argv, env = " ".join(found["argv"]), found["env"]
    for words in ("--setting-sources=project", "--model claude-opus-4-6", "--tools Read,Bash", "stdio"):
        assert words in argv
    assert (env["CLAUDE_CODE_MAX_RETRIES"], env["CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH"]) == ("0", "1")
    assert env["DISABLE_AUTOUPDATER"] == "0"
    assert "CLAUDECODE" not in env
    assert "--tools" not in " ".join(shown()["argv"])


def test_the_program_leads_its_session() -> None:
    """So that a signal from the terminal does not reach it, and everything it started can be ended with it."""
    assert shown(options={"sandbox": "off"})["leads"] is True


def test_root_does_not_skip_permissions_outside_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program would refuse to start; trusted, it asks and is allowed. Others skip them."""
    monkeypatch.delenv("IS_SANDBOX", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--permission-mode default" in " ".join(shown()["argv"])
    assert "--permission-mode bypassPermissions" in " ".join(shown(env={"IS_SANDBOX": "1"})["argv"])

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--permission-mode bypassPermissions" in " ".join(shown()["argv"])
    for options in ({"trust_all_tools": False}, {"attention": "ask"}):
        assert "--permission-mode default" in " ".join(shown(options=options)["argv"])


@pytest.mark.parametrize(("session", "is_told"), [("session-1", False), ("gone", True)])
def test_a_thread_is_in_its_session_or_in_the_prompt(session: str, is_told: bool) -> None:
    """If the session cannot be continued, the prompt in the new one begins with the thread."""
    thread = (PastExchange(run="r", prompt="an earlier message", answer="an earlier answer"),)
    result, _ = ask(ClaudeBackend(), plan(), prompt="please recite", session=session, thread=thread)
    said = getattr(result, "text", "")
    assert said.endswith("please recite")
    assert ("an earlier message" in said, "an earlier answer" in said) == (is_told, is_told)


@pytest.mark.parametrize(("argv", "chosen"), [(("claude",), "bin"), ((), "_bundled")])
def test_the_program_is_that_of_the_user_or_of_the_library(
    argv: tuple[str, ...], chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`claude` means the one on the PATH, if there is one; without a command it is the one of the library."""
    for name in ("bin", "_bundled"):
        own = tmp_path / name / "claude"
        own.parent.mkdir()
        own.write_text(program(f"import os; os.environ['CHOSEN'] = '{name}'\n{FAKE.read_text()}"))
        own.chmod(0o755)
    library = importlib.machinery.ModuleSpec("claude_agent_sdk", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(claude_process, "find_spec", lambda name: library)

    found = shown(argv=argv, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})

    assert found["env"]["CHOSEN"] == chosen


def test_a_program_that_is_not_there_is_said_before_the_run_and_in_it() -> None:
    """Unless it is the one that the library brings."""
    absent = plan(argv=("claude-of-tomorrow",))
    result, _ = ask(ClaudeBackend(), absent, prompt="answers")

    assert getattr(result, "kind", "") == "not_found"
    assert [found.code for found in missing([("a", absent)], lambda _: None)] == ["no-program"]
    assert not missing([("a", plan(argv=("claude",))), ("b", plan(argv=()))], lambda _: None)

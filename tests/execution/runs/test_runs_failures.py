"""What an attempt that failed had said: recorded, told to the next attempt, and never taken for an answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from bundles import bundle
from loop_play import loop_plan, plan_of
from stage import Cast, Part, Stage, flow
from steered import Steered, steered

from coterie.agents.backends.base import Answer, AttemptRef, Failure, OnEvent, Permission, Request, Text
from coterie.agents.workspace.base import Workspace
from coterie.execution.kernel.attempt_files import AttemptFiles
from coterie.execution.runs import attempt_folders
from coterie.execution.runs.attempt_folders import AttemptFolders
from coterie.execution.runs.messages import RunMessage, guidance, interruption, permission
from coterie.execution.runs.repository import Runs
from coterie.history.engines.printed import PRINTED_MOST
from coterie.history.journal.records import AttemptFailed, TurnFailed, TurnFinished, Usage
from coterie.team.planning.plan import AgentPlan, Wanted

SAID = Failure(
    kind="exit",
    reason="`a` ended with status 3",
    text="half of the work\n",
    log="a warning\n",
    exit_code=3,
    usage=Usage(cost=0.5),
)
VERDICT = Wanted(name="verdict", type="enum", values=("approve", "revise"))


def prompts(stage: Stage) -> list[str]:
    return [request.prompt for request in stage.cast.asked]


def test_the_record_holds_all_that_the_failure_says() -> None:
    """Text, end of standard error, exit code, signal, use and pause."""
    killed = Failure(kind="timeout", reason="slow", text="x", log="y", exit_code=137, signal="SIGKILL", wait=2.0)
    stage = Stage(flow("a -> b", a=AgentPlan(name="a", retry=2)), Cast({"a": [SAID, killed, Answer(text="done")]}))
    stage.start()
    first, second = stage.records(AttemptFailed)

    assert (first.text, first.log, first.exit_code, first.signal) == ("half of the work\n", "a warning\n", 3, "")
    assert (first.kind, first.reason, first.usage) == ("exit", SAID.reason, Usage(cost=0.5))
    assert (second.text, second.log, second.exit_code, second.signal, second.wait) == ("x", "y", 137, "SIGKILL", 2.0)


def test_the_next_attempt_is_told_what_the_one_before_had_said() -> None:
    """Only the next one: a later failure is another one's."""
    plan = flow("a -> b", a=AgentPlan(name="a", retry=2))
    other = Failure(kind="timeout", reason="it took too long")
    stage = Stage(plan, Cast({"a": [SAID, other, Answer(text="done")]}))
    stage.start()
    first, second, third, after = prompts(stage)

    assert second == (
        f"{first}\n\n# Your last attempt did not count\n\n`a` ended with status 3\n\n"
        "Output:\n~~~text\nhalf of the work\n~~~\n\nStandard error:\n~~~text\na warning\n~~~"
    )
    assert third == f"{first}\n\n# Your last attempt did not count\n\nit took too long"
    assert "half of the work" not in after


def test_of_a_long_output_the_next_attempt_is_told_the_end() -> None:
    plan = flow("a -> b", a=AgentPlan(name="a", retry=1))
    long = Failure(kind="exit", reason="no", text="x" * 100_000 + " the end of it", log="y" * 4_000)
    stage = Stage(plan, Cast({"a": [long, Answer(text="done")]}))
    stage.start()

    assert len(prompts(stage)[1]) < 3 * PRINTED_MOST
    assert "(…)\nxxx" in prompts(stage)[1]
    assert "xxx the end of it\n" in prompts(stage)[1]
    assert stage.records(AttemptFailed)[0].text == long.text


@pytest.mark.parametrize("kind", ["rate_limited", "transient"])
def test_a_failure_of_a_provider_never_enters_a_prompt(kind: str) -> None:
    """The agent could not have done better; what it did wrong before is still told."""
    provider = Failure(kind=kind, reason="HTTP 503 from the provider", text="partial", log="503")
    stage = Stage(
        flow("a -> b", a=AgentPlan(name="a", retry=1)), Cast({"a": [provider, SAID, provider, Answer(text="done")]})
    )
    stage.start()
    first, second, third, fourth, _ = prompts(stage)

    assert first == second
    assert third == fourth
    assert "half of the work" in third
    assert not any("503" in prompt or "partial" in prompt for prompt in prompts(stage))


def test_an_answer_that_does_not_fit_is_shown_to_the_agent_that_gave_it() -> None:
    """And is kept, as what a failed attempt had said."""
    plan = flow("a -> b", a=AgentPlan(name="a", outputs=(VERDICT,)))
    stage = Stage(plan, Cast({"a": [Answer(text="I like it."), Answer(text="verdict: approve")]}))
    stage.start()
    [failed] = stage.records(AttemptFailed)

    assert (failed.kind, failed.text) == ("invalid_output", "I like it.")
    assert "Output:\n~~~text\nI like it.\n~~~" in prompts(stage)[1]


def test_what_a_failed_attempt_had_said_is_no_output() -> None:
    """Neither of the turn, nor of the attempt that follows, nor for a condition."""
    late = Failure(kind="timeout", reason="slow", text='```json\n{"verdict": "approve"}\n```')
    asked = AgentPlan(name="a", outputs=(VERDICT,), retry=1, on_fail="continue")
    stage = Stage(flow("a -> b", a=asked), Cast({"a": [late, late]}))
    stage.start()

    assert [record.kind for record in stage.records(TurnFailed)] == ["timeout"]
    assert not [record for record in stage.records(TurnFinished) if record.turn.startswith("a#")]
    assert 'approve"}' not in prompts(stage)[2]
    failure = stage.shell.tree.runs["r"].core.turns["a#1"].failure
    assert failure is not None
    assert (failure.kind, failure.text) == ("timeout", "")  # outputs may be long, and there may be many turns


def test_what_does_not_exist_is_not_asked_again() -> None:
    """Whatever `retry` says, and however many attempts there are."""
    missing = Failure(kind="not_found", reason="there is no such program")
    for agent in (AgentPlan(name="a", retry=5), AgentPlan(name="a", attempts=5)):
        stage = Stage(flow("a -> b", a=agent), Cast({"a": [missing]}))

        assert stage.start().status == "failed"
        assert len(stage.cast.asked) == 1


@pytest.mark.parametrize("retry", [0, 3])
def test_a_team_in_which_something_does_not_exist_is_not_asked_again(retry: int) -> None:
    """The kind of the failure is that of the turn inside which ended the team."""
    missing = Failure(kind="not_found", reason="there is no such program")
    team = AgentPlan(name="team", kind="topology", child=flow("a -> b"), retry=retry)
    stage = Stage(flow("team -> c", team=team), Cast({"a": [missing]}))

    assert stage.start().status == "failed"
    assert [record.kind for record in stage.records(AttemptFailed)] == ["not_found"]
    assert len(stage.cast.asked) == 1


def test_what_a_provider_told_a_team_stays_in_the_team() -> None:
    """The turn that the team is only says where to look."""
    provider = Failure(kind="transient", reason="HTTP 503")
    team = AgentPlan(name="team", kind="topology", child=flow("a -> b"))
    stage = Stage(flow("team -> c", team=team), Cast({"a": [provider]}))
    ended = stage.start()

    assert ended.reason == (
        "team#1 failed (failed): its provider did not answer; the child run r/team#1.1 has the details"
    )


def test_the_stream_of_an_attempt_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that prints without end does not fill the disk; one line says that the rest is left out."""
    monkeypatch.setattr(attempt_folders, "STREAM_MOST", 1000)
    files = AttemptFolders(Runs(tmp_path))
    ref = AttemptRef(run="r", turn="a#1", attempt=1)
    for _ in range(100):
        files.stream(files.attempt_folder(ref), Text(text="x" * 100))
    lines = (files.attempt_folder(ref) / "stream.jsonl").read_bytes().splitlines(keepends=True)

    assert sum(map(len, lines)) < 1000 + 300
    assert lines[-1] == attempt_folders.STREAM_FULL
    assert lines.count(attempt_folders.STREAM_FULL) == 1
    assert asyncio.run(files.how_far(ref)).endswith("x")


class Broken(Workspace, AttemptFiles):
    """Files of which one call fails with an error that nobody expects."""

    def __init__(self, call: str) -> None:
        self.call = call

    def attests(self, run: str, agent: AgentPlan) -> bool:
        return True

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "call"):
            raise ValueError(f"{name} is broken")
        return object.__getattribute__(self, name)


@bundle("call", ["attests", "position", "attested", "saved", "read", "how_far", "reload"])
def test_an_error_of_a_port_ends_the_owner(call: str) -> None:
    """It is raised where the run is driven: nothing waits for a fact that never comes, and the run can be resumed."""
    broken = Broken(call)
    options: dict[str, Any] = {"workspace": broken, "files": broken}
    plan = flow("a -> b", a=AgentPlan(name="a", reads=("notes.txt",), retry=1))
    if call == "reload":
        plan = plan_of(loop_plan(max_iterations=1))
        options["reload"] = lambda run, plan: broken.reload
    stage = Stage(plan, Cast({"a": [Failure(kind="interrupted", reason="cut"), Answer()]}), **options)
    shell = stage.shell = stage._shell(None)

    async def main() -> None:
        await asyncio.wait_for(shell.start("r", plan, {"prompt": "go"}), 86_400)

    with pytest.raises(ValueError, match=f"{call} is broken"):
        stage.clock.run(main())
    stage.options = {}
    assert stage.resume().status in ("completed", "stopped")


@bundle(
    ("call", "word"),
    [("interrupt", interruption("a#1")), ("steer", guidance("Mind it")), ("permit", permission("allow"))],
)
def test_an_error_of_a_session_ends_the_owner(call: str, word: RunMessage) -> None:
    """An operator's word reaches an attempt whose backend raises."""

    async def raises(*given: object) -> bool:
        raise ValueError(f"{call} is broken")

    class Raises(Steered):
        async def start(self, request: Request, on_event: OnEvent) -> Part:
            part = await super().start(request, on_event)
            setattr(part, call, raises)
            if call == "permit":
                on_event(Permission(id="x", tool="Bash", detail="make"))
            return part

    with pytest.raises(ValueError, match=f"{call} is broken"):
        steered(flow("a -> b"), Raises(word, at="a#1"))

"""Stand-ins answer by rule or by script, in virtual time."""

import asyncio
from typing import Any

import pytest
from asking import Heard, agent, request

from coterie.agents.backends.base import Answer, Emitted, Failure, Result, Text
from coterie.agents.backends.scripted import ScriptedBackend, default_outputs, path_of
from coterie.base.clock import VirtualClock
from coterie.errors import UsageError
from coterie.history.journal.records import Usage
from coterie.team.planning.plan import AgentPlan, Wanted

REVIEWER = agent(
    "reviewer",
    outputs=(
        Wanted(name="verdict", type="enum", values=("revise", "approve")),
        Wanted(name="ok", type="boolean"),
        Wanted(name="score", type="number"),
        Wanted(name="count", type="integer"),
        Wanted(name="note", type="text"),
        Wanted(name="guessed", values=("yes",), declared=False),
    ),
)


def play(backend: ScriptedBackend, agent: AgentPlan, n: int = 1, **values: Any) -> tuple[float, Result, Heard]:
    """The virtual seconds that the *n*-th turn took, its result and its events."""
    clock, heard = VirtualClock(), Heard()

    async def main() -> Result:
        session = await backend.start(request(agent, **{"turn": f"{agent.name}#{n}", **values}), heard)
        return await session.result()

    return clock.now(), clock.run(main()), heard


def timed(backend: ScriptedBackend, agent: AgentPlan) -> tuple[float, Result]:
    clock = VirtualClock()

    async def main() -> Result:
        session = await backend.start(request(agent), Heard())
        return await session.result()

    result = clock.run(main())
    return clock.now(), result


# -- without a script --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "outputs"),
    [
        (1, {"verdict": "revise", "ok": True, "score": 1, "count": 1, "note": "reviewer 1"}),
        (2, {"verdict": "approve", "ok": False, "score": 2, "count": 2, "note": "reviewer 2"}),
        (9, {"verdict": "approve", "ok": False, "score": 9, "count": 9, "note": "reviewer 9"}),
    ],
)
def test_turn_n_gives_the_nth_value_of_each_declared_output(n: int, outputs: dict[str, Any]) -> None:
    """The last value repeats; outputs that are only asked for are left out."""
    _, result, heard = play(ScriptedBackend(), REVIEWER, n)

    assert result == Answer(text=f"reviewer {n}", outputs=outputs, usage=Usage(seconds=1.0))
    assert list(heard) == [Text(text=f"reviewer {n}")]


def test_a_turn_takes_one_virtual_second() -> None:
    """However slow the machine is."""
    assert timed(ScriptedBackend(), REVIEWER)[0] == 1.0


def test_a_second_attempt_answers_like_the_first() -> None:
    """The rule counts turns, not attempts."""
    _, first, _ = play(ScriptedBackend(), REVIEWER, 2, attempt=1)
    _, second, _ = play(ScriptedBackend(), REVIEWER, 2, attempt=5)

    assert first == second


def test_a_human_answers_like_anybody() -> None:
    """Its time-out is the run's to keep."""
    ada = agent("ada", kind="human", timeout=0.5)

    assert timed(ScriptedBackend(), ada) == (1.0, Answer(text="ada 1", outputs={}, usage=Usage(seconds=1.0)))


def test_a_verdict_is_passed_first_and_then_not() -> None:
    """A gate with a verdict follows the rule for booleans."""
    gate = agent("tests", kind="gate", verdict=True)

    assert [default_outputs(gate, n) for n in (1, 2, 3)] == [{"passed": True}, {"passed": False}, {"passed": False}]


# -- with a script -----------------------------------------------------------------------------------------------------


def said(backend: ScriptedBackend, agent: AgentPlan = REVIEWER, n: int = 1, **values: Any) -> Any:
    _, result, _ = play(backend, agent, n, **values)
    return (result.text, result.outputs) if isinstance(result, Answer) else (result.kind, result.reason)


def test_the_kth_attempt_takes_the_kth_entry() -> None:
    """Attempts count, of whatever turn; the last entry repeats."""
    backend = ScriptedBackend({"reviewer": [{"text": "a"}, {"text": "b"}, {"text": "c"}]})
    turns = [(1, 1), (1, 2), (2, 1), (3, 1)]

    assert [said(backend, n=n, attempt=k)[0] for n, k in turns] == ["a", "b", "c", "c"]


def test_outputs_are_as_the_entry_gives_them() -> None:
    """Text alone leaves them to be found in the text; neither text nor outputs is as without a script."""
    entries: list[dict[str, Any]] = [{"text": "t"}, {"outputs": {"x": 1}}, {"text": "t", "outputs": {}}, {"seconds": 0}]
    backend = ScriptedBackend({"reviewer": entries})

    assert [said(backend) for _ in entries] == [
        ("t", None),
        ("reviewer 1", {"x": 1}),
        ("t", {}),
        ("reviewer 1", default_outputs(REVIEWER, 1)),
    ]


@pytest.mark.parametrize(
    ("fail", "kind", "reason"),
    [
        ("timeout", "timeout", "the script says so"),
        ("the disk is full", "failed", "the disk is full"),
        ({"kind": "quota", "reason": "none left"}, "quota", "none left"),
        ({"kind": "auth"}, "auth", "the script says so"),
    ],
)
def test_an_entry_may_fail(fail: Any, kind: str, reason: str) -> None:
    """A known kind is that kind, any other text the reason."""
    assert said(ScriptedBackend({"reviewer": [{"fail": fail}]})) == (kind, reason)


def test_emits_come_before_the_result() -> None:
    """In their order; a payload that is no text is given as JSON."""
    emits = [{"topic": "a.b"}, {"topic": "c", "payload": "p"}, {"topic": "d", "payload": {"k": 1}}]
    _, _, heard = play(ScriptedBackend({"reviewer": [{"emits": emits, "text": "t"}]}), REVIEWER)

    assert list(heard) == [
        Text(text="t"),
        Emitted(event="a.b"),
        Emitted(event="c", payload="p"),
        Emitted(event="d", payload='{"k": 1}'),
    ]


def test_seconds_and_usage_are_reported() -> None:
    """The time counts as used, unless the usage says another."""
    entries = [
        {"seconds": 2.5, "usage": {"input_tokens": 3, "cost": 0.5}},
        {"seconds": 3, "fail": "timeout"},
        {"usage": {"seconds": 9}},
    ]
    backend = ScriptedBackend({"reviewer": entries})

    results = [timed(backend, REVIEWER) for _ in entries]
    assert [time for time, _ in results] == [2.5, 3.0, 1.0]
    assert [result.usage for _, result in results] == [
        Usage(input_tokens=3, cost=0.5, seconds=2.5),
        Usage(seconds=3.0),
        Usage(seconds=9.0),
    ]


def test_a_time_out_cuts_an_entry_off() -> None:
    """An attempt that takes longer than it may fails when its time is up, and emits nothing."""
    entry = {"seconds": 10, "emits": [{"topic": "late"}]}
    backend = ScriptedBackend({"a": [entry]})

    reason = "it took longer than its time-out of 2 s"
    assert timed(backend, agent(timeout=2.0)) == (2.0, Failure(kind="timeout", reason=reason, usage=Usage(seconds=2.0)))
    assert Emitted(event="late") not in play(backend, agent(timeout=2.0))[2]


def test_an_agent_of_a_nested_topology_has_its_path() -> None:
    """The path is that of the nodes; a name alone is the root's agent."""
    critic, nodes = agent("critic"), ("panel", "inner")
    backend = ScriptedBackend({"critic": [{"text": "root"}], "panel/inner/critic": [{"text": "nested"}]})

    assert path_of(request(critic, nodes=nodes)) == "panel/inner/critic"
    assert said(backend, critic, nodes=nodes)[0] == "nested"
    assert said(backend, critic)[0] == "root"
    assert said(backend, critic, nodes=("panel",))[0] == "critic 1"


def test_a_prefix_stands_before_every_path() -> None:
    """So a part of a script can be played alone."""
    backend = ScriptedBackend({"panel/critic": [{"text": "nested"}]}, prefix="panel")

    assert said(backend, agent("critic"))[0] == "nested"


def test_a_script_from_a_program_is_checked_too() -> None:
    """Before anything is played."""
    with pytest.raises(UsageError, match=r"script: reviewer\[0\]: unknown key 'txt'; did you mean 'text'\?"):
        ScriptedBackend({"reviewer": [{"txt": "a"}]})


def test_what_was_interrupted_says_nothing_more() -> None:
    """No event after the result, though its time comes."""

    async def main() -> Heard:
        backend, heard = ScriptedBackend({"a": [{"emits": [{"topic": "x"}]}]}), Heard()
        session = await backend.start(request(agent()), heard)
        await session.interrupt()
        await asyncio.sleep(10)
        return heard

    assert list(VirtualClock().run(main())) == []

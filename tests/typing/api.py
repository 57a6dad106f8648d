"""The types that users see; `tests/test_typing.py` checks this file with mypy and never runs it."""

from typing import Any, assert_type

import coterie
from coterie.patterns import agent, debate
from coterie.runs.outcome import RunResult

team = debate(proponent="haiku", opponent=agent(command=["cat"]), mediator="haiku", max_rounds=2)
assert_type(team, coterie.Topology)
assert_type(coterie.load("team.at"), coterie.Topology)
assert_type(coterie.plan(team), coterie.Plan)


async def play() -> None:
    outcome = await coterie.run(team, {"question": "Will it rain?"})
    assert_type(outcome, coterie.Outcome)
    assert_type(outcome.result, RunResult)
    assert_type(outcome.result.text, str)
    assert_type(outcome.result.to_dict(), dict[str, Any])
    assert_type(await coterie.resume(outcome.run), coterie.Outcome)

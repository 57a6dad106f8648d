"""The requests of a model's turn wherever people look at it: commands, the API and the page; each is counted once."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Place
from fake_models import FakeModels, Say
from page_browser import ServedPage, chromium
from page_runs import client_of, played
from stage import Cast, Streamed, flow

from coterie.agents.backends.base import Answer, Stepped
from coterie.history.journal.records import Usage

ONE = Usage(input_tokens=100, output_tokens=20, cost=0.25)
WORK = Streamed(
    [(0.0, Stepped(n=1, usage=ONE, calls=("count", "look"))), (0.0, Stepped(n=2, usage=ONE))],
    Answer(text="Two.", usage=ONE + ONE),
)
TEAM = """
topology steps : [pipeline] {
  agent model { model: "claude-sonnet-5-5"  prompt: "Count."  extensions { coterie { TOOLS } } }
  flow { model }
}
"""


def test_commands_and_the_api_show_what_a_model_has_answered(tmp_path: Path) -> None:
    """In the turn and in the timeline, with the tools that an answer calls; its cost is that of its turn."""
    home = tmp_path / ".coterie"
    played(home, flow("a -> b"), "steps-1", Cast({"a": [WORK]}, seconds=0))
    place = Place(tmp_path)

    async def asked() -> Any:
        async with client_of(home) as (_, client):
            return (await client.get("/api/runs/steps-1/turn?turn=a%231")).json()

    turn = place.look("inspect", "steps-1", "turn", "a#1").out
    assert [line.split(maxsplit=1)[1] for line in turn.splitlines() if "request" in line] == [
        "request 1 was answered, calling count and look",
        "request 2 was answered",
    ]
    assert "a#1: request 1 was answered, calling count and look\n" in place.look("inspect", "steps-1").out
    [attempt] = asyncio.run(asked())["attempts"]
    assert [(one["n"], one.get("calls", [])) for one in attempt["steps"]] == [(1, ["count", "look"]), (2, [])]
    used = json.loads(place.look("inspect", "steps-1", "usage", "--json").out)["total"]
    assert (used["cost"], used["input_tokens"]) == (0.5, 200)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.slow
def test_the_page_and_the_log_show_the_requests_and_calls_of_a_model(browser: Any, tmp_path: Path) -> None:
    """A call and its result are one: a call that has returned is not shown at work."""
    (tmp_path / "words.py").write_text("def count(text: str) -> int:\n    'Count.'\n    return len(text.split())\n")
    options = 'backend: model  tools: ["words:count"]'
    (tmp_path / "team.at").write_text(TEAM.replace("TOOLS", options))
    place = Place(tmp_path)
    calls = [("count", {"text": "a b"}), ("count", {"wrong": 1})]
    with FakeModels(Say("I count.", calls=calls), Say("Two.")) as models, pytest.MonkeyPatch.context() as patch:
        for name, value in models.environment.items():
            patch.setenv(name, value)
        place.call("run", "team.at", "a b")
    said = [line for line in place.look("logs", "last").out.splitlines() if line != "model#1 | "]
    assert said[:3] == [
        "model#1 | I count.",
        "model#1 = request 1 was answered, calling count and count",
        'model#1 > count: {"text":"a b"}',
    ]
    assert any(line.startswith("model#1 > count failed: ") for line in said)
    assert said[-2:] == ["model#1 | Two.", "model#1 = request 2 was answered"]

    served = ServedPage(browser, tmp_path)
    page = served.page()
    page.locator(".row").click()
    page.locator("[data-node=model]").click()
    page.locator(".turn h3", has_text="Requests · 2").wait_for()
    rows = page.locator(".turn table tr", has_text="token").all_inner_texts()
    assert ["calls count, count" in rows[0], "answers" in rows[1]] == [True, True]
    assert all("100 tokens in · 20 tokens out" in row for row in rows[:2])
    page.locator(".turn h3", has_text="Tools · 2").wait_for()
    assert page.locator(".turn .list summary .state.done").count() == 1
    assert page.locator(".turn .list summary .state.fail").count() == 1
    served.close()
    assert served.errors == []

"""Each action of the page, and the same from the command line while the page is open.

What other modules do: an answer to a question and a permission allowed once, guidance, stop, resume and a fork from a
turn by the page (`test_ui_browser`), one turn retried by it (`test_ui_questions`), refusals (`test_ui_actions`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asking_team import make_asking
from command_line import Place
from page_browser import ServedPage, chromium
from page_keys import press_together

from coterie.execution.runs.repository import Runs
from coterie.history.journal import records as r

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def served(browser: Any, place: Place) -> Iterator[ServedPage]:
    """`coterie ui` in the folder of the test; nothing may go wrong in its pages."""
    one = ServedPage(browser, place.folder)
    yield one
    one.close()
    assert one.errors == []


def only_run(place: Place) -> str:
    [run] = Runs(place.folder / ".coterie").list()
    return run


def acted(page: Any, verdict: str) -> None:
    """Perform the action of the open dialog, and close it."""
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text=verdict).wait_for()
    page.locator("dialog").get_by_role("button", name="Close").click()
    page.locator("dialog").wait_for(state="detached")


def test_the_command_line_steers_what_the_page_shows(served: ServedPage, place: Place) -> None:
    """Guidance, a stop, a resume and a fork are on the open page as they happen."""
    process = place.start_slow()
    run = only_run(place)
    page = served.page(f"runs/{run}/records")

    def says(text: str) -> None:
        page.locator("[data-row]", has_text=text).last.wait_for()

    place.call("control", "guide", run, "be quick")
    says("be quick")
    place.call("control", "stop", run)
    process.wait(60)
    page.get_by_role("button", name="Resume").wait_for()
    place.call("resume", run)
    page.locator("h1 + .state.done").wait_for()
    says("the run has completed")
    page.goto(served.base)
    page.locator(".row").wait_for()
    place.call("fork", run)
    page.locator(".row").nth(1).wait_for()


def test_the_command_line_interrupts_what_the_page_shows(served: ServedPage, place: Place) -> None:
    """The open turn has another attempt, and the run goes on."""
    process = place.start_slow()
    run = only_run(place)
    page = served.page(f"runs/{run}/records")
    page.locator("[data-row]", has_text="slow#1 started").wait_for()
    place.call("control", "interrupt", run, "slow#1")
    page.locator("[data-row]", has_text="slow#1 started again (attempt 2)").wait_for()
    page.locator("h1 + .state.done").wait_for()
    assert process.wait(60) == 0


def test_the_command_line_answers_what_the_page_asks(served: ServedPage, place: Place) -> None:
    """The question goes from an open home page; a failed run that is retried works again on it."""
    place.call("run", "human.at", status=4)
    place.call("run", "broken.at", status=1)
    page = served.page()
    asked = next(
        run for run in Runs(place.folder / ".coterie").list() if place.look("inspect", run, "plan").out.count("boss")
    )
    [failed] = {*Runs(place.folder / ".coterie").list()} - {asked}
    page.locator("[data-attention]").wait_for()
    page.locator(".row .state.fail").wait_for()
    place.call("control", "respond", asked, "approve")
    place.call("resume", asked)
    page.locator("[data-attention]").wait_for(state="detached")

    page.locator(".row", has_text="broken").click()
    page.locator("[data-node=broken].fail").wait_for()
    press_together(page, "g", "r")
    place.call("resume", failed, "--retry", status=1)
    page.locator("[data-row]", has_text="an operator reopened the run").wait_for()


def test_the_page_interrupts_a_turn_and_retries_what_failed_a_run(served: ServedPage, place: Place) -> None:
    """By the keys of its buttons; the run says what it did."""
    process = place.start_slow()
    run = only_run(place)
    page = served.page(f"runs/{run}/plan")
    page.locator("[data-node=slow]").click()
    page.locator(".turn h2", has_text="slow#1").wait_for()
    page.keyboard.press("I")
    page.locator("dialog code", has_text=f"coterie control interrupt {run} 'slow#1'").wait_for()
    acted(page, "accepted")
    assert process.wait(60) == 0
    assert any(isinstance(one, r.AttemptInterrupted) for one in Runs(place.folder / ".coterie").read(run))

    place.call("run", "broken.at", status=1)
    [failed] = {*Runs(place.folder / ".coterie").list()} - {run}
    page.goto(f"{served.base}runs/{failed}/records")
    page.locator("[data-row] code").first.wait_for()
    page.keyboard.press("S")
    page.locator("dialog code", has_text="--retry").wait_for()
    acted(page, "accepted")
    page.locator("[data-row]", has_text="an operator reopened the run").wait_for()


def test_the_page_forks_with_another_model_and_prompt(served: ServedPage, place: Place) -> None:
    """From the open turn; the new run has them, and the old one does not."""
    place.call("run", "broken.at", status=1)
    run = only_run(place)
    page = served.page(f"runs/{run}/plan")
    page.locator("[data-node=broken]").click()
    page.locator(".turn h2", has_text="broken#1").wait_for()
    page.keyboard.press("F")
    page.get_by_label("Model of broken").fill("other-model")
    page.get_by_label("Prompt of broken").fill("Be quite another.")
    page.locator("dialog select").first.select_option("writer")
    page.get_by_label("Prompt of writer").fill("Write less.")
    page.locator("dialog code", has_text="--set broken.model=other-model").wait_for()
    page.locator("dialog button.main").click()
    page.locator("dialog .verdict", has_text="at record").wait_for()
    runs = Runs(place.folder / ".coterie")
    [fork] = {*runs.list()} - {run}
    plan = next(
        one for one in runs.read(fork) if isinstance(one, r.PlanReloaded | r.RunStarted) and "other-model" in one.plan
    )
    assert "Be quite another." in plan.plan
    assert "Write less." in plan.plan
    assert not any("other-model" in getattr(one, "plan", "") for one in runs.read(run))


@pytest.mark.extras("acp")
@pytest.mark.parametrize(("key", "word"), [("r", "always"), ("d", "deny")])
def test_a_permission_is_answered_for_the_run_or_denied(served: ServedPage, place: Place, key: str, word: str) -> None:
    """By one key; the record of the answer has its word."""
    process = place.start("run", make_asking(place.folder, 1), "--no-park")
    page = served.page()
    ask = page.locator("[data-attention]")
    ask.wait_for()
    page.wait_for_timeout(800)  # a key answers nothing that has just come
    ask.focus()
    page.keyboard.press(key)
    ask.wait_for(state="detached")
    process.wait(60)
    records = list(Runs(Path(place.folder) / ".coterie").read(only_run(place)))
    assert [one.answer for one in records if isinstance(one, r.AttentionAnswered)] == [word]

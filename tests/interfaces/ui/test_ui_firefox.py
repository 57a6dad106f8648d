"""The page in Firefox: what is there, what changes, what is answered, on real runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Place
from page_browser import ServedPage
from page_firefox import Firefox, firefox

from coterie.execution.runs.repository import Runs

pytestmark = pytest.mark.slow

SHOWS = "return [...document.querySelectorAll(arguments[0])].some((one) => one.textContent.includes(arguments[1]));"
HEAR = "addEventListener('error', (event) => (window.wrong ??= []).push(event.message));"


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    with firefox(tmp_path_factory.mktemp("firefox")) as found:
        yield found


@pytest.fixture
def served(browser: Firefox, place: Place) -> Iterator[ServedPage]:
    """`coterie ui` in the folder of the test."""
    one = ServedPage(None, place.folder)
    yield one
    one.close()


def test_runs_are_seen_and_steered_in_firefox(served: ServedPage, browser: Firefox, place: Place) -> None:
    """A question is answered and its run resumed; a turn is opened by keys; a fork is made; a file is opened."""
    place.call("run", "human.at", "Announce it", status=4)
    [run] = Runs(place.folder / ".coterie").list()
    browser.open(served.address)
    browser.run(HEAR)
    browser.until(SHOWS, "header .state.done", "live")
    browser.until(SHOWS, ".ask", "Announce it")
    assert browser.run("return document.querySelector('.numbers b').textContent") == "1"
    browser.click("[data-answer=approve]")
    browser.until("return !document.querySelector('[data-attention]') && document.querySelector('.row .state.done');")
    browser.click(".row")
    browser.until(SHOWS, "h1 + .state.done", "completed")

    for view in ("timeline", "tree", "records", "cost", "plan"):
        browser.click(f"nav.tabs a[href$={view}]")
        browser.until(SHOWS, "nav.tabs [aria-current]", view.capitalize())
    browser.run("document.querySelector('[data-node=writer]').focus()")
    browser.run("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))")
    browser.until(SHOWS, "[data-output]", "writer#1 read")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    browser.click(".turn [data-hotkey=F]")
    browser.click("dialog input[type=checkbox]")  # else a process would wait for an answer
    browser.until(SHOWS, "dialog code", f"coterie fork {run}")
    browser.until(SHOWS, "dialog code", "--no-resume")
    browser.click("dialog button.main")
    browser.until(SHOWS, "dialog .verdict", f"forked {run} at record")
    assert browser.run("return window.wrong ?? []") == []

    file = Path(place.folder) / "run.html"
    file.write_text(place.call("inspect", run, "html").out)
    browser.open(file.as_uri())
    browser.until(SHOWS, "h1 + .state.done", "completed")
    browser.until("return document.querySelector('[data-node=boss].done');")

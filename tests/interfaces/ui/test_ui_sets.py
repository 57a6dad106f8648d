"""A map of 2,000 items in a real browser: one node, one line, and a list of which only what is seen is there."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mapped_words
import pytest
from page_browser import ServedPage, chromium

import coterie
from coterie import agent, flow

pytestmark = pytest.mark.slow
MANY = 2000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedPage, str]]:
    """The page of a folder with a run that mapped many items, and the run's id."""
    folder: Path = tmp_path_factory.mktemp("sets")
    words, check, close = agent(mapped_words.words), agent(mapped_words.check), agent(mapped_words.close)
    arrows = [(words >> check).each(words.result, at_most=MANY, at_once=8, tolerate="50%"), check >> close]
    ended = asyncio.run(
        coterie.run(flow("many", [words, check, close], arrows), str(MANY), state_dir=folder / ".coterie")
    )
    assert ended.status == "completed", ended.reason
    with chromium() as browser:
        page = ServedPage(browser, folder)
        yield page, ended.run
        page.close()
        assert page.errors == []


@pytest.fixture
def opened(served: tuple[ServedPage, str]) -> Iterator[Callable[..., Any]]:
    """Open a view of the run."""

    def goto(view: str, **context: Any) -> Any:
        page = served[0].page(**context)
        page.goto(f"{served[0].base}runs/{served[1]}/{view}")
        page.locator("nav.tabs").wait_for()
        return page

    yield goto
    served[0].context.close()


def elements(page: Any) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


def test_a_set_is_one_node_that_opens_to_its_items(opened: Callable[..., Any]) -> None:
    """With its counts; the list scrolls to its end, an item leads to its turn, and its reason back to the set."""
    page = opened("plan")
    node = page.locator("[data-node=check]")
    node.wait_for()
    assert "1,800 of 2,000 done, 200 failed" in str(node.get_attribute("aria-label"))
    wide = page.evaluate(
        "[...document.querySelectorAll('.box')].map((one) => [one.querySelector('.note').getBBox().width, "
        "one.querySelector('rect').getBBox().width])"
    )
    assert all(text <= box for text, box in wide), wide
    node.click()
    page.locator(".set h2", has_text="check@1").wait_for()
    items = page.locator(".set .line")
    items.first.wait_for()

    assert page.locator(".set .actions [role=status]").inner_text() == "1,800 of 2,000 done, 200 failed"
    assert "src/file_0.py" in items.first.inner_text()
    assert 10 < items.count() < 60
    assert elements(page) < 1500

    page.evaluate("document.querySelector('.set .windowed').scrollTop = 1e9")
    last = page.locator(".set .line", has_text="src/file_1999.py")
    last.wait_for()
    assert items.count() < 60
    last.click()
    page.locator(".turn h2", has_text="check#2000 src/file_1999.py").wait_for()
    page.locator("[data-output]", has_text="SRC/FILE_1999.PY").wait_for()
    page.locator(".why a", has_text="check@1 started").click()
    page.locator(".set h2", has_text="check@1").wait_for()
    page.keyboard.press("Escape")
    page.locator(".set").wait_for(state="detached")


@pytest.mark.parametrize("view", ["tree", "timeline", "records", "cost"])
def test_each_view_has_only_what_is_seen(opened: Callable[..., Any], view: str) -> None:
    """However many items there are."""
    page = opened(view)
    page.locator(".panel").first.wait_for()

    assert page.locator(".line").count() < 80
    assert elements(page) < 6000


def test_a_set_is_one_line_of_the_tree_on_a_phone(opened: Callable[..., Any]) -> None:
    """How many of how many are done is whole on a small screen; opened, the items have their names."""
    page = opened("tree")
    page.set_viewport_size({"width": 390, "height": 844})
    line = page.locator(".tree .of-set")
    line.wait_for()
    detail = line.locator(".detail")

    assert detail.inner_text() == "1,800 of 2,000 done, 200 failed"
    assert detail.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    line.locator(".twist").click()
    page.locator(".tree .line", has_text="check#3 src/file_2.py").wait_for()
    assert page.locator(".line").count() < 60
    line.click()
    page.locator(".set .line").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

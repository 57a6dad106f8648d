"""The page is reached by all: states that axe sees, small screens, the focus, live regions, addresses of nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from command_line import Place
from page_browser import ServedPage, chromium
from page_tools import tool

from coterie.execution.runs.repository import Runs

pytestmark = pytest.mark.slow

EACH = """topology many : [map] {
  agent lister { outputs { files: list of text }
    extensions { coterie { command: ["sh", "-c", "echo '{\\"files\\": [\\"a\\", \\"b\\", \\"c\\", \\"d\\"]}'"] } } }
  agent check { extensions { coterie { command: ["sh", "-c", "[ $COTERIE_ITEM != b ] || exit 3; cat"] } } }
  flow { lister -> check [each lister.files, at-most 9, tolerate 2] }
}
"""
WIDE = "topology wide : [fan-out] {{ {agents} flow {{ {arrows} }} }}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def serve(browser: Any, place: Place) -> Iterator[Callable[..., ServedPage]]:
    """Start `coterie ui` in the folder of the test; nothing may go wrong in its pages."""
    served: list[ServedPage] = []

    def start(*words: str) -> ServedPage:
        served.append(ServedPage(browser, place.folder, *words))
        return served[-1]

    yield start
    for one in served:
        one.close()
    assert [error for one in served for error in one.errors if "404" not in error] == []


def runs_of(place: Place) -> dict[str, str]:
    """The id of the run of each team."""
    runs = Runs(place.folder / ".coterie")
    return {runs.plan(run).name: run for run in runs.list()}


def test_states_are_reached_by_all(serve: Callable[..., ServedPage], place: Place) -> None:
    """Questions folded and open, dialogs, verdicts and errors: axe finds nothing, and nothing is wider than a phone."""
    axe = tool("axe-core/axe.min.js").read_text()
    place.call("run", "human.at", "Announce it", status=4)
    (place.folder / "many.at").write_text(EACH)
    place.call("run", "many.at")
    served = serve()
    page = served.page(bypass_csp=True)
    runs = runs_of(place)
    failed: list[str] = []

    def look(name: str) -> None:
        for scheme, width in (("light", 1280), ("dark", 768), ("light", 390)):
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            page.evaluate(axe)
            found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
            failed.extend(f"{name} {scheme}: {one['id']}: {one['nodes'][0]['html']}" for one in found["violations"])
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                failed.append(f"{name} {width}: wider than the screen")

    page.locator(".ask").wait_for()
    look("a question")
    page.get_by_role("button", name="more").click()
    page.locator(".ask pre").wait_for()
    look("an open question")
    page.keyboard.press("?")
    page.locator("dialog").wait_for()
    look("the keys")
    for path, state in {
        f"runs/{runs['human']}": ".ask pre",
        f"runs/{runs['many']}/plan": "[data-node=check].done",
        f"runs/{runs['many']}/tree": "[role=treeitem]",
        "runs/nothing": ".problem",
        "runs/%E0%A4%A": ".problem",
        f"runs/{runs['many']}/nothing": "h1",
        "nothing/here": "h1",
    }.items():
        page.goto(served.base + path)
        page.locator(f"main {state}").first.wait_for()
        look(path)
    page.goto(f"{served.base}runs/{runs['many']}/plan")
    page.get_by_role("button", name="Fork…").click()
    page.locator("dialog textarea").first.wait_for()
    page.locator("dialog code", has_text="coterie fork").wait_for()
    look("a fork")
    page.locator("dialog").get_by_label("Prompt of the run").fill("x")
    page.locator("dialog select").last.select_option("check#1")
    look("another answer")
    assert failed == [], "\n".join(failed)


def test_the_focus_stays_and_a_refusal_interrupts(serve: Callable[..., ServedPage], place: Place) -> None:
    """An answered question hands the focus on; what is refused is in an alert, what is accepted in a status."""
    for text in ("one", "two"):
        place.call("run", "human.at", text, status=4)
    page = serve().page()
    page.locator(".ask").nth(1).wait_for()
    assert page.locator(".numbers b").first.inner_text() == "2"
    page.locator(".ask").first.locator("[data-answer=revise]").focus()
    page.keyboard.press("Enter")
    page.locator(".notice [role=status] .verdict").wait_for()
    page.locator(".ask:focus", has_text="two").wait_for()
    page.locator(".ask").locator("[data-answer=revise]").focus()
    [other] = [
        run for run in Runs(place.folder / ".coterie").list() if run in page.locator(".ask a").get_attribute("href")
    ]
    place.call("control", "respond", other, "approve")
    page.keyboard.press("Enter")
    page.locator("#main:focus, .ask [role=alert] .verdict").first.wait_for()
    page.goto(page.url.partition("#")[0] + f"runs/{other}")
    page.get_by_role("button", name="Resume…").click()
    page.locator("dialog code", has_text="coterie resume").wait_for()
    place.call("resume", other)
    page.locator("dialog button.main").click()
    page.locator("dialog [role=alert] .verdict", has_text="refused").wait_for()
    page.locator("dialog").get_by_role("button", name="Cancel").or_(page.locator("dialog [data-done]")).first.click()
    page.locator("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement !== document.body")


def test_a_set_is_one_node_and_wide_layers_are_wrapped(serve: Callable[..., ServedPage], place: Place) -> None:
    """With its counts; a picture of many boxes can be read at once, is zoomed, and a phone begins with the tree."""
    (place.folder / "many.at").write_text(EACH)
    names = [f"agent{n}" for n in range(20)]
    agents = " ".join(f'agent {one} {{ extensions {{ coterie {{ command: ["cat"] }} }} }}' for one in ["first", *names])
    arrows = " ".join(f"first -> {one}" for one in names)
    (place.folder / "wide.at").write_text(WIDE.format(agents=agents, arrows=arrows.replace(" first", "\n first")))
    place.call("run", "many.at")
    place.call("run", "wide.at")
    served = serve()
    runs = runs_of(place)
    page = served.page(f"runs/{runs['many']}", viewport={"width": 1280, "height": 900})
    check = page.locator("[data-node=check]")
    check.wait_for()
    assert check.get_attribute("aria-label") == "check, 3 of 4 done, 1 failed, 0 open, done"
    assert page.locator(".facts").inner_text().count("4 turns done, 1 failed") == 1

    page.goto(f"{served.base}runs/{runs['wide']}")
    page.locator("[data-node=agent19]").wait_for()
    tops = page.locator("[data-node] rect:first-child").evaluate_all("all => all.map((one) => one.getAttribute('y'))")
    assert len(set(tops)) > 3
    box, picture = (page.locator(f".picture {one}").bounding_box() for one in (".scroll", "svg"))
    assert picture["width"] <= box["width"] + 1
    page.get_by_role("button", name="Larger").click()
    page.get_by_role("button", name="Larger").click()
    assert page.locator(".picture svg").bounding_box()["width"] > picture["width"] * 1.5
    page.keyboard.press("0")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(served.base)
    page.locator(".row").first.click()
    page.locator("nav.tabs [aria-current]", has_text="Tree").wait_for()


CHAT = """topology chat : [pipeline] {
  human boss { prompt: "What now?" }
  human late { prompt: "And then?" }
  flow { boss -> late }
}
"""


@pytest.mark.parametrize("height", [844, 664])
def test_a_phone_shows_at_once_what_a_run_asks(serve: Callable[..., ServedPage], place: Place, height: int) -> None:
    """With the buttons that answer it, however long the question is; a reader of the page meets them in that order."""
    (place.folder / "chat.at").write_text(CHAT)
    long = "\n".join(f"{n}. Is this line of the announcement what you want to have said?" for n in range(60))
    place.call("run", "human.at", long, status=4)
    place.call("run", "chat.at", long, status=4)
    served = serve()
    page = served.page(viewport={"width": 390, "height": height})
    for name, run in runs_of(place).items():
        page.goto(f"{served.base}runs/{run}")
        page.locator(".ask pre").wait_for()
        buttons = page.locator(".ask [data-answer], .ask form button")
        assert buttons.count() == (2 if name == "human" else 1)
        for button in buttons.all():
            box = button.bounding_box()
            assert box["y"] >= 0, (name, box)
            assert box["y"] + box["height"] <= height, (name, box)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        order = page.locator(".asks, .facts").evaluate_all("all => all.map((one) => one.className)")
        assert order == ["asks", "facts"]
        page.get_by_role("button", name="Fork…").wait_for()
    page.set_viewport_size({"width": 1280, "height": height})
    page.reload()
    page.locator(".facts + .asks .ask pre").wait_for()

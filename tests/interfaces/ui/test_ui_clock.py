"""Times are the server's: a browser whose clock is wrong shows when things happened, in its own time zone."""

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from command_line import Place
from page_browser import ServedPage, chromium

from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import RunFinished

pytestmark = pytest.mark.slow

CLOCK = """(() => {
  const Real = Date;
  globalThis.Date = class extends Real {
    constructor(...given) { given.length ? super(...given) : super(Real.now() + AHEAD); }
    static now() { return Real.now() + AHEAD; }
  };
  delete globalThis.SharedWorker; // it would have the right clock
})()"""
TEAMS = """topology TEAM : [pipeline] {
  agent one { extensions { coterie { command: ["sh", "-c", "COMMAND"] } } }
  flow { one }
}
"""
OLD = re.compile(r"\b\d+ [hd]\b|\bin \d")
"""A time of more than an hour, or one to come."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def serve(browser: Any, place: Place) -> Iterator[Callable[..., ServedPage]]:
    """Start `coterie ui` in the folder of the test."""
    served: list[ServedPage] = []

    def start(*words: str) -> ServedPage:
        served.append(ServedPage(browser, place.folder, *words))
        return served[-1]

    yield start
    for one in served:
        one.close()


@pytest.mark.parametrize(("zone", "ahead"), [("Pacific/Kiritimati", 5.5 * 3600), ("America/St_Johns", -40 * 86400)])
def test_a_wrong_clock_changes_no_time(serve: Callable[..., ServedPage], place: Place, zone: str, ahead: float) -> None:
    """Of a run at work, one that asks and one that has ended, and of a server that is gone."""
    for team, command in {"works": "until [ -e go ]; do sleep 0.05; done", "done": "true"}.items():
        (place.folder / f"{team}.at").write_text(TEAMS.replace("TEAM", team).replace("COMMAND", command))
    place.call("run", "human.at", status=4)
    place.call("run", "done.at")
    works = place.start("run", "works.at")
    served = serve()
    page = served.page(script=CLOCK.replace("AHEAD", str(1000 * ahead)), timezone_id=zone)
    assert abs(page.evaluate("Date.now()") / 1000 - ahead - time.time()) < 3600
    page.locator(".row .state.work").wait_for()
    page.locator(".ask time").wait_for()
    shown = page.locator("main").inner_text()
    assert not OLD.search(shown), shown

    runs = Runs(place.folder / ".coterie")
    ids = {runs.plan(run).name: run for run in runs.list()}
    for name, what in {"works": "last sign of life", "human": "asked", "done": "ended"}.items():
        page.goto(f"{served.base}runs/{ids[name]}")
        page.locator("main", has_text=what).locator(".facts").wait_for()
        page.locator("main time").first.wait_for()
        shown = page.locator("main").inner_text()
        assert not OLD.search(shown), shown
    [ended] = [record.at for record in runs.read(ids["done"]) if isinstance(record, RunFinished)]
    found = page.locator(".facts time").first
    assert datetime.fromisoformat(found.get_attribute("datetime")).timestamp() == pytest.approx(ended, abs=0.002)
    assert f"{datetime.fromtimestamp(ended, ZoneInfo(zone)):%-I:%M:%S}" in found.get_attribute("title")

    before = time.time()
    served.kill()
    since = " ".join(page.locator(".live", has_text="not connected since").inner_text().split())
    moments = [datetime.fromtimestamp(at, UTC) for at in range(int(before), int(time.time()) + 1)]
    assert any(since.endswith(f"{at.astimezone(ZoneInfo(zone)):%I:%M %p}") for at in moments), since
    (place.folder / "go").touch()
    works.wait(60)

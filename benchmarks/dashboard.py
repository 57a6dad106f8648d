"""What the page costs: its server, and the main thread of a real browser.

A finished run of many turns: the time from the address to its first picture, beside `coterie inspect RUN --json`, and
the longest frame while its records are scrolled. Then a run that writes records all the time: the processor time and
the memory of the server, and how long the page's main thread was busy; with one tab and with ten.

    pip install playwright && python benchmarks/dashboard.py
    python benchmarks/dashboard.py --turns 1000 --seconds 10
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import long_runs
import msgspec

from coterie.execution.runs.repository import Runs
from coterie.history.journal.records import OperatorSaid

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from page_browser import ServedPage, chromium

WARM = 5
"""Seconds before anything is measured of a run that is written."""
COTERIE = [sys.executable, "-m", "coterie"]
LONG_TASKS = """() => {
  window.busy = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((one) => (window.busy += one.duration)))
    .observe({ type: "longtask" });
}"""
SCROLL = """async () => {
  const place = document.querySelector(".windowed") ?? document.scrollingElement;
  let longest = 0, last = performance.now();
  for (let k = 0; k < 120; k++) {
    place.scrollTop += 400;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
}"""


def processor(pid: int) -> float:
    """The seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """The megabytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def heap(page: Any) -> float:
    """The megabytes that the objects of a page take, without what is garbage."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return float(used) / 1e6


def opening(browser: Any, folder: Path, run: str) -> None:
    """Measure how a finished run opens and scrolls."""
    began = time.perf_counter()
    subprocess.run([*COTERIE, "inspect", run, "--json"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    printed = time.perf_counter() - began
    served = ServedPage(browser, folder)
    page = served.page()
    page.locator(".row").first.wait_for()  # the list has read the run, too
    began = time.perf_counter()
    page.goto(f"{served.base}runs/{run}/records")
    page.wait_for_function("() => document.querySelector('[data-row] code')", timeout=120_000)  # looks in each frame
    opened = time.perf_counter() - began
    page.wait_for_timeout(1000)
    longest = page.evaluate(SCROLL)
    print(f"opened in {opened:.2f} s, {opened / printed:.2f} times `inspect --json` ({printed:.2f} s)")
    print(f"longest frame while scrolling: {longest:.0f} ms")
    served.close()


async def write(state_dir: Path, run: str, seconds: float, rate: int) -> None:
    """Own a run and write *rate* records a second into its journal."""
    runs = Runs(state_dir)
    first = runs.first("long")
    writer = runs.local.claim(run)
    writer.append([msgspec.structs.replace(first, run=run, seq=1)])
    until, step = time.perf_counter() + seconds, 0.05
    while time.perf_counter() < until:
        begin = time.perf_counter()
        count = int(rate * step)
        said = [OperatorSaid(message=f"m{writer.last + k}", what="guide", text="go on") for k in range(1, count + 1)]
        numbered = [msgspec.structs.replace(one, seq=writer.last + k, at=time.time()) for k, one in enumerate(said, 1)]
        writer.append(numbered)
        await writer.durable(writer.last)
        await asyncio.sleep(max(0.0, step - (time.perf_counter() - begin)))
    await writer.close()


def writing(browser: Any, folder: Path, *, tabs: int, seconds: float, rate: int) -> float:
    """Measure the server and a page while a run is written; the server's share of a core."""
    served = ServedPage(browser, folder)
    code = f"import asyncio, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import dashboard; "
    code += f"asyncio.run(dashboard.write(dashboard.Path('.coterie'), 'busy-{tabs}', 3600, {rate}))"
    writer = subprocess.Popen([sys.executable, "-c", code], cwd=folder)
    page = served.page()
    served.context.set_default_timeout(120_000)
    page.locator(".row", has_text="working").first.wait_for()
    page.goto(f"{served.base}runs/busy-{tabs}")
    for _ in range(tabs - 1):
        other = served.context.new_page()
        other.goto(f"{served.base}runs/busy-{tabs}")
        other.locator("h1").wait_for()
    page.bring_to_front()
    page.locator("h1").wait_for()
    page.wait_for_timeout(WARM * 1000)
    page.evaluate(LONG_TASKS)
    pid = served.process.pid
    held = memory(pid), heap(page)
    used, began = processor(pid), time.perf_counter()
    page.wait_for_timeout(seconds * 1000)
    passed = time.perf_counter() - began
    share = (processor(pid) - used) / passed
    busy = page.evaluate("() => window.busy") / 1000 / passed
    print(
        f"{tabs} tab(s), {rate} records a second: the server takes {share:.2f} of a core and grew by "
        f"{memory(pid) - held[0]:.1f} MB, the page by {heap(page) - held[1]:.1f} MB; the page's main thread was in "
        f"long tasks for {busy:.0%} of the time"
    )
    shown = page.locator("main").inner_text()
    written = len(list(Runs(folder / ".coterie").read(f"busy-{tabs}")))
    assert writer.poll() is None, "the writer ended early"
    print(f"  {written} records were written; the page says: {' '.join(shown.split())[:160]}")
    served.close()
    writer.kill()
    writer.wait()
    return share


def main(turns: int, seconds: float, rate: int) -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as place:
        os.environ |= {"HOME": place, "XDG_STATE_HOME": place}
        folder = Path(place)
        run = long_runs.make(folder / ".coterie", turns)
        with chromium() as browser:
            opening(browser, folder, run)
            one = writing(browser, folder, tabs=1, seconds=seconds, rate=rate)
            ten = writing(browser, folder, tabs=10, seconds=seconds, rate=rate)
            print(f"ten tabs cost the server {ten / max(one, 0.01):.2f} times one")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=1000)
    main(**vars(parser.parse_args()))

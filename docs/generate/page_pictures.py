"""Takes the pictures of docs/dashboard.md and README.md: `coterie ui` with real runs, in Chromium.

pip install playwright && python docs/generate/page_pictures.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TOP = Path(__file__).parents[2]
PICTURES = TOP / "docs" / "pictures"
sys.path.insert(0, str(TOP / "tests" / "support"))

from page_browser import ServedPage, chromium  # noqa: E402

RELEASE = """topology release : [human-gate] {
  agent writer { extensions { coterie { command: ["echo", "Version 2.4 reads dates of any time zone."] } } }
  human editor { outputs { verdict: approve | revise } }
  flow { writer -> editor }
}
"""
COTERIE = [sys.executable, "-m", "coterie"]


def run(folder: Path, *words: str) -> None:
    """Run a team to its end."""
    subprocess.run(
        [*COTERIE, "run", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ |= {"HOME": place, "XDG_STATE_HOME": place}
        shutil.copytree(TOP / "examples", folder / "examples")
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", TOP, folder / "coterie"], check=True)
        (folder / "release.at").write_text(RELEASE)
        review = ("examples/repo-review/review.at", "Review the project", "--input", "repo=coterie")
        run(folder, *review)
        run(folder, "release.at", "Announce version 2.4 in three lines")
        working = subprocess.Popen(
            [*COTERIE, "run", *review, "--input", "whole=true"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with chromium() as browser:
            served = ServedPage(browser, folder)
            page = served.page(viewport={"width": 1280, "height": 800}, device_scale_factor=1)
            page.locator(".row .state.work").wait_for()
            shoot(page, "page-home")
            page.locator(".row", has=page.locator(".state.work")).click()
            page.locator("[data-node=complexity].work, [data-node=complexity].done").click()
            page.locator(".turn .prompt-parts").wait_for()
            shoot(page, "page-run")
            working.wait()
            page.keyboard.press("Escape")
            page.get_by_role("link", name="Timeline").click()
            page.locator("main .panel").wait_for()
            shoot(page, "page-timeline", height=520)
            served.close()


def shoot(page: Any, name: str, height: int = 800) -> None:
    """Write a picture of what *page* shows."""
    page.screenshot(path=PICTURES / f"{name}.png", clip={"x": 0, "y": 0, "width": 1280, "height": height})


if __name__ == "__main__":
    main()

"""What modules of the page make of values, in a real browser without a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_browser import ServedPage, chromium

from coterie.base.escapes import printable

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page that can load the modules."""
    folder: Path = tmp_path_factory.mktemp("modules")
    with chromium() as browser:
        served = ServedPage(browser, folder)
        yield served.page()
        served.close()


def test_the_page_escapes_what_the_command_line_escapes(page: Any) -> None:
    """Each character that could hide a part of a text is shown by the same escape."""
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    changed = page.evaluate(
        """async () => {
          const { visible } = await import("page/words.js");
          const found = [];
          for (let code = 0; code < 0x110000; code++) {
            if (code >= 0xd800 && code < 0xe000) continue;
            const shown = visible(String.fromCodePoint(code));
            if (shown !== String.fromCodePoint(code)) found.push([code, shown]);
          }
          return found;
        }"""
    )

    assert {chr(code): shown for code, shown in changed} == {
        one: printable(one) for one in every if printable(one) != one
    }


def test_a_diff_has_a_line_for_each_line(page: Any) -> None:
    """As git wrote it: the text of the element is that of the diff, each line with its mark."""
    text = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1,2 @@\n-one\n+two\n+three"
    shown = page.evaluate(
        """async (text) => {
          const { html, render } = await import("page/base.js");
          const { Diff } = await import("page/views/diff.js");
          const place = document.createElement("div");
          render(html`<${Diff} text=${text} files=${[{ path: "f", added: 2, removed: 1 }]} isCut=${false} />`, place);
          return [place.querySelector("pre").textContent, place.querySelectorAll("pre .added").length];
        }""",
        text,
    )

    assert shown == [text + "\n", 2]


@pytest.mark.parametrize(
    ("busy", "now", "folded"),
    [
        ([[0, 250]], 250, []),
        ([[0, 250]], 400, [[250, 400]]),
        ([[0, 10], [100, 250]], 250, [[10, 100]]),
        ([], 250, [[0, 250]]),
    ],
)
def test_only_the_past_is_idle(page: Any, busy: list[list[int]], now: int, folded: list[list[int]]) -> None:
    """A stretch is folded if nothing worked in it; the axis goes on after the present, and that is no pause."""
    found = page.evaluate(
        """async ([busy, now]) => {
          const { axis, roundedEnd } = await import("page/views/axis.js");
          const end = roundedEnd(0, now), pieces = axis(busy, 0, now, end);
          const folded = pieces.filter((one) => one.folded).map((one) => [one.from, one.to]);
          return { folded, last: pieces.at(-1), end };
        }""",
        [busy, now],
    )

    assert found["folded"] == folded
    assert found["last"]["to"] == found["end"]
    assert not found["last"]["folded"]

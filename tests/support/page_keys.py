"""Keys of the page that follow each other within the second that the page gives for both."""

from typing import Any

_PRESSED = """keys => {
  for (const key of keys) {
    const pressed = new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true});
    (document.activeElement ?? document.body).dispatchEvent(pressed);
  }
}"""


def press_together(page: Any, *keys: str) -> None:
    """Press *keys* one after the other in one step of the browser, however busy the machine is."""
    page.evaluate(_PRESSED, [*keys])

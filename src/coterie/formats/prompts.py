"""Whether the prompt of an agent is a text, or the path of one."""

from pathlib import Path

from coterie.diagnostics import Diagnostic, Span, warning

_ENDS = (".md", ".txt")


def read_prompt(text: str, folder: Path | None, owner: str, span: Span | None) -> tuple[bool, Diagnostic | None]:
    """Whether *text*, the prompt of *owner*, is the path of a file in *folder*; a path that leads nowhere is told of.

    Such a path is one word that ends as texts do.
    """
    if folder is None or not text.endswith(_ENDS) or any(letter.isspace() for letter in text):
        return False, None
    if _is_file(folder, text):
        return True, None
    message = f"the prompt of {owner} names no file: {text!r}"
    hint = "paths begin at the folder of this file; as it stands, the path itself is the prompt"
    return False, warning("no-prompt-file", message, span, hint)


def _is_file(folder: Path, path: str) -> bool:
    try:
        return (folder / path).is_file()
    except (OSError, ValueError):  # too long, or not a path at all
        return False

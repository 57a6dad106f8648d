"""Distinguish prompt texts from paths of prompt files."""

from pathlib import Path

from coterie.base import files
from coterie.base.diagnostics import Diagnostic, Span, warning

_ENDS = (".md", ".txt")


def read_prompt(text: str, folder: Path | None, owner: str, span: Span | None) -> tuple[bool, Diagnostic | None]:
    """Whether the prompt *text* of *owner* is the path of a file in *folder*; a missing file is reported."""
    if folder is None or not is_path(text):
        return False, None
    if files.is_file(folder / text):
        return True, None
    message = f"the prompt of {owner} looks like a path, but there is no such file: {text!r}"
    hint = "paths are relative to the folder of this file; the path itself is used as the prompt"
    return False, warning("no-prompt-file", message, span, hint)


def is_path(text: str) -> bool:
    """Whether *text* looks like a path: it is a single word with the suffix of a text file."""
    return text.endswith(_ENDS) and not any(letter.isspace() for letter in text)

"""Find presets: each is a folder of this package."""

from collections.abc import Iterator
from pathlib import Path

from coterie.base.diagnostics import did_you_mean
from coterie.errors import UsageError

_HERE = Path(__file__).parent


def names() -> tuple[str, ...]:
    """The names of all presets, in alphabetical order."""
    return tuple(sorted(_names()))


def is_preset(name: str) -> bool:
    """Whether *name* is a preset."""
    return name in _names()


def find(name: str) -> Path:
    """The folder of the preset *name*.

    Raises:
        UsageError: If there is none of that name.
    """
    if not is_preset(name):
        hint = did_you_mean(name, names()) or f"known presets: {', '.join(names())}"
        raise UsageError(f"unknown preset {name!r}; {hint}")
    return _HERE / name


def texts(name: str) -> dict[str, str]:
    """The files of the preset *name*, by their paths in its folder.

    Raises:
        UsageError: If there is none of that name.
    """
    folder = find(name)
    files = sorted(path for suffix in ("toml", "md") for path in folder.rglob(f"*.{suffix}"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


def _names() -> Iterator[str]:
    return (folder.name for folder in _HERE.iterdir() if (folder / "autoloops.toml").is_file())

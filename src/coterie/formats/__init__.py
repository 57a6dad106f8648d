"""Read a `Topology` from text, with diagnostics.

source = read(Path("review.at"))
for diagnostic in source.diagnostics:
    print(diagnostic.render(source.text))

The names below load when they are first used: a run that reads no file needs no reader.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.formats.reader import read, read_text
    from coterie.formats.source import Source

__all__ = ["Source", "read", "read_text"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'coterie.formats' has no attribute {name!r}")
    from coterie.formats import reader

    return getattr(reader, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Read a `Topology` from text, with diagnostics.

source = read(Path("review.at"))
for diagnostic in source.diagnostics:
    print(diagnostic.render(source.text))

The names below load when they are first used: a run that reads no file needs no reader.

Other packages import `at`, `at.language`, `at.language.spec`, `at.layout`, `at.lexer`, `at.nodes`, `at.schemas`,
`at.tree`, `at.values`, `at.writer`, `bounds`, `codes`, `files`, `fixes`, `folders`, `programs`, `settings`,
`settings.durations`, `settings.edit`, `settings.keys`, `settings.layers`, `settings.remembered`, `settings_locations`,
`source`, `toml`, `yaml.agents`, `yaml.system.schema`, `yaml.system.typed`, `yaml.writer`; the rest is internal.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.team.formats.reader import read as read
    from coterie.team.formats.reader import read_text as read_text
    from coterie.team.formats.source import Source as Source

__all__ = ["Source", "read", "read_text"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'coterie.team.formats' has no attribute {name!r}")
    from coterie.team.formats import reader

    return getattr(reader, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

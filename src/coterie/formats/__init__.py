"""Read a `Topology` from text, with diagnostics.

source = read(Path("review.at"))
for diagnostic in source.diagnostics:
    print(diagnostic.render(source.text))
"""

from coterie.formats.source import Source, read, read_text

__all__ = ["Source", "read", "read_text"]

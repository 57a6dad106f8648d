"""From text to a `Topology`, with everything that is wrong on the way.

source = read(Path("review.at"))
for diagnostic in source.diagnostics:
    print(diagnostic.render(source.text))
"""

from coterie.formats.reading import Source, read, read_text

__all__ = ["Source", "read", "read_text"]

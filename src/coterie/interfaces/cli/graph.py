"""`coterie topology graph`: draw a team."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from coterie.interfaces.cli.output import report, say, say_json
from coterie.interfaces.cli.parameters import Arg, Opt

if TYPE_CHECKING:
    from coterie.team.planning.plan import Plan
    from coterie.team.topology.drawing import Graph
    from coterie.team.topology.model import Topology


Format = Literal["mermaid", "dot", "svg", "json"]
"""File formats of pictures."""


def graph(
    file: Annotated[Path, Arg("FILE", "The file to draw.")],
    format: Annotated[
        Format | None, Opt("-f, --format FORMAT", "mermaid, dot, svg, or json (by FILE's name, else mermaid).")
    ] = None,
    nested: Annotated[bool, Opt("--nested", "Also draw nested teams.")] = False,
    output: Annotated[
        Path | None, Opt("-o, --output FILE", "Write the picture to FILE, not to standard output.")
    ] = None,
) -> int:
    """Draw a team: its nodes, arrows, conditions and bounds.

    An SVG picture needs no other program and follows the light or dark theme of the page around it. If the file has
    errors, the readable part is drawn and the exit status is 1.
    """
    from coterie.interfaces.cli.team_file import examine

    format = format or _format_of(output)
    found = examine(file)
    if found.topology is None and format == "json":
        say_json(found.to_dict())
        return found.exit
    report(found.errors, found.text)
    if found.topology is None:
        return found.exit
    picture = _graph(found.topology, found.plan, nested)
    if output is not None:
        output.write_text(_written(picture, format), encoding="utf-8")
    elif format == "json":
        say_json(picture)
    else:
        say(_written(picture, format).rstrip("\n"))
    return int(not found.valid)


def _format_of(output: Path | None) -> Format:
    """The format for the suffix of a file.

    Raises:
        UsageError: If it is that of another kind of picture.
    """
    suffix = "" if output is None else output.suffix.lower()
    if suffix in _PICTURES:
        from coterie.errors import UsageError

        raise UsageError(f"{suffix[1:]} cannot be written: write --output {output.with_suffix('.svg')}")  # type: ignore[union-attr]
    return _BY_NAME.get(suffix, "mermaid")


_BY_NAME: dict[str, Format] = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".json": "json"}
_PICTURES = (".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")


def _graph(topology: "Topology", plan: "Plan | None", nested: bool) -> "Graph":
    from coterie.team.planning.teams import as_topology, briefly, children, settled
    from coterie.team.topology.drawing import draw

    within = children(plan) if nested else {}
    drawn = {name: _graph(as_topology(one), one, nested) for name, one in within.items()}
    return draw(settled(topology, plan), briefly(plan), drawn)


def _written(picture: "Graph", format: Format) -> str:
    from coterie.team.topology import drawing

    if format == "json":
        import msgspec

        return msgspec.json.encode(picture, enc_hook=str).decode() + "\n"
    write = {"mermaid": drawing.mermaid, "dot": drawing.dot, "svg": drawing.svg}[format]
    return write(picture)

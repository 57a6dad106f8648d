"""Generate `docs/reference/patterns.md`, the settings of the patterns, and the pictures of their pages.

python docs/generate/pattern_pages.py

The pictures in `docs/pictures` are those of the examples in `examples/patterns`.
"""

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import NODEFAULT
from msgspec import inspect as types

from coterie.team import formats, planning
from coterie.team.planning.teams import as_topology, briefly, children, settled
from coterie.team.topology.drawing import draw, svg
from coterie.team.topology.patterns.configs import Config
from coterie.team.topology.patterns.kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGES: Mapping[str, str] = MappingProxyType(
    {
        "debate": "debate",
        "chain": "chain-of-command",
        "delegation": "delegation",
        "ensemble": "ensemble",
        "pipeline": "pipeline",
        "crosscheck": "cross-check",
        "compound": "compound",
    }
)
"""The name of the page, example and picture of each kind."""

SETTINGS = ROOT / "docs" / "reference" / "patterns.md"

HEAD = """\
# Settings of patterns

<!-- Written by `python docs/generate/pattern_pages.py`; a test keeps it fresh. -->

The keys of `config` in YAML and in the block `pattern` of an `.at` file; in Python, the arguments of the pattern.
"""
_ATTRIBUTE = re.compile(r"^    (\w+): ")


def page_of(kind: str) -> Path:
    """Return the page of a kind."""
    return ROOT / "docs" / "patterns" / f"{PAGES[kind]}.md"


def picture_of(kind: str) -> Path:
    """Return the picture of a kind."""
    return ROOT / "docs" / "pictures" / f"{PAGES[kind]}.svg"


def example_of(kind: str) -> Path:
    """Return the example of a kind."""
    return ROOT / "examples" / "patterns" / f"{PAGES[kind]}.pattern.yaml"


def settings() -> str:
    """Return the page of the settings."""
    sections = (
        f"\n## {kind}\n\n{inspect.cleandoc(KINDS[kind].config.__doc__ or '').partition(chr(10))[0]} "
        f"See [its page](../patterns/{page}.md).\n\n{table(KINDS[kind].config)}"
        for kind, page in PAGES.items()
    )
    return "".join([HEAD, *sections])


def table(config: type[Config]) -> str:
    """Return the settings of a kind with type, default and meaning."""
    meant = dict(_meanings(config))
    known = types.type_info(config)
    assert isinstance(known, types.StructType)
    rows = [f"| `{one.name}` | {_type(one.type)} | {_default(one)} | {meant[one.name]} |\n" for one in known.fields]
    return "".join(["| setting | type | default | meaning |\n|---|---|---|---|\n", *rows])


def drawn(kind: str) -> str:
    """Return the picture of a kind's example with nested teams, as `topology graph --nested -f svg` draws it."""
    source = formats.read(example_of(kind))
    assert source.topology is not None
    plan, _ = planning.plan(source.topology)
    nested = {
        name: draw(as_topology(child), briefly(child)) for name, child in (children(plan) if plan else {}).items()
    }
    return svg(draw(settled(source.topology, plan), briefly(plan), nested))


def _meanings(config: type[Config]) -> Iterator[tuple[str, str]]:
    """Return the descriptions of the fields from the docstring of *config*."""
    _, _, told = inspect.cleandoc(config.__doc__ or "").partition("Attributes:\n")
    name, words = "", list[str]()
    for line in told.splitlines():
        if found := _ATTRIBUTE.match(line):
            if name:
                yield name, _sentence(words)
            name, words = found[1], [line[found.end() :]]
        else:
            words.append(line)
    yield name, _sentence(words)


def _sentence(words: list[str]) -> str:
    said = " ".join(" ".join(words).split())
    return re.sub(r"(?<!\*)\*(\w+)\*(?!\*)", r"`\1`", said).replace("|", "\\|")


def _type(known: types.Type) -> str:
    match known:
        case types.BoolType():
            return "`true` or `false`"
        case types.IntType(ge=least, le=most):
            return f"whole number{_range(least, most)}"
        case types.FloatType(gt=above, ge=least, le=most, lt=below):
            if above is not None:
                return f"number between {above:g} and {below:g}"
            return f"number{_range(least, most)}"
        case types.LiteralType(values=values):
            return ", ".join(f"`{value}`" for value in values)
        case types.StrType():
            return "name"
        case types.VarTupleType():
            return "list of texts"
        case types.DictType(value_type=types.DictType()):
            return "by slot: input key and where it comes from"
        case types.DictType(value_type=value):
            return f"by slot: {_type(value)}"
        case types.UnionType(types=several):
            return " or ".join("none" if isinstance(one, types.NoneType) else _type(one) for one in several)
        case _:
            raise TypeError(f"no words for {known}")


def _range(least: float | None, most: float | None) -> str:
    if least is None:
        return ""
    return f" from {least:g}" + (f" to {most:g}" if most is not None else "")


def _default(field: types.Field) -> str:
    value: Any = field.default
    if value is NODEFAULT:
        value = field.default_factory() if callable(field.default_factory) else None
    if value is None:
        return "none"
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def main() -> None:
    """Write the page and all pictures."""
    SETTINGS.write_text(settings(), encoding="utf-8")
    for kind in PAGES:
        picture_of(kind).write_text(drawn(kind), encoding="utf-8")


if __name__ == "__main__":
    main()

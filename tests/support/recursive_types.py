"""Types that contain themselves, of each kind that an answer may have, and functions that return values of them."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

import msgspec
import pydantic


class Tree(pydantic.BaseModel):
    """A model of pydantic; the names of its fields are others in JSON."""

    name: str
    kids: list["Tree"] = pydantic.Field([], alias="children")
    model_config = pydantic.ConfigDict(populate_by_name=True)


class Chain(pydantic.BaseModel):
    """Each has a next one, or none."""

    value: int
    next: "Chain | None"


class Left(pydantic.BaseModel):
    """Two that contain each other."""

    right: "Right | None" = None


class Right(pydantic.BaseModel):
    """The other one."""

    left: Left | None = None


class Nest(pydantic.RootModel["int | list[Nest]"]):
    """A value without fields."""


class Words(pydantic.RootModel[dict[str, int]]):
    """The same, and an object in JSON."""


class Forest(pydantic.BaseModel):
    """It does not contain itself; its trees do."""

    by_name: dict[str, Tree]


@dataclass
class Branch:
    """A dataclass."""

    name: str
    kids: list["Branch"] = field(default_factory=list)


@dataclass
class Link:
    """A dataclass whose field is required."""

    next: "Link | None"


class Cell(msgspec.Struct):
    """A struct."""

    inner: "Cell | None" = None


class Folder(TypedDict):
    """A typed dictionary."""

    folders: list["Folder"]


class Step(NamedTuple):
    """A named tuple."""

    number: int
    after: "Step | None"


TREE = Tree(name="a", kids=[Tree(name="b", kids=[Tree(name="c")])])
VALUES: list[tuple[object, object]] = [
    (Tree, TREE),
    (Chain, Chain(value=1, next=Chain(value=2, next=None))),
    (Left, Left(right=Right(left=Left()))),
    (Nest, Nest.model_validate([1, [2, []]])),
    (Words, Words({"a": 1})),
    (Forest, Forest(by_name={"x": TREE})),
    (list[Tree], [TREE, TREE]),
    (Tree | None, TREE),
    (Branch, Branch("a", [Branch("b")])),
    (Link, Link(Link(None))),
    (Cell, Cell(Cell())),
    (Folder, {"folders": [{"folders": []}]}),
    (Step, Step(1, Step(2, None))),
]
"""Types, each with a value."""


def grown() -> Tree:
    """Return a tree."""
    return TREE


def counted(grown: Tree) -> int:
    """Count its nodes."""
    return 1 + sum(counted(kid) for kid in grown.kids)

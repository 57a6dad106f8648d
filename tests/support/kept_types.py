"""99 types of Python, each with a value, and for each a function that gives it and one that keeps what it is given."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import recursive_types

import coterie
from coterie import agent, flow
from coterie.patterns import ensemble

T = TypeVar("T")
Number = NewType("Number", int)
NOON = datetime.datetime(2026, 3, 29, 12, 30, 15, 250_000, tzinfo=datetime.UTC)
KEY = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Mood(enum.StrEnum):
    CALM = "calm"
    LOUD = "loud"


class Rights(enum.IntFlag):
    READ = 1
    WRITE = 2


class Doors(enum.Flag):
    FRONT = 1
    BACK = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


@dataclasses.dataclass(frozen=True)
class Place:
    point: Point
    names: tuple[str, ...] = ()
    color: Color = Color.RED


@dataclasses.dataclass(slots=True, kw_only=True)
class Order:
    key: uuid.UUID
    total: decimal.Decimal
    at: datetime.datetime
    folder: Path
    tags: set[str] = dataclasses.field(default_factory=set)
    note: str | None = "none"


@dataclasses.dataclass
class Box(Generic[T]):
    inside: T


@dataclasses.dataclass
class Base:
    number: int


@dataclasses.dataclass
class Derived(Base):
    text: str


@dataclasses.dataclass
class Empty:
    pass


class Film(TypedDict):
    title: str
    year: NotRequired[int]


class Cinema(TypedDict, total=False):
    films: list[Film]
    opened: datetime.date


class Pair(NamedTuple):
    left: Point
    right: datetime.date | None = None


class Trip(NamedTuple):
    pairs: list[Pair]
    by_name: dict[str, Pair]


class Struct(msgspec.Struct):
    name: str
    sizes: frozenset[int] = frozenset()


class Renamed(msgspec.Struct, rename="camel", omit_defaults=True):
    long_name: int
    other_name: str = "x"


class Row(msgspec.Struct, array_like=True):
    number: int
    text: str


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Maybe(msgspec.Struct):
    set: int | msgspec.UnsetType = msgspec.UNSET


class Crate(msgspec.Struct, Generic[T]):
    inside: list[T]


class Model(pydantic.BaseModel):
    name: str
    price: decimal.Decimal = decimal.Decimal("1.10")
    at: datetime.datetime | None = None


class Aliased(pydantic.BaseModel):
    count: int = pydantic.Field(alias="theCount")


class Parent(pydantic.BaseModel):
    child: Model
    path: Path = Path("a/b")
    raw: bytes = b"raw"


class Typed(pydantic.BaseModel, Generic[T]):
    inside: T


class Root(pydantic.RootModel[list[int]]):
    pass


class Sea(pydantic.BaseModel):
    kind: Literal["sea"] = "sea"
    depth: int


class Land(pydantic.BaseModel):
    kind: Literal["land"] = "land"
    height: int


@pydantic.dataclasses.dataclass
class Checked:
    number: Annotated[int, pydantic.Field(gt=0)]


@dataclasses.dataclass
class Mixed:
    model: Model
    struct: Struct
    pair: Pair
    film: Film
    models: list[Model]


CASES: list[tuple[str, Any, Any]] = [
    ("text", str, "Grüße\n\u2028☃"),
    ("integer", int, -(2**53) - 1),
    ("number", float, 0.1),
    ("truth", bool, False),
    ("nothing", None, None),
    ("anything", Any, {"a": [1, None, "x"]}),
    ("object", object, [1, "two"]),
    ("bytes", bytes, b"\x00\xff\x80text"),
    ("bytearray", bytearray, bytearray(b"\x00\xff")),
    ("datetime", datetime.datetime, NOON),
    ("naive_datetime", datetime.datetime, NOON.replace(tzinfo=None)),
    (
        "datetime_elsewhere",
        datetime.datetime,
        NOON.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=30))),
    ),
    ("date", datetime.date, datetime.date(2026, 2, 28)),
    ("time", datetime.time, datetime.time(23, 59, 59, 5)),
    ("timedelta", datetime.timedelta, datetime.timedelta(days=400, seconds=3, microseconds=7)),
    ("negative_timedelta", datetime.timedelta, datetime.timedelta(seconds=-90)),
    ("decimal", decimal.Decimal, decimal.Decimal("12.3400")),
    ("fraction", fractions.Fraction, fractions.Fraction(1, 3)),
    ("complex", complex, 1.5 + 2j),
    ("uuid", uuid.UUID, KEY),
    ("path", Path, Path("a/ü b.txt")),
    ("posix_path", PurePosixPath, PurePosixPath("../z")),
    ("ip4", ipaddress.IPv4Address, ipaddress.IPv4Address("127.0.0.1")),
    ("ip6", ipaddress.IPv6Address, ipaddress.IPv6Address("::1")),
    ("network", ipaddress.IPv4Network, ipaddress.IPv4Network("10.0.0.0/8")),
    ("enum", Color, Color.BLUE),
    ("int_enum", Size, Size.LARGE),
    ("str_enum", Mood, Mood.LOUD),
    ("flag", Rights, Rights.READ | Rights.WRITE),
    ("plain_flag", Doors, Doors.FRONT | Doors.BACK),
    ("literal", Literal["a", "b"], "b"),
    ("mixed_literal", Literal["a", 1, None], 1),
    ("literal_null", Literal["a", None], None),
    ("newtype", Number, 4),
    ("annotated", Annotated[int, msgspec.Meta(ge=1)], 2),
    ("optional", int | None, None),
    ("union", int | str, "7"),
    ("union_number", int | str, 7),
    ("union_of_lists", float | list[int], [1]),
    ("union_of_dates", datetime.date | None, datetime.date(2026, 1, 1)),
    ("list", list[int], [1, 2]),
    ("bare_list", list, [1, "a"]),
    ("list_of_anything", list[object], [1, "a", None, {"b": [0.5]}]),
    ("empty_list", list[str], []),
    ("list_of_dates", list[datetime.date], [datetime.date(2026, 1, 2)]),
    ("list_of_paths", list[Path], [Path("a"), Path("b")]),
    ("tuple", tuple[int, str], (1, "a")),
    ("long_tuple", tuple[float, ...], (1.0, 2.5)),
    ("bare_tuple", tuple, (1, "a")),
    ("empty_tuple", tuple[()], ()),
    ("set", set[int], {1, 2}),
    ("frozenset", frozenset[str], frozenset({"a"})),
    ("set_of_enums", set[Color], {Color.RED}),
    ("deque", collections.deque[int], collections.deque([1, 2])),
    ("sequence", Sequence[int], [1, 2]),
    ("dict", dict[str, int], {"a": 1}),
    ("bare_dict", dict, {"a": 1}),
    ("mapping", Mapping[str, list[int]], {"a": [1]}),
    ("dict_by_number", dict[int, str], {1: "a"}),
    ("dict_by_date", dict[datetime.date, int], {datetime.date(2026, 1, 1): 1}),
    ("dict_by_enum", dict[Color, int], {Color.RED: 1}),
    ("dict_by_uuid", dict[uuid.UUID, Path], {KEY: Path("a")}),
    ("dict_of_points", dict[str, Point], {"a": Point(1)}),
    ("defaultdict", collections.defaultdict[str, int], collections.defaultdict(int, a=1)),
    ("ordered_dict", collections.OrderedDict[str, int], collections.OrderedDict(b=1, a=2)),
    ("counter", collections.Counter[str], collections.Counter("aab")),
    ("dataclass", Point, Point(1, 2.0)),
    ("frozen_dataclass", Place, Place(Point(1), ("a", "b"), Color.BLUE)),
    ("order", Order, Order(key=KEY, total=decimal.Decimal("1.50"), at=NOON, folder=Path("x"), tags={"a"}, note=None)),
    ("generic_dataclass", Box[int], Box(1)),
    ("generic_of_dates", Box[list[datetime.date]], Box([datetime.date(2026, 1, 1)])),
    ("derived_dataclass", Derived, Derived(1, "a")),
    ("empty_dataclass", Empty, Empty()),
    ("optional_dataclass", Point | None, Point(3)),
    ("typed_dict", Film, {"title": "M"}),
    ("partial_typed_dict", Cinema, {"films": [{"title": "M", "year": 1931}], "opened": datetime.date(1912, 1, 1)}),
    ("named_tuple", Pair, Pair(Point(1), datetime.date(2026, 1, 1))),
    ("nested_named_tuples", Trip, Trip([Pair(Point(1))], {"a": Pair(Point(2))})),
    ("list_of_named_tuples", list[Pair], [Pair(Point(1))]),
    ("struct", Struct, Struct("a", frozenset({1}))),
    ("renamed_struct", Renamed, Renamed(3)),
    ("row", Row, Row(1, "a")),
    ("tagged_union", Cat | Dog, Dog(["sit"])),
    ("list_of_tagged", list[Cat | Dog], [Cat(9), Dog([])]),
    ("unset", Maybe, Maybe()),
    ("generic_struct", Crate[Point], Crate([Point(1)])),
    ("model", Model, Model(name="a", at=NOON)),
    ("aliased_model", Aliased, Aliased(theCount=2)),
    ("parent_model", Parent, Parent(child=Model(name="a"), path=Path("c"), raw=b"r")),
    ("generic_model", Typed[datetime.date], Typed[datetime.date](inside=datetime.date(2026, 1, 1))),
    ("root_model", Root, Root([1, 2])),
    ("discriminated", Annotated[Sea | Land, pydantic.Field(discriminator="kind")], Land(height=3)),
    ("pydantic_dataclass", Checked, Checked(3)),
    ("mixed", Mixed, Mixed(Model(name="a"), Struct("b"), Pair(Point(1)), {"title": "M"}, [Model(name="c")])),
    ("dict_of_models", dict[str, Model], {"a": Model(name="b")}),
    ("tree", recursive_types.Tree, recursive_types.TREE),
    ("branch", recursive_types.Branch, recursive_types.Branch("a", [recursive_types.Branch("b")])),
    ("folder", recursive_types.Folder, {"folders": [{"folders": []}]}),
    ("step", recursive_types.Step, recursive_types.Step(1, recursive_types.Step(2, None))),
]

NAMES = [name for name, _, _ in CASES]


def team(name: str) -> Any:
    """A flow in which the value *name* goes through a function, a flow, a pattern and a program."""
    own = globals()
    desk = agent("desk", flow("inner", [keep := agent("keep", own[f"keep_{name}"])], result=keep))
    crew = agent("crew", ensemble(agent("see", own[f"see_{name}"]), agent("again", own[f"see_{name}"])))
    give, last = agent("give", own[f"give_{name}"]), agent("last", own[f"program_{name}"])
    back = agent("back", own[f"back_{name}"])
    return flow(
        name, [give, desk, crew, last, back], [give >> [desk, crew, last], [desk, crew, last] >> back], result=back
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same type."""
    return type(one) is type(other) and bool(one == other)


def _define(name: str, type_: Any, value: Any) -> None:
    """Functions and a program of the module, as a user writes them, for one type."""

    def give() -> Any:
        return value

    def keep(give: Any) -> Any:
        assert same(give, value), give
        return give

    def see(give: Any) -> str:
        assert same(give, value), give
        return "seen"

    def back(desk: Any, last: Any) -> Any:
        assert same(desk, value), desk
        return last

    async def program(give: Any) -> Any:
        return await globals()[f"node_{name}"](give)

    give.__annotations__ = {"return": type_}
    keep.__annotations__ = program.__annotations__ = {"give": type_, "return": type_}
    see.__annotations__ = {"give": type_, "return": str}
    back.__annotations__ = {"desk": type_, "last": type_, "return": type_}
    for function in (give, keep, see, back, program):
        function.__name__ = function.__qualname__ = f"{function.__name__}_{name}"
        globals()[function.__name__] = function
    globals()[f"node_{name}"] = agent("node", keep)
    globals()[program.__name__] = coterie.program(agents=[globals()[f"node_{name}"]], max_turns=2)(program)


for _case in CASES:
    _define(*_case)

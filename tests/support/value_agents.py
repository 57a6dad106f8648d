"""Functions that hand values to each other, for tests of what arrives."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pydantic

import coterie


@dataclass
class Kind:
    kind: Literal["tech", "money"]
    weight: int | None = 5


@dataclass
class Detailed(Kind):
    detail: str = "only here"


class Base(pydantic.BaseModel):
    x: int = 1


class Further(Base):
    y: int = 2


class Holder(pydantic.BaseModel):
    held: Base


class Hidden(pydantic.BaseModel):
    number: int = pydantic.Field(0, exclude=True)


@dataclass(frozen=True)
class Frozen:
    x: int = 1
    count: ClassVar[int] = 3


@dataclass(frozen=True)
class FrozenDetailed(Frozen):
    pass


class Login(pydantic.BaseModel):
    name: str
    password: pydantic.SecretStr


@dataclass
class Asked:
    prompt: str


def classify(prompt: str) -> Kind:
    return Kind("tech", None)


def detailed() -> Kind:
    return Detailed("tech")


def holds() -> Holder:
    return Holder(held=Further())


def logs_in() -> Login:
    return Login(name="kim", password=pydantic.SecretStr("hunter2"))


def hides() -> Hidden:
    return Hidden(number=5)


def miscounted() -> str:
    return 5  # type: ignore[return-value]


def keyed() -> dict:  # type: ignore[type-arg]
    return {1: 2}


def halved() -> int:
    return 6 / 2  # type: ignore[return-value]


def raw() -> str:
    return b"raw"  # type: ignore[return-value]


def dated() -> dict[str, Any]:
    return {"at": datetime.date(2026, 1, 1)}


def several() -> set[Frozen]:
    return {FrozenDetailed()}


def asks() -> Asked:
    return Asked("What?")


def maybe() -> int | None:
    return None


def nothing() -> None:
    return


def empty() -> str:
    return ""


def sees_nothing(nothing: str | None = "default") -> str | None:
    return nothing


def sees_no_number(nothing: int | None = 7) -> int | None:
    return nothing


def sees_no_kind(nothing: Kind | None = None) -> bool:
    return nothing is None


def sees_no_team(team: str | None = "default") -> str | None:
    return team


def sees_empty(empty: str | None) -> str | None:
    return empty


def counts() -> int:
    return 3


@coterie.program(agents=[coterie.agent(counts)], max_turns=1)
async def programs_nothing(nothing: str | None = "default") -> bool:
    return nothing is None


def lists() -> list[int]:
    return [1]


def sees_prompt(prompt: str) -> str:
    return prompt


def sees_task(task: str, question: str, prompt: str) -> list[str]:
    return [task, question, prompt]


def sees_kind(classify: Kind) -> Kind:
    assert isinstance(classify, Kind)
    return classify


def sees_weight(weight: int | None = 7) -> int | None:
    return weight


def sees_maybe(maybe: int | None = 7) -> int | None:
    return maybe


def sees_topic(topic: str) -> str:
    return topic


def sees_desk(desk: Kind) -> str:
    return desk.kind


def wants_texts(counts: list[str]) -> str:
    return counts[0]


def wants_other_items(lists: list[str]) -> str:
    return lists[0]


def wants_desk_number(desk: int) -> int:
    return desk


def wants_its_prompt(prompt: str, asks: Asked) -> str:
    return asks.prompt


def leads(prompt: str) -> str:
    return '{"approach": "x", "subtasks": ["one", "two"]}' if "Say how you go about" in prompt else "done"


def helps(prompt: str, task: str) -> str:
    return f"{task}: {prompt[:20]}"


GIVEN: list[Any] = []
"""What `asks_with_values` gives."""


@coterie.program(agents=[coterie.agent(sees_kind)], max_turns=1)
async def asks_with_values() -> str:
    """Ask a function with a value of the test."""
    await coterie.agent(sees_kind)(classify=GIVEN[0])
    return "asked"


def untyped(value: Any = None) -> Any:
    return value


def gives() -> Any:
    return GIVEN[0]


def sees_untyped(classify) -> Any:  # type: ignore[no-untyped-def]
    return classify


def reads_day(at: object) -> bool:
    return isinstance(at, str)


@dataclass
class Since:
    since: datetime.date
    limit: int


@dataclass
class Valued:
    value: datetime.date


@dataclass
class Dated:
    at: datetime.date


def dates() -> Dated:
    return Dated(datetime.date(2026, 1, 1))


def sees_date(at: datetime.date) -> str:
    return str(at.year)


def sees_given(gives: Any) -> bool:
    return bool(gives == GIVEN[0])


@coterie.program(agents=[coterie.agent(gives)], max_turns=1)
async def gives_as_program() -> Any:
    return GIVEN[0]


@coterie.program(agents=[coterie.agent(untyped)], max_turns=1)
async def asks_for_given() -> bool:
    return bool(await coterie.agent(untyped)(GIVEN[0]) == GIVEN[0])


def limited(limit: int = 5, since: datetime.date | None = None) -> str:
    return f"{limit} {since!r}"


def numbered(task: int) -> str:
    return str(task)


def shows(item: Any) -> Any:
    return item


INNER: list[Any] = []
"""What `asks_a_team` asks its team, by name."""


DESK = coterie.agent("desk", coterie.flow("desk", [coterie.agent(limited), coterie.agent(untyped)]))


@coterie.program(agents=[DESK], max_turns=3)
async def asks_a_team() -> str:
    """Ask a flow with values of the test."""
    await DESK(**INNER[0])
    return "asked"


def paired() -> dict[str, Any]:
    return {"pairs": [(1, 2)]}


def wrapped() -> Any:
    return {"result": 5}


@dataclass
class Measured:
    weight: float


def unmeasured() -> Measured:
    return Measured(float("inf"))


def sequenced() -> Sequence[str]:
    return ("a", "b")

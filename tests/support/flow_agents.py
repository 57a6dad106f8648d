"""Functions that tests use as agents of flows; they are found here by module and name."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec

from coterie import AgentProcess, Message


@dataclass
class Issue:
    line: int
    text: str


@dataclass
class Review:
    verdict: Literal["approve", "revise"]
    issues: list[Issue]
    note: str = ""


@dataclass
class Draft:
    body: str
    version: int


@dataclass
class Measured:
    result: int


def measured(prompt: str) -> Measured:
    return Measured(len(prompt))


@dataclass
class Trip:
    prompt: str
    depth: int


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Risk(msgspec.Struct):
    level: Level
    score: float
    tags: dict[str, int] = {}


class Place(TypedDict):
    city: str
    zip: int


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclass
class Node:
    name: str
    children: list["Node"] = field(default_factory=list)


def opts(opts: dict[str, int]) -> str:
    return ", ".join(opts)


async def writer(prompt: str, review: Review | None = None) -> Draft:
    return Draft(f"About {prompt}", 1)


async def editor(prompt: str, reviewer: Review | None = None) -> Draft:
    return Draft(f"About {prompt}", 1 if reviewer is None else 2)


def reviewer(editor: Draft) -> Review:
    return Review("revise" if editor.version < 2 else "approve", [Issue(1, "short")])


async def publisher(body: str, version: int) -> str:
    return f"{body} ({version})"


def risky(prompt: str) -> Risk:
    return Risk(Level.HIGH, 0.5, {"a": 1})


def reads_risk(risky: Risk) -> str:
    assert risky.level is Level.HIGH
    return f"{risky.level.value} {risky.score} {risky.tags}"


def point(prompt: str) -> Point:
    return Point(3)


def place(point: Point) -> Place:
    return {"city": f"at {point.x},{point.y}", "zip": 1}


def sees_place(place: Place, depth: int, missing: str = "none") -> bool:
    return place == {"city": "at 3,0", "zip": 1} and depth == 4 and missing == "none"


def counts(text: str) -> int:
    return len(text)


def a(prompt: str) -> str:
    return "a"


def b(a: str) -> str:
    return f"{a}b"


def two_texts(result: str) -> str:
    return result


def misspelt(verdit: str) -> str:
    return verdit


def wrong_type(version: str) -> str:
    return version


def star(*args: str) -> str:
    return "".join(args)


@dataclass
class Half:
    known: int
    rest: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


def half() -> Half:
    raise AssertionError


def reads_half(half: Half) -> str:
    return ""


def unresolved(body: "Missing") -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(body)


def fails(prompt: str) -> str:
    raise ValueError("no such tea")


def not_json(prompt: str) -> Any:
    return object()


async def waits(prompt: str) -> str:
    await asyncio.Event().wait()
    return prompt


class Echo(AgentProcess):
    async def handle(self, message: Message) -> Message | None:
        return self.reply({"text": "echo", "outputs": {"heard": message.payload["task"]}})


text = "not a function"
anonymous = lambda prompt: prompt  # noqa: E731


def yields(prompt: str) -> Any:
    yield prompt


async def cancels_its_task() -> str:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.01, task.cancel)
    await asyncio.sleep(3600)
    return "never"

"""`coterie.values.dataclass` makes what the standard library's makes."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from bundles import bundle

from coterie import values

FORMS = [
    {"frozen": True, "slots": True, "kw_only": True},
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "kw_only": True},
    {},
]


def make(decorator: Callable[..., Any], form: dict[str, bool]) -> Any:
    """A class and its subclass, made with *decorator*."""

    @decorator(**form)
    class Base:
        """A base."""

        a: int
        b: list[int] = dataclasses.field(default_factory=list)
        c: str = dataclasses.field(default="x", compare=False, repr=False)

    @decorator(**form)
    class Point(Base):
        """A subclass."""

        d: int = 4

        def __post_init__(self) -> None:
            object.__setattr__(self, "d", self.d + 1)

    return Point


@bundle("form", FORMS, ids=lambda form: " ".join(form))
def test_it_makes_what_the_standard_library_makes(form: dict[str, bool]) -> None:
    """Equality, hash, text, copies, replaced fields, defaults and errors."""
    said = []
    for decorator in (values.dataclass, dataclasses.dataclass):
        point = make(decorator, form)
        one, other = point(a=1), point(a=1, c="y")
        found: list[Any] = [repr(one).rpartition(".")[2], one == other, one == point(a=2), one == (1, [], 5), one.d]
        found += [one.b is not other.b, copy.deepcopy(one) == one, dataclasses.replace(one, a=3).a]
        found += [[(each.name, each.kw_only) for each in dataclasses.fields(point)], hasattr(one, "__dict__")]
        for wrong in (lambda: point(), lambda: point(a=1, z=2), lambda: point(1, [], "", 1, 2)):  # noqa: B023
            with pytest.raises(TypeError):
                wrong()
        try:
            found.append(hash(point(a=1, b=())) == hash(point(a=1, b=(), c="y")))
        except TypeError:
            found.append("no hash")
        try:
            one.a = 7
            found.append(one.a)
        except dataclasses.FrozenInstanceError as refused:
            found.append(str(refused))
        said.append(found)

    assert said[0] == said[1]


@values.dataclass(frozen=True, slots=True)
class Kept:
    """A value that is pickled."""

    a: int = 1


def test_a_frozen_value_is_pickled() -> None:
    """As values between processes are."""
    assert pickle.loads(pickle.dumps(Kept(a=3))) == Kept(a=3)

"""What every store of states keeps to: one suite over all of them."""

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from coterie.agents.actors.state import checkpoints
from coterie.agents.actors.state.base import StateStore
from coterie.agents.actors.state.in_memory import InMemoryStateStore
from coterie.agents.actors.state.sqlite import SQLiteStateStore
from coterie.errors import StateRefused

PLAIN: dict[str, Any] = {
    "none": None,
    "true": True,
    "number": -(2**63),
    "float": 0.1,
    "text": "ä €\0 \U0001f600",
    "list": [1, [2, {"deep": []}]],
    "": {},
}


@pytest.fixture(params=["in_memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    return InMemoryStateStore() if request.param == "in_memory" else SQLiteStateStore(tmp_path / "state.db")


def run(store: StateStore, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    async def closing() -> Any:
        try:
            return await main()
        finally:
            await store.close()

    return asyncio.run(closing())


def test_a_state_comes_back_as_it_was_stored(store: StateStore) -> None:
    """Values and their types, until the next `set` replaces the whole."""

    async def main() -> None:
        assert await store.get("a") is None
        await store.set("a", PLAIN)
        assert await store.get("a") == PLAIN
        await store.set("a", {"n": 1})
        assert await store.get("a") == {"n": 1}

    run(store, main)


def test_states_are_kept_apart(store: StateStore) -> None:
    """Each under the agent's name, whatever characters that has."""
    names = ["a", "A", "a/b", "' OR 1=1 --", "ä", ""]

    async def main() -> None:
        for at, name in enumerate(names):
            await store.set(name, {"at": at})
        assert [await store.get(name) for name in names] == [{"at": at} for at in range(len(names))]
        assert await store.list_agents() == sorted(names)

    run(store, main)


def test_a_deleted_state_is_gone(store: StateStore) -> None:
    """Deleting what does not exist does nothing."""

    async def main() -> None:
        await store.set("a", {"n": 1})
        await store.set("b", {"n": 2})
        await store.delete("a")
        await store.delete("a")
        assert await store.get("a") is None
        assert await store.list_agents() == ["b"]

    run(store, main)


def test_what_is_stored_does_not_change_with_the_agent(store: StateStore) -> None:
    """The store keeps a deep copy, and gives one."""

    async def main() -> None:
        state: dict[str, Any] = {"list": [1]}
        await store.set("a", state)
        state["list"].append(2)
        found = await store.get("a")
        assert found == {"list": [1]}
        found["list"].append(3)
        assert await store.get("a") == {"list": [1]}

    run(store, main)


def test_the_store_can_be_closed_twice_and_used_again(store: StateStore) -> None:
    """A second system in the same process may be given the same store."""

    async def main() -> None:
        await store.set("a", {"n": 1})
        await store.close()
        await store.close()
        assert await store.get("a") == {"n": 1}

    run(store, main)
    assert run(store, lambda: store.get("a")) == {"n": 1}, "in another event loop"


def test_many_agents_store_at_the_same_time(store: StateStore) -> None:
    """The last state of each wins; none is lost."""

    async def one(name: str) -> None:
        for n in range(5):
            await store.set(name, {"n": n})

    async def main() -> None:
        await asyncio.gather(*(one(f"a{n}") for n in range(40)))
        assert [await store.get(f"a{n}") for n in range(40)] == [{"n": 4}] * 40

    run(store, main)


def test_a_cancelled_checkpoint_stores_all_or_nothing(store: StateStore) -> None:
    """And leaves the store usable for the next incarnation."""

    async def main() -> None:
        await store.set("a", {"n": 0, "half": 0})
        task = asyncio.create_task(store.set("a", {"n": 1, "half": 1}))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await store.set("b", {})
        found = await store.get("a")
        assert found in ({"n": 0, "half": 0}, {"n": 1, "half": 1})

    run(store, main)


class Colour(Enum):
    RED = "red"


class Named(str):
    pass


def nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"seen": {1}}, "state['seen'] is of type set: store a sorted list"),
        ({"at": {"pos": (1, 2)}}, "state['at']['pos'] is of type tuple: store a list"),
        ({"list": [0, b"x"]}, "state['list'][1] is of type bytes: store as base64 text"),
        ({"when": datetime(2026, 1, 1)}, "state['when'] is of type datetime: store its isoformat()"),
        ({"c": Colour.RED}, "state['c'] is of type Colour: store plain data"),
        ({"n": Named("x")}, "state['n'] is of type Named: store str(…) of it"),
        ({"by": {1: "x"}}, "state['by'] has the key 1, which is not text"),
        ({"n": 2**63}, "state['n'] is a whole number of more than 64 bits"),
        ({"n": math.nan}, "state['n'] is nan, which JSON does not have"),
        ({"t": "\ud800"}, "half of a surrogate pair"),
        ({"deep": nested(200)}, "is nested deeper than 100 levels, or contains itself"),
        ({"self": circular()}, "is nested deeper than 100 levels, or contains itself"),
    ],
)
def test_what_would_not_come_back_is_refused(store: StateStore, state: Any, fault: str) -> None:
    """With the place in the state and what to store instead; what was stored before is unchanged."""

    async def main() -> None:
        await store.set("a", {"n": 1})
        with pytest.raises(StateRefused) as caught:
            await store.set("a", state)
        assert fault in str(caught.value)
        assert str(caught.value).startswith("the state of agent 'a' cannot be stored: ")
        assert await store.get("a") == {"n": 1}

    run(store, main)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("aä\n\"'", max_size=3), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@hypothesis_settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(state=st.dictionaries(st.text("ab", max_size=3), VALUES, max_size=4))
def test_any_plain_state_comes_back(store: StateStore, state: dict[str, Any]) -> None:
    """Equal in values and in their types."""

    async def main() -> None:
        await checkpoints.save(store, "a", state)
        assert repr(await checkpoints.restore(store, "a")) == repr(state)

    run(store, main)

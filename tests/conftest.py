"""What every test gets: a home of its own, so that no test reads or writes the user's."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import postgres_server
import pytest
import unsynced
from hypothesis import settings

if TYPE_CHECKING:
    import cluster_stage

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process that the tests start would compile everything anew
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell started the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

unsynced.apply()
settings.register_profile(  # the same examples every time, on any machine
    "coterie", derandomize=True, deadline=None, max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "40"))
)
settings.load_profile("coterie")


@pytest.fixture(autouse=True, scope="session")
def no_home_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the fixtures of a module or a session find, which are made before a test has a home of its own."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_STATE_HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
        yield


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory for the per-user index, and one for settings, shared by the subprocesses of a test."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    monkeypatch.delenv("AUTOLOOP_CONFIG", raising=False)
    return home


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A server of our own, as a URL of SQLAlchemy without a database; tests are skipped where it cannot be started."""
    if why := postgres_server.missing():
        pytest.skip(f"needs PostgreSQL: {why}")
    with postgres_server.server() as url:
        yield url


@pytest.fixture(scope="session")
def new_export(postgres: str) -> Callable[[], str]:
    """Makes empty databases for exports of clusters."""
    import asyncpg

    numbers, server = count(1), postgres.replace("+asyncpg", "")

    async def make(name: str) -> None:
        connection = await asyncpg.connect(server.format("postgres"))
        await connection.execute(f"create database {name}")
        await connection.close()

    def new() -> str:
        name = f"export{next(numbers)}"
        asyncio.run(make(name))
        return server.format(name)

    return new


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[cluster_stage.Server]":
    """One Temporal server for the tests of a process."""
    from cluster_stage import server

    with server(tmp_path_factory.mktemp("temporal")) as one:
        yield one


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests marked `long` or `real_agents` out, unless a marker expression chose what to run."""
    if config.option.markexpr:
        return

    def is_left_out(item: pytest.Item) -> bool:
        return any(item.get_closest_marker(name) is not None for name in ("long", "real_agents"))

    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_left_out(item)]

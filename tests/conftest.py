"""What every test gets: a home of its own, so that no test reads or writes the user's."""

import asyncio
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import postgres_server
import pytest
import unsynced
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import cluster_stage

pytest_plugins = ["cpu_seconds", "extras", "shares"]

os.environ.pop("PYTEST_ADDOPTS", None)  # read by now, and not meant for what tests start
os.environ["TERM"] = "xterm"  # on a dumb terminal nothing is drawn
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process that the tests start would compile everything anew
sys.dont_write_bytecode = False
sys.path[:] = [folder for folder in sys.path if folder not in ("", os.getcwd())]  # `python -m pytest` adds the folder
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell started the tests in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(20_000, 20, 50)  # what the tests have loaded is large, and a look through all of it finds nothing
unsynced.apply()
settings.register_profile(  # the same examples every time, on any machine, however busy it is
    "coterie",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow],
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


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names for the homes of tests; a number of our own, since pytest's looks at every folder that is there."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in count(1))


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path]) -> Iterator[Path]:
    """A state directory for the per-user index, and one for settings, shared by the subprocesses of a test."""
    home = next(homes)
    home.mkdir()
    own = {"HOME": str(home), "XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home / "settings")}
    before = {name: os.environ.get(name) for name in (*own, "AUTOLOOP_CONFIG")}
    os.environ.update(own)
    os.environ.pop("AUTOLOOP_CONFIG", None)
    yield home
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


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

    import coterie.execution.cluster.serve  # noqa: F401 - which takes a second; else the first test pays for it

    with server(tmp_path_factory.mktemp("temporal")) as one:
        yield one


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of a tier that the marker expression does not name, and what is not in the share of `long`."""
    from cpu_seconds import MARKERS  # not above: pytest rewrites a plugin before it is imported
    from shares import left_out

    unnamed = set(MARKERS) - set(re.findall(r"\w+", config.option.markexpr))
    unwanted = left_out(items) | {item for item in items if any(map(item.get_closest_marker, unnamed))}
    if unwanted:
        config.hook.pytest_deselected(items=[item for item in items if item in unwanted])
        items[:] = [item for item in items if item not in unwanted]

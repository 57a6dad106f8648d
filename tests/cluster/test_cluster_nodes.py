"""What a node keeps for the attempts of a run that it performs at once: the files, and how they are heard."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from asking import agent, request

from coterie.cluster.files import WorkTrees, pack
from coterie.cluster.relay import Relay
from coterie.ids import folder_name
from coterie.journal.export import FolderExport
from coterie.journal.lock import is_held
from coterie.runs.messages.doorbell import Doorbell


def test_attempts_at_once_have_the_files_of_a_run_that_is_new_here(tmp_path: Path) -> None:
    """Also where a node was killed while it made their repository."""
    (submitted := tmp_path / "submitted").mkdir()
    (submitted / "file").write_text("here")
    (tmp_path / "home" / folder_name("r") / "files.git").mkdir(parents=True)

    async def main() -> list[str]:
        export = FolderExport(tmp_path / "export")
        place, trees = await pack(submitted, export), WorkTrees(tmp_path / "home", export)

        async def read(name: str) -> str:
            async with trees.of("r", name, place) as at:
                return (at.cwd / "file").read_text()

        return await asyncio.gather(*(read(f"r/{name}#1.1") for name in "abc"))

    assert asyncio.run(main()) == ["here"] * 3


def test_an_attempt_that_ends_does_not_close_what_another_one_is_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock by which agents tell that somebody hears them is held until the last of them has ended."""
    may_open = asyncio.Event()

    async def slowly(bell: Doorbell) -> None:
        await may_open.wait()

    monkeypatch.setattr(Doorbell, "open", slowly)
    nobody: Any = None
    relay = Relay(nobody)

    async def main() -> None:
        async with AsyncExitStack() as stack:

            async def begin_and_end() -> None:
                async with relay.of(request(agent("b"), folder=tmp_path / "b", root=tmp_path)):
                    pass

            first = relay.of(request(agent("a"), folder=tmp_path / "a", root=tmp_path))
            beginning = asyncio.create_task(stack.enter_async_context(first))
            other = asyncio.create_task(begin_and_end())
            await asyncio.wait({other}, timeout=0.1)
            may_open.set()
            await asyncio.gather(beginning, other)
            assert is_held(tmp_path / "lock")
        assert not is_held(tmp_path / "lock")

    asyncio.run(main())

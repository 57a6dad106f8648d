"""Recorded answers of models, for the tests of a team."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from coterie.agents.backends.models.cassette import VARIABLE, Mode


@contextmanager
def cassette(file: str | Path, mode: Literal["replay", "record", "auto"] = "replay") -> Iterator[Path]:
    """Answer all model calls in the block from *file*, in this process and in those it starts.

        with cassette("tests/review.jsonl"):
            outcome = asyncio.run(coterie.run(team, {"prompt": "Review this."}))

    Args:
        mode: `replay` needs no key and no network; a call that was not recorded fails its turn with the difference.
            `record` calls the providers and rewrites the file. `auto` calls them only for calls that are missing from
            the file.

    Raises:
        ValueError: If the mode is unknown.
    """
    if mode not in (known := [one.value for one in Mode]):
        raise ValueError(f"the mode of a cassette is {', '.join(known)}, not {mode!r}")
    path = Path(file).resolve()
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = f"{mode}:{path}"
    try:
        yield path
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before

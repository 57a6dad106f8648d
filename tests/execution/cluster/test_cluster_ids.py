"""The ids that a submitted run can have."""

import asyncio
from typing import Any

import pytest
from bundles import bundle
from cluster_stage import MemoryExport

from coterie.errors import UsageError

RUN_ID = pytest.importorskip("coterie.execution.cluster.submit").RUN_ID


@bundle("run", ["../x", "a/b", "..", "a..b", "a.", "a.lock", "-x", "a b", " ", "x" * 101, "a\n", "a:b"])
def test_an_id_that_cannot_name_folders_and_a_branch_is_refused(run: str) -> None:
    from coterie.execution.cluster.submit import submit

    nothing: Any = None
    with pytest.raises(UsageError, match="cannot be the id of a run"):
        asyncio.run(submit(nothing, MemoryExport(), nothing, {}, run=run))


@bundle("run", ["notes-2.0", "20261123-042334-c615cd", "x", "Nightly_7", "a@b", "x" * 100])
def test_other_ids_are_accepted(run: str) -> None:
    assert RUN_ID.fullmatch(run)

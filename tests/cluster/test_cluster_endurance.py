"""Runs of all kinds on three nodes, while nodes, guards, servers, networks and disks fail: a sample of the program."""

from pathlib import Path

import cluster_killer
import postgres_server
import pytest

LONG = ("freeze", "cut_off", "fill_disk", "kill_guard", "kill_temporal", "kill_database", "kill")


@pytest.mark.long
def test_all_runs_complete_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is repeated, lost or blamed on an agent, and no two attempts of a turn work at once."""
    if why := postgres_server.missing():
        pytest.skip(f"needs PostgreSQL: {why}")
    monkeypatch.setattr(cluster_killer, "FAULTS", LONG)
    monkeypatch.setattr(cluster_killer, "FREEZE", (9.0, 12.0))
    wrong = cluster_killer.play(
        tmp_path, runs=12, faults=len(LONG), length=4, ticks=5, pace=2.0, seed=7, within=300.0, links=40
    )
    assert wrong == []

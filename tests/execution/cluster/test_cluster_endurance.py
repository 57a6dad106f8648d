"""Runs of all kinds whose nodes, servers, networks and disks fail, and that are stopped: samples of two programs."""

from pathlib import Path

import cluster_killer
import cluster_mix
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


@pytest.mark.parametrize(
    ("runs", "kills", "early"),
    [pytest.param(4, 1, False, marks=pytest.mark.slow), pytest.param(60, 12, True, marks=pytest.mark.long)],
    ids=["few", "sixty"],
)
def test_generated_runs_end_as_alone_however_they_are_stopped(
    tmp_path: Path, runs: int, kills: int, early: bool
) -> None:
    """Every turn of flows, loops, patterns and teams is compared; people answer, nodes and the server are killed."""
    harm = {"harms": 3, "ticks": 4, "seed": 1, "links": 60, "within": 1500.0}
    assert cluster_mix.play(tmp_path, runs=runs, kills=kills, early=early, **harm) == []  # type: ignore[arg-type]

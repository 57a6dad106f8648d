"""What every store holds to: how many steps it takes to let go of one run of many."""

from steps import lines_run

from coterie.history.journal.rules import Claims


def test_to_let_go_of_each_of_many_runs_takes_as_many_steps() -> None:
    """Ten thousand teams at once end one after the other."""

    def work(n: int) -> int:
        claims = Claims()
        runs = [f"r/team#{k}.1" for k in range(n)]
        for run in ("r", *runs):
            claims.add(run)
        return lines_run(lambda: [claims.let_go(run) for run in runs])

    assert work(400) < 2.1 * work(200)


def test_what_is_let_go_of_is_gone_for_good() -> None:
    """With the runs below it, and it may be claimed again."""
    claims = Claims()
    for run in ("r", "r/a", "r/a/b", "r/c/d", "s"):
        claims.add(run)

    assert claims.let_go("r/a") == ["r/a/b"]
    assert claims.let_go("r/a/b") == []
    claims.add("r/a")
    assert sorted(claims.let_go("r")) == ["r/a", "r/c/d"]
    assert claims.let_go("r") == claims.let_go("s") == []

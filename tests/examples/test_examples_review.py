"""The writer and the reviewer of the repo-review example: a review that does not hold goes back."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bundles import bundle
from review_team import ANALYSERS, Ask, Result, commit, git, process

pytestmark = pytest.mark.once


@dataclass
class Team:
    """Asks one agent after the other as the flow of `review.at` does."""

    ask: Ask
    repo: Path
    out: Path
    budget: str = "12"
    reports: list[Result] = field(default_factory=list)
    said: dict[str, Result] = field(default_factory=dict)

    def analyse(self) -> None:
        self.reports = [self.ask(name, repo=str(self.repo)) for name in ANALYSERS]

    def turn(self, agent: str, *marks: str) -> dict[str, object]:
        earlier = [self.said[name] for name in (*marks, agent) if name in self.said]
        self.said[agent] = self.ask(
            agent, earlier, self.reports, repo=str(self.repo), out=str(self.out), budget=self.budget
        )
        return dict(self.said[agent]["outputs"])

    def write(self) -> dict[str, object]:
        return self.turn("writer", "reviewer")

    def review(self) -> dict[str, object]:
        return self.turn("reviewer", "writer")

    @property
    def page(self) -> str:
        return self.out.read_text(encoding="utf-8")

    @page.setter
    def page(self, text: str) -> None:
        self.out.write_text(text, encoding="utf-8")


@pytest.fixture
def team(seeded: Path, reports: list[Result], ask: Ask, tmp_path: Path) -> Team:
    """A team whose analysers have reported on the seeded repository."""
    return Team(ask, seeded, tmp_path / "review.md", reports=[dict(report) for report in reports])


@pytest.fixture
def approved(team: Team) -> Team:
    """A team whose review holds."""
    while team.write() and team.review()["verdict"] == "revise":
        pass
    return team


def test_a_draft_that_leaves_out_what_is_serious_goes_back(team: Team) -> None:
    """With room for one finding the others that are serious are asked for, and each silent analyser."""
    team.budget = "1"
    assert len(team.write()["listed"]) == 1

    first = team.review()
    assert first["verdict"] == "revise"
    assert any("is serious and left out" in comment for comment in first["comments"])
    assert any(comment.startswith("churn is not heard") for comment in first["comments"])

    second = team.write()
    assert set(first["missing"]) < set(second["listed"])
    assert second["draft"] == 2
    assert team.review()["verdict"] == "approve"


def test_a_draft_with_room_for_everything_holds_at_once(team: Team) -> None:
    """Revision is asked for when there is a reason, not for show."""
    team.budget = "1000"
    team.write()

    assert team.review() | {"comments": []} == {"verdict": "approve", "missing": [], "gone": [], "comments": []}


def test_every_seeded_defect_that_is_serious_is_in_the_review(approved: Team) -> None:
    """The finished page names the place of each, and each analyser is heard."""
    for place in ("shop/risky.py:16", "shop/risky.py:17", "shop/risky.py:22", "shop/broken.py:4", "shop/hot.py:1"):
        assert f"`{place}`" in approved.page
    for analyser in ANALYSERS:
        assert f"({analyser}." in approved.page


Tamper = Callable[[str], str]
FAULTS: dict[str, tuple[Tamper, str]] = {
    "a line that is not there": (lambda page: page.replace("broken.py:4`", "broken.py:99`"), "has no line 99"),
    "a file that is not there": (lambda page: page.replace("`shop/broken.py:", "`shop/mended.py:"), "has no line 4"),
    "a file outside": (lambda page: page.replace("`shop/broken.py:", "`../../shop/broken.py:"), "has no line 4"),
    "another quote": (lambda page: page.replace("os.system(", "os.remove("), "does not read as quoted"),
    "a claim of its own": (lambda page: page.replace("cannot parse", "adores"), "no analyser reported"),
    "another severity": (lambda page: page.replace("**high**", "**low**", 1), "is high, says the analyser"),
    "a wrong count": (lambda page: page.replace(" high, ", "0 high, "), "the summary should count"),
    "a changed order": (lambda page: _swap(page), "not in order"),
    "a missing finding": (lambda page: _without(page, "shop/broken.py:4"), "is serious and left out"),
}


def _swap(page: str) -> str:
    """The first finding behind the last."""
    head, first, rest = page.split("\n1. ")[0], *page.split("\n1. ")[1].split("\n2. ", 1)
    found, end = rest.split("\n\n## ", 1)
    return f"{head}\n2. {found}\n1. {first}\n\n## {end}"


def _without(page: str, place: str) -> str:
    entries = page.split("\n   ")
    kept = [entry for entry in entries if f"`{place}`" not in entry]
    return "\n   ".join(kept)


@bundle("fault", FAULTS)
def test_a_review_with_a_fault_goes_back_with_a_comment_that_names_it(approved: Team, fault: str) -> None:
    """The reviewer reads the page on disk and believes nothing in it."""
    tamper, comment = FAULTS[fault]
    honest = approved.page
    approved.page = tamper(honest)
    changed, verdict = approved.page, approved.review()
    approved.write()

    assert changed != honest
    assert verdict["verdict"] == "revise"
    assert any(comment in one for one in verdict["comments"]), verdict["comments"]
    assert approved.review()["verdict"] == "approve"


def test_a_count_of_commits_is_counted_again(approved: Team) -> None:
    """A claim about history is checked with git, not believed."""
    churn = approved.reports[ANALYSERS.index("churn")]
    (hot,) = churn["outputs"]["findings"]
    churn["outputs"] = churn["outputs"] | {"findings": [hot | {"evidence": hot["evidence"] | {"commits": 11}}]}

    assert any("shop/hot.py:1: counted again, it is not so" in one for one in approved.review()["comments"])


def test_what_changed_meanwhile_leaves_the_review(tmp_path: Path, ask: Ask) -> None:
    """The repository may change while the team works: the review then tells what is so now."""
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    (project / "a.py").write_text("import os\n\nos.system(input())\n")
    (project / "b.py").write_text("eval(input())\n")
    commit(project, "All of it")
    team = Team(ask, project, tmp_path / "review.md")
    team.analyse()
    team.write()
    (project / "a.py").write_text("print('mended')\n")

    verdict = team.review()
    assert verdict["comments"] == ["a.py has no line 3"]
    assert len(team.write()["listed"]) == 1
    assert team.review()["verdict"] == "approve"
    assert "a.py" not in team.page


def test_two_findings_of_one_line_are_told_apart(tmp_path: Path, ask: Ask) -> None:
    """One line may be wrong twice, and quote backticks."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text('def f(a=[], b={}, c="``"): return a, b, c\n')
    team = Team(ask, project, tmp_path / "review.md")
    team.analyse()

    assert len(team.write()["listed"]) == 2
    assert team.review()["verdict"] == "approve"


def test_a_repository_without_a_fault_gets_a_review_that_says_so(tmp_path: Path, ask: Ask) -> None:
    """Nothing found is a result."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("VALUE = 1\n")
    team = Team(ask, project, tmp_path / "review.md")
    team.analyse()
    team.write()

    assert team.review()["verdict"] == "approve"
    assert "0 findings (0 high, 0 medium, 0 low); 0 found in all" in team.page


def test_an_analyser_without_a_report_is_named(team: Team) -> None:
    """The reader is told what was not looked at."""
    del team.reports[ANALYSERS.index("risks")]
    team.write()

    assert "- risks: gave no report" in team.page


def test_a_missing_review_is_one_clear_sentence(team: Team) -> None:
    """The reviewer fails without a page to read."""
    team.write()
    team.out.unlink()

    done: subprocess.CompletedProcess[str] = process("reviewer", {"input": {"out": str(team.out)}}, team.out.parent)
    assert done.returncode == 1
    assert done.stderr.startswith("the review cannot be read: ")


@pytest.mark.parametrize(("given", "said"), [("many", "'many'"), ("1.5", "'1.5'")])
def test_a_budget_that_is_no_number_is_one_clear_sentence(tmp_path: Path, given: str, said: str) -> None:
    """A wrong input is named with its value and what to give instead."""
    done = process("writer", {"input": {"budget": given}}, tmp_path)

    assert done.returncode == 1
    assert done.stderr == f"budget is {said}: give a whole number, --input budget=12\n"

"""Each analyser of the repo-review example names every seeded defect, and nothing else."""

from pathlib import Path

import pytest
from review_team import ANALYSERS, Ask, commit, expected, git, process

pytestmark = pytest.mark.once


@pytest.mark.parametrize("analyser", ["complexity", "risks", "duplicates", "upkeep"])
def test_an_analyser_finds_what_is_marked_and_nothing_else(seeded: Path, ask: Ask, analyser: str) -> None:
    """The findings are exactly the lines whose comment says so."""
    found = ask(analyser, repo=str(seeded))["outputs"]["findings"]

    assert {(one["rule"], one["file"], one["line"]) for one in found} == expected(seeded, analyser)
    assert expected(seeded, analyser)


def test_a_finding_quotes_the_line_it_names(seeded: Path, ask: Ask) -> None:
    """Every finding of every analyser can be looked up where it says."""
    for analyser in ANALYSERS:
        for one in ask(analyser, repo=str(seeded))["outputs"]["findings"]:
            line = (seeded / one["file"]).read_text(encoding="utf-8").split("\n")[one["line"] - 1]
            assert line.strip().startswith(one["quote"].removesuffix("…"))


def test_churn_counts_the_commits_of_a_file(seeded: Path, ask: Ask) -> None:
    """A hot file is one that most commits touch; its share and the commits that mended it are told."""
    (hot,) = ask("churn", repo=str(seeded))["outputs"]["findings"]

    assert (hot["file"], hot["evidence"]["commits"]) == ("shop/hot.py", 12)
    assert hot["evidence"]["head"] == git(seeded, "rev-parse", "HEAD").strip()
    assert "12 of the last 16 commits" in hot["claim"]
    assert "3 of them to mend something" in hot["claim"]


def test_severity_depends_on_what_can_go_wrong(seeded: Path, ask: Ask) -> None:
    """A computed command in a shell is serious, a constant one is not, and nothing in a test is."""
    found = ask("risks", repo=str(seeded))["outputs"]["findings"]

    shells = {one["quote"].split("  #")[0]: one["severity"] for one in found if one["rule"] == "risks.shell"}
    assert shells == {
        'os.system("rm " + name)': "high",
        'run(f"ls {name}", shell=True)': "high",
        'sp.Popen("date", shell=True)': "low",
    }
    assert {one["severity"] for one in found if one["file"].startswith("tests/")} == {"low"}


def test_the_worst_comes_first(seeded: Path, ask: Ask) -> None:
    """An analyser hands its findings on in order, so that what is cut off is the least."""
    severities = [one["severity"] for one in ask("risks", repo=str(seeded))["outputs"]["findings"]]

    assert severities == sorted(severities, key=["high", "medium", "low"].index)
    assert severities[0] == "high"


def test_a_folder_without_git_is_reviewed_all_the_same(tmp_path: Path, ask: Ask) -> None:
    """Without history churn says so; the others read the files, but not installed libraries."""
    project = tmp_path / "project"
    (project / "node_modules").mkdir(parents=True)
    (project / "a.py").write_text("eval(input())\n")
    (project / "node_modules" / "b.py").write_text("eval(input())\n")

    assert ask("churn", repo=str(project))["outputs"]["notes"] == ["there is no git history here"]
    assert [one["file"] for one in ask("risks", repo=str(project))["outputs"]["findings"]] == ["a.py"]
    assert "not under git" in ask("scout", repo=str(project))["text"]


def test_a_repository_without_python_has_no_findings_and_says_why(tmp_path: Path, ask: Ask) -> None:
    """Nothing to find is an answer, not a failure."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "notes.txt").write_text("hello\n")

    for analyser in ("complexity", "risks", "duplicates", "upkeep"):
        report = ask(analyser, repo=str(tmp_path / "project"))["outputs"]
        assert (report["found"], report["notes"]) == (0, ["there are no Python files here"])


def test_an_empty_repository_ends_the_team_at_once(tmp_path: Path) -> None:
    """The scout says what is missing and what to do."""
    (tmp_path / "empty").mkdir()

    done = process("scout", {"input": {"repo": str(tmp_path / "empty")}}, tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"{tmp_path / 'empty'} holds no readable files: name the repository with --input repo=PATH\n"


@pytest.mark.parametrize("agent", ["scout", *ANALYSERS])
def test_a_missing_folder_is_one_clear_sentence(tmp_path: Path, agent: str) -> None:
    """No traceback reaches the user."""
    done = process(agent, {"input": {"repo": str(tmp_path / "nowhere")}}, tmp_path)

    assert done.returncode == 1
    assert done.stderr == f"{tmp_path / 'nowhere'} is not a folder: name the repository with --input repo=PATH\n"


def test_files_that_cannot_be_read_are_left_out(tmp_path: Path, ask: Ask) -> None:
    """Binary content, odd line ends, odd encodings, huge and endlessly nested files stop nobody."""
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    (project / "binary.py").write_bytes(b"eval(x)\0")
    (project / "latin.py").write_bytes(b"# \xe9\r\n\x0c\r\neval(x)\r\n")
    (project / "nested.py").write_text("x = " + "(" * 5000 + ")" * 5000 + "\n")
    (project / "huge.py").write_text("x = 1\n" * 300_000)
    (project / "gone.py").write_text("eval(x)\n")
    (project / "link.py").symlink_to(tmp_path / "elsewhere.py")
    commit(project, "All of it")
    (project / "gone.py").unlink()

    found = ask("risks", repo=str(project))["outputs"]["findings"]
    assert [(one["file"], one["line"], one["quote"]) for one in found] == [("latin.py", 3, "eval(x)")]
    unparsable = ask("complexity", repo=str(project))["outputs"]["findings"]
    assert [one["file"] for one in unparsable] == ["nested.py"]


def test_what_is_beyond_the_bound_is_said(tmp_path: Path, ask: Ask) -> None:
    """A repository of any size is read up to a bound, and the report says how far."""
    project = tmp_path / "project"
    project.mkdir()
    for n in range(10):
        (project / f"m{n}.py").write_text("x = 1  # " + "-" * 900_000 + "\n")

    report = ask("risks", repo=str(project), whole="true")["outputs"]
    assert report["seen"] == 8
    assert report["notes"] == ["8 of 10 Python files were read, the rest is beyond the bound"]


def test_by_default_what_was_changed_last_is_reviewed(tmp_path: Path, ask: Ask) -> None:
    """A part that takes a second or two; all tests are read, so that nothing is called untested that is not."""
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    for name in ("old", "new", "test_old"):
        code = "\n".join(f"{name}_{n} = {n}" for n in range(40))
        (project / f"{name}.py").write_text(
            f"{code}\nimport {'new' if name == 'test_old' else 'os'}  # {'-' * 350_000}\n"
        )
        commit(project, f"Add {name}")
    with (project / "new.py").open("a") as file:
        file.write("eval(x)\n")
    commit(project, "Change new")

    report = ask("risks", repo=str(project))["outputs"]
    assert ([one["file"] for one in report["findings"]], report["seen"]) == (["new.py"], 1)
    assert report["notes"] == ["1 of 3 Python files were read, those changed last; --input whole=true reads all"]
    assert ask("risks", repo=str(project), whole="true")["outputs"]["seen"] == 3
    claims = [one["claim"] for one in ask("upkeep", repo=str(project))["outputs"]["findings"]]
    assert claims == ["`os` is imported and never used"]


def test_a_part_of_a_repository_is_reviewed_on_its_own(seeded: Path, ask: Ask) -> None:
    """A folder inside a repository is a repository to the team, its history included."""
    (hot,) = ask("churn", repo=str(seeded / "shop"))["outputs"]["findings"]

    assert (hot["file"], hot["evidence"]["commits"]) == ("hot.py", 12)

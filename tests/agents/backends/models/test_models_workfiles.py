"""The tools for files: what they do, and that they stay inside."""

import os
import stat
from pathlib import Path

import pytest

from coterie.agents.backends.models import workfiles
from coterie.agents.backends.models.rules import Refused
from coterie.agents.backends.models.workfiles import WorkFiles
from coterie.team.planning.permissions import Permissions

SECRET = "do not tell"


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A working directory beside a file with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\ny = 2\n")
    (folder / "src").mkdir()
    (folder / "src" / "b.py").write_text("def f():\n    return x\n")
    return folder


def work(folder: Path, closed: Path | None = None, **rules: tuple[str, ...] | str) -> WorkFiles:
    return WorkFiles(folder, Permissions(**rules), closed)  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_file_is_read_with_its_line_numbers(inside: Path) -> None:
    """A long one in parts, and the reader is told how to go on."""
    tools = work(inside)
    (inside / "long").write_text("".join(f"line {n}\n" for n in range(1, 5001)))

    assert tools.read("a.py") == "1\tx = 1\n2\ty = 2"
    assert tools.read("./src/../a.py", offset=2) == "2\ty = 2"
    assert (
        tools.read("long", offset=2, limit=2) == "2\tline 2\n3\tline 3\n(long has 5000 lines: continue with offset 4)"
    )
    assert tools.read("long").endswith("(long has 5000 lines: continue with offset 2001)")
    assert tools.read("a.py", offset=9) == "(a.py has 2 lines)"


def test_lines_are_found(inside: Path) -> None:
    """In a folder or a file, with a choice of names; binary files and git's own are left out."""
    (inside / "binary").write_bytes(b"x = \0\n")
    (inside / ".git").mkdir()
    (inside / ".git" / "config").write_text("x = 3\n")
    tools = work(inside)

    assert tools.grep(r"\bx\b") == "a.py:1: x = 1\nsrc/b.py:2: return x"
    assert tools.grep(r"\bx\b", path="src") == "src/b.py:2: return x"
    assert tools.grep("y", path="a.py") == "a.py:2: y = 2"
    assert tools.grep("X", glob="*.md") == "(no line matches)"
    assert tools.grep("(?i)X =") == "a.py:1: x = 1"
    assert tools.glob("**/*.py") == "a.py\nsrc/b.py"
    assert tools.glob("*.{py,md}") == "a.py"
    assert tools.glob("*.py", path="src") == "src/b.py"
    assert tools.glob("*.[!p]*") == "(no file matches)"


def test_files_are_written_and_edited(inside: Path) -> None:
    """Folders are made, and an existing file keeps its mode."""
    tools = work(inside)
    os.chmod(inside / "a.py", 0o755)

    assert tools.write("new/deep/c.txt", "hé") == "wrote 3 bytes to new/deep/c.txt"
    assert tools.write("a.py", "x = 1\nx = 1\n") == "wrote 12 bytes to a.py"
    assert tools.edit("a.py", "x = 1\n", "z\r\n", replace_all=True) == "replaced 2 occurrences in a.py"
    assert (inside / "a.py").read_bytes() == b"z\r\nz\r\n"
    assert stat.S_IMODE((inside / "a.py").stat().st_mode) == 0o755
    assert (inside / "new" / "deep" / "c.txt").read_text() == "hé"
    assert sorted(tree(inside)) == ["a.py", "new/deep/c.txt", "src/b.py"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x", "x", "equals"),
        ("", "x", "empty"),
        ("nothing", "x", "does not contain"),
        ("=", ":", "2 times"),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(inside: Path, old: str, new: str, why: str) -> None:
    """And the file stays as it is."""
    with pytest.raises(Refused, match=why):
        work(inside).edit("a.py", old, new)

    assert (inside / "a.py").read_text() == "x = 1\ny = 2\n"


OUTSIDE = [
    "../outside/secret.txt",
    "link",
    "folder/secret.txt",
    "src/../../outside/secret.txt",
    "a\0b",
    "/etc/hostname",
]


@pytest.mark.parametrize("path", [*OUTSIDE, "absolute"])
def test_nothing_outside_is_read_or_changed(inside: Path, path: str) -> None:
    """By `..`, by an absolute path, by a link to a file or to a folder."""
    (inside / "link").symlink_to("../outside/secret.txt")
    (inside / "folder").symlink_to("../outside")
    outside = inside.parent / "outside"
    path = str(outside / "secret.txt") if path == "absolute" else path
    tools = work(inside)

    for call in (tools.read, tools.grep, tools.glob):
        with pytest.raises(Refused, match=r"outside the working directory|not a valid path"):
            call(*([path] if call == tools.read else ["x", path]))
    with pytest.raises(Refused):
        tools.write(path, "changed")
    with pytest.raises(Refused):
        tools.edit(path, "do", "changed")
    assert tree(outside) == {"secret.txt": SECRET}
    assert "secret" not in tools.glob("**")
    assert SECRET not in tools.grep(".")


def test_a_link_that_leads_back_inside_is_followed(inside: Path) -> None:
    """The file it leads to is written, and the link stays."""
    (inside / "also.py").symlink_to("src/b.py")
    tools = work(inside)

    assert tools.read("also.py", limit=1).startswith("1\tdef f():")
    tools.write("also.py", "new")
    assert (inside / "also.py").is_symlink()
    assert (inside / "src" / "b.py").read_text() == "new"
    for rule in ("Read(also.py)", "Read(src/b.py)"):
        with pytest.raises(Refused, match=r"also\.py|b\.py"):
            work(inside, deny=(rule,)).read("also.py")


def test_a_folder_that_is_replaced_by_a_link_meanwhile_leads_nowhere(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path was resolved before; the file is still opened inside, or not at all."""
    (inside / "src" / "secret.txt").write_text("mine")
    tools = work(inside)
    place = WorkFiles.place

    def replaced(self: WorkFiles, tool: str, path: str) -> tuple[str, ...]:
        names = place(self, tool, path)
        os.rename(inside / "src", inside / f"was-{tool}")
        (inside / "src").symlink_to("../outside")
        return names

    for call in (lambda: tools.read("src/secret.txt"), lambda: tools.write("src/secret.txt", "changed")):
        with monkeypatch.context() as patch:
            patch.setattr(WorkFiles, "place", replaced)
            with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
                call()
        (inside / "src").unlink()
        os.rename(next(inside.glob("was-*")), inside / "src")
    assert (inside.parent / "outside" / "secret.txt").read_text() == SECRET


def test_special_files_are_neither_waited_for_nor_replaced(inside: Path) -> None:
    """A pipe without a writer would block for ever."""
    os.mkfifo(inside / "pipe")
    tools = work(inside)

    for call in (tools.read, lambda path: tools.write(path, "x"), lambda path: tools.edit(path, "x", "y")):
        with pytest.raises(OSError, match="a pipe"):
            call("pipe")
    assert tools.grep("x = ") == "a.py:1: x = 1"
    assert stat.S_ISFIFO((inside / "pipe").stat().st_mode)
    with pytest.raises(OSError, match="directory"):
        tools.read("src")
    with pytest.raises(Refused, match="is a folder"):
        tools.write(".", "x")


def test_a_file_that_may_not_be_written_is_not_replaced(inside: Path) -> None:
    """Even where the folder would allow it."""
    os.chmod(inside / "a.py", 0o444)
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    with pytest.raises(PermissionError):
        work(inside).write("a.py", "x")


def test_results_are_bounded(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, lines, matches and listings; the model is told that there is more."""
    monkeypatch.setattr(workfiles, "LARGEST", 100_000)
    monkeypatch.setattr(workfiles, "RESULT", 5000)
    tools = work(inside)
    (inside / "wide").write_text("x" * 50_000)
    (inside / "huge").write_text("x" * 100_001)
    (inside / "many").mkdir()
    for n in range(1200):
        (inside / "many" / f"file-{n:04}").write_text("x = 0\n")

    assert len(tools.read("wide")) < 2100
    with pytest.raises(Refused, match="larger than"):
        tools.read("huge")
    with pytest.raises(Refused, match="larger than"):
        tools.write("huge", "x" * 100_001)
    (inside / "long").write_text("x = 0\n" * 1200)
    for result in (tools.glob("many/*"), tools.grep("x = 0", path="many"), tools.grep("x = 0", path="long")):
        assert len(result) < 5100
        assert result.endswith("(there is more: narrow the search)")
    assert "huge: not searched" in tools.grep("no such line")
    assert len(tools.grep("x", path="wide")) < 400
    monkeypatch.setattr(workfiles, "RESULT", 1 << 20)
    assert tools.grep("x = 0", path="long").count("long:") == tools.grep("x = 0", path="many").count("many/") < 1200


def test_a_search_ends_whatever_the_expression(inside: Path) -> None:
    """It is matched in linear time; one that is not valid is refused."""
    (inside / "evil").write_text("a" * 50_000 + "\n")
    tools = work(inside)

    assert tools.grep("(a+)+b", path="evil") == "(no line matches)"
    with pytest.raises(Refused, match="lookahead"):
        tools.grep("(?=a)")
    with pytest.raises(Refused, match="pattern is not valid"):
        tools.glob("[z-a]")


def test_an_attempt_that_is_over_changes_nothing_any_more(inside: Path) -> None:
    """A call that still runs in its thread drops what it wrote."""
    tools = work(inside)
    tools.over = True
    with pytest.raises(Refused, match="over"):
        tools.write("a.py", "late")

    assert tree(inside)["a.py"] == "x = 1\ny = 2\n"
    assert sorted(tree(inside)) == ["a.py", "src/b.py"]


def test_a_file_that_is_not_there_says_so(inside: Path) -> None:
    """A walk from there as well."""
    tools = work(inside)

    for call in (lambda: tools.read("nothing"), lambda: tools.grep("x", "nothing"), lambda: tools.glob("*", "nothing")):
        with pytest.raises(FileNotFoundError):
            call()


def test_the_files_of_the_team_are_not_replaced(inside: Path) -> None:
    """Neither one that exists, by any of its names, nor one that does not, nor one in a folder of such files."""
    for name in ("team.at", "roles/a.md"):
        (inside / name).parent.mkdir(exist_ok=True)
        (inside / name).write_text("old")
    (inside / "link").symlink_to("team.at")
    team = (inside / "team.at", inside / "autoloops.toml", inside / "roles")
    files = WorkFiles(inside, Permissions(), None, team)

    for path in ("team.at", "TEAM.at", "./x/../team.at", "link", "autoloops.toml", "roles/a.md", "roles/new/b.md"):
        with pytest.raises(Refused, match="the team is read from"):
            files.write(path, "new")
    with pytest.raises(Refused, match="the team is read from"):
        files.edit("team.at", "old", "new")
    assert "old" in files.read("team.at")
    files.write("roles.txt", "new")

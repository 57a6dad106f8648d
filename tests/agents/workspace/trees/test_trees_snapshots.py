"""What the files were is kept without touching anything of the user's, and comes back as it was."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from repositories import commit, git, holds, put, repository, untouched
from sampled import sampled

from coterie.agents.workspace.trees import snapshots, worktree
from coterie.agents.workspace.trees.git import Repository, find, require
from coterie.agents.workspace.trees.snapshots import Snapshots, delete_old, forget, keep, run_ref
from coterie.errors import GitFailed


def keeper(folder: Path, tmp_path: Path, *without: Path) -> Snapshots:
    """What keeps the files of *folder*."""
    return Snapshots(the(folder), tmp_path / "kept.index", without)


def the(folder: Path) -> Repository:
    return require(folder, "the test")


def restored(folder: Path, state_dir: Path, saved: str, run: str = "again") -> Path:
    """A work tree with the files of *saved*."""
    origin = the(folder)
    base = origin.commit_of(f"{saved}^") or saved
    tree = worktree.make(origin, state_dir, worktree.new_tree(origin, state_dir, run, prefix="test", base=base))
    worktree.restore(tree, saved)
    return Path(tree.path)


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    """New, changed and removed files, programs, links and strange names, in folders too; HEAD is that of the time."""
    folder = repository(tmp_path / "r", gone__txt="x", same__txt="y")
    put(folder, "a.txt", "changed\n")
    put(folder, 'new/deep/ä b"c.txt', "new\r\n")
    put(folder, "run.sh", "#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "gone.txt").unlink()
    (folder / "link").symlink_to("nowhere/at all")
    (folder / "binary").write_bytes(bytes(range(256)))
    before = holds(folder)
    saved = keeper(folder, tmp_path).save("r", "a#1", 1)
    put(folder, "a.txt", "later\n")
    there = restored(folder, tmp_path / "state", saved.commit)

    assert not saved.incomplete
    assert holds(there) == before
    assert git(there, "rev-parse", "HEAD") == git(folder, "rev-parse", "HEAD")
    assert "?? run.sh" in git(there, "status", "--porcelain")


def test_in_a_sparse_checkout_what_is_outside_of_its_patterns_comes_back(tmp_path: Path) -> None:
    folder = repository(tmp_path / "r", **{"in/x": "x", "out/y": "y", "out/same": "z"})
    git(folder, "sparse-checkout", "set", "in")
    for name in ("in/n", "out/y", "out/[n]"):
        put(folder, name, "changed\n")
    before = holds(folder)
    there = restored(folder, tmp_path / "state", keeper(folder, tmp_path).save("r", "a#1", 1).commit)
    assert holds(there) == before


def test_an_earlier_git_that_knows_no_option_for_it_takes_what_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.34; what it leaves out it names."""
    folder = repository(tmp_path / "r", **{"in/x": "x", "out/y": "y"})
    git(folder, "sparse-checkout", "set", "in")
    put(folder, "in/n", "n\n")
    script = f'#!/bin/sh\ncase " $* " in *" --sparse "*) exit 129 ;; esac\nexec {shutil.which("git")} "$@"\n'
    put(tmp_path, "bin/git", script)
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    saved = keeper(folder, tmp_path).save("r", "a#1", 1)
    assert saved.incomplete == ""
    assert git(folder, "show", f"{saved.commit}:in/n") == "n"


def test_nothing_of_the_users_is_touched(tmp_path: Path) -> None:
    """Staged and unstaged changes, a stash, HEAD and the branches stay as they are, and no hook is started."""
    folder = repository(tmp_path / "r", b__txt="b")
    put(folder, "a.txt", "stashed\n")
    git(folder, "stash")
    put(folder, "a.txt", "staged\n")
    git(folder, "add", "a.txt")
    put(folder, "a.txt", "staged and changed\n")
    put(folder, "b.txt", "changed\n")
    put(folder, "untracked", "u")
    for hook in ("reference-transaction", "post-index-change", "pre-commit", "post-checkout"):
        put(folder, f".git/hooks/{hook}", f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    (tmp_path / "hooked").unlink(missing_ok=True)
    before, raw = untouched(folder), (folder / ".git" / "index").read_bytes()
    (tmp_path / "hooked").unlink(missing_ok=True)  # our own looking calls git, with hooks
    keep = keeper(folder, tmp_path)
    first, second = keep.save("r", "a#1", 1), keep.save("r", "a#2", 1)
    there = restored(folder, tmp_path / "state", first.commit)

    assert not (tmp_path / "hooked").exists()
    assert (folder / ".git" / "index").read_bytes() == raw
    assert first == second
    assert holds(there) == holds(folder)
    git(folder, "worktree", "remove", "--force", str(there))
    git(folder, "branch", "--quiet", "-D", "test/again")
    assert untouched(folder) == before


def test_what_git_ignores_and_the_state_directory_stay_out(tmp_path: Path) -> None:
    """Even where nobody told git to ignore the state directory."""
    folder = repository(tmp_path / "r", **{"__gitignore": "*.log\n"})
    put(folder, "x.log", "noise")
    put(folder, ".coterie/runs/r/journal.jsonl", "{}")
    put(folder, "sub[1]/state/y", "odd")
    saved = keeper(folder, tmp_path, folder / ".coterie", folder / "sub[1]" / "state").save("r", "a#1", 1)

    assert git(folder, "ls-tree", "-r", "--name-only", saved.commit).splitlines() == [".gitignore", "a.txt"]


@pytest.mark.parametrize("ignored", [".coterie/", ".coterie", "/.coterie/runs/"])
def test_a_state_directory_that_git_ignores_makes_nothing_incomplete(tmp_path: Path, ignored: str) -> None:
    """What is left out is left out twice then, of which git complains; what else it says is told."""
    folder = repository(tmp_path / "r", **{"__gitignore": f"{ignored}\n"})
    put(folder, ".coterie/runs/r/journal.jsonl", "{}")
    put(folder, "deep/.coterie/x", "{}")
    keep = keeper(folder, tmp_path, folder / ".coterie", folder / "deep" / ".coterie")
    saved = keep.save("r", "a#1", 1)
    (folder / "inner").mkdir()
    git(folder / "inner", "init", "--quiet")  # a repository without a commit: git has nothing to keep of it

    assert saved.incomplete == ""
    assert git(folder, "ls-tree", "-r", "--name-only", saved.commit).splitlines() == [".gitignore", "a.txt"]
    assert "inner/" in keep.save("r", "a#2", 1).incomplete


def test_a_repository_without_a_commit_has_files_too(tmp_path: Path) -> None:
    """And so has an empty one."""
    folder = tmp_path / "r"
    folder.mkdir()
    git(folder, "init", "--quiet")
    keep = keeper(folder, tmp_path)
    empty = keep.save("r", "a#1", 1)
    put(folder, "a.txt", "a")
    saved = keep.save("r", "a#2", 1)

    assert git(folder, "ls-tree", "-r", "--name-only", empty.commit) == ""
    assert git(folder, "ls-tree", "-r", "--name-only", saved.commit) == "a.txt"
    assert holds(restored(folder, tmp_path / "state", saved.commit)) == {"a.txt": ("file", "a")}


def test_submodules_and_repositories_inside_are_no_failure(tmp_path: Path) -> None:
    """Their commit is kept, not their inside; one without a commit is named as left out, and the rest is kept."""
    inner = repository(tmp_path / "inner")
    folder = repository(tmp_path / "r")
    git(folder, "submodule", "--quiet", "add", str(inner), "sub")
    commit(folder, "with a submodule")
    repository(folder / "nested")
    put(folder, "new.txt", "new")
    keep = keeper(folder, tmp_path)
    whole = keep.save("r", "a#1", 1)
    (folder / "empty").mkdir()
    git(folder / "empty", "init", "--quiet")
    partial = keep.save("r", "a#2", 1)

    kinds = dict(line.split()[::-2][:2] for line in git(folder, "ls-tree", "-r", "HEAD").splitlines())
    assert "sub" in kinds
    assert "new.txt" in git(folder, "ls-tree", "-r", "--name-only", whole.commit)
    assert not whole.incomplete
    assert "empty/" in partial.incomplete
    assert "new.txt" in git(folder, "ls-tree", "-r", "--name-only", partial.commit)


def test_a_repository_that_appears_between_snapshots_is_found_with_one_listing_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing after a snapshot serves the next one; a commit in the new repository is kept there."""
    folder, listings = repository(tmp_path / "r"), 0
    output = Repository.output

    def counted(self: Repository, *words: str, **options: Any) -> str:
        nonlocal listings
        listings += words[:2] == ("ls-files", "--stage")
        return output(self, *words, **options)

    monkeypatch.setattr(Repository, "output", counted)
    keep = keeper(folder, tmp_path)
    keep.save("r", "a#1", 1)
    inner = repository(folder / "nested", a__txt="1")
    commits = []
    for n in range(2, 5):
        put(folder, "new.txt", str(n))
        saved = keep.save("r", f"a#{n}", 1)
        commits.append(git(folder, "rev-parse", f"{saved.commit}:nested"))
        assert commits[-1] == git(inner, "rev-parse", "HEAD")
        put(inner, "a.txt", str(n))
        commit(inner, str(n))
    assert len(set(commits)) == 3
    assert listings == 5, "one before the first, and one after each"


def test_a_file_that_git_would_read_for_minutes_is_left_out_and_named(tmp_path: Path) -> None:
    """New or tracked, however little of it is on the disk; the rest of the files is kept."""
    folder = repository(tmp_path / "r", tracked__txt="small")
    for name in ("huge.bin", "tracked.txt"):
        with open(folder / name, "ab") as file:
            file.truncate(1 << 40)
    put(folder, "new.txt", "new")
    saved = keeper(folder, tmp_path).save("r", "a#1", 1)

    assert saved.incomplete == "huge.bin, tracked.txt: larger than 256 MB"
    listed = git(folder, "ls-tree", "-r", "--name-only", saved.commit).split()
    assert "new.txt" in listed
    assert "huge.bin" not in listed
    assert git(folder, "show", f"{saved.commit}:tracked.txt") == "small"


def test_files_that_are_too_large_together_are_left_out_the_largest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is what git has to read, not what is on the disk; the next snapshot takes more of them."""
    monkeypatch.setattr(snapshots, "MOST", 10 << 20)
    folder = repository(tmp_path / "r", tracked__txt="small")
    for number in range(1, 6):
        with open(folder / f"f{number}", "wb") as file:
            file.truncate(number << 20)
    (folder / "without").mkdir()
    with open(folder / "without" / "state", "wb") as file:
        file.truncate(1 << 40)
    keep = keeper(folder, tmp_path, folder / "without")
    first, second = keep.save("r", "a#1", 1), keep.save("r", "a#2", 1)

    assert first.incomplete == "f5: more than 10 MB together"
    assert "f4" in git(folder, "ls-tree", "-r", "--name-only", first.commit).split()
    assert second.incomplete == ""
    assert "f5" in git(folder, "ls-tree", "-r", "--name-only", second.commit).split()


def test_a_killed_snapshot_does_not_hold_up_the_next(tmp_path: Path) -> None:
    """The lock that git leaves on the index of ours is taken away: only one process keeps files of a run."""
    folder = repository(tmp_path / "r")
    (tmp_path / "kept.index.lock").write_bytes(b"half")

    assert keeper(folder, tmp_path).save("r", "a#1", 1).commit


def test_an_unfinished_merge_of_the_users_is_kept_as_its_files_are(tmp_path: Path) -> None:
    """With its markers of conflict, and the merge goes on afterwards."""
    folder = repository(tmp_path / "r")
    git(folder, "checkout", "--quiet", "-b", "other")
    commit(folder, "other", a__txt="other\n")
    git(folder, "checkout", "--quiet", "main")
    commit(folder, "mine", a__txt="mine\n")
    git(folder, "config", "user.email", "test@localhost")  # git merges nothing without it
    merged = subprocess.run(["git", "merge", "other"], cwd=folder, capture_output=True, text=True)
    assert "CONFLICT" in merged.stdout
    before = untouched(folder)
    saved = keeper(folder, tmp_path).save("r", "a#1", 1)

    assert "<<<<<<<" in git(folder, "show", f"{saved.commit}:a.txt")
    assert untouched(folder) == before


def test_one_ref_keeps_all_snapshots_of_a_run(tmp_path: Path) -> None:
    """Whatever the run is called, those of its child runs and of other work trees too, and beside refs of its turns."""
    folder = repository(tmp_path / "r")
    git(folder, "update-ref", "refs/coterie/r/a#0.1", "HEAD")  # an earlier version had one for each
    names = [("r", "a#1"), ("r", "a b..c.lock#1"), (".r.", "~^:?*[\\#1"), ("r/b#1.1", "x#1"), ("r", "ä@{#1")]
    keepers = [keeper(folder, tmp_path / name) for name in ("one", "two")]
    commits = []
    for number, (run, turn) in enumerate(names):
        put(folder, "a.txt", f"{number}\n")
        commits += [keep.save(run, turn, 1).commit for keep in keepers]
        assert keepers[0].save(run, turn, 2).commit == commits[-2]
    git(folder, "gc", "--quiet", "--prune=now")

    refs = git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie").splitlines()
    assert sorted(refs) == sorted(["refs/coterie/r/a#0.1", run_ref("r"), run_ref(".r.")])
    for saved in commits:
        git(folder, "cat-file", "-e", saved)
        assert git(folder, "rev-parse", f"{saved}^@") == git(folder, "rev-parse", "HEAD")

    forget(the(folder), "r")
    assert git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie") == run_ref(".r.")


def test_snapshots_of_two_work_trees_at_once_are_all_kept(tmp_path: Path) -> None:
    """Each waits for the ref that the other moves."""
    folder = repository(tmp_path / "r")
    commits = [git(folder, "commit-tree", "-m", str(n), "HEAD^{tree}") for n in range(12)]
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda commit: keep(the(folder), "r", tree, commit), commits))

    kept = git(folder, "rev-list", run_ref("r")).split()
    assert set(commits) <= set(kept)


def test_what_is_kept_of_runs_long_gone_is_dropped(tmp_path: Path) -> None:
    """Of runs that nobody knows and that are older; git then collects what only they held."""
    folder = repository(tmp_path / "r")
    keep = keeper(folder, tmp_path)
    put(folder, "a.txt", "only then\n")
    gone = keep.save("gone", "a#1", 1)
    put(folder, "a.txt", "one\n")
    keep.save("known", "a#1", 1)

    assert delete_old(the(folder), ["known"], before=0.0) == 0
    assert delete_old(the(folder), ["known"], before=4e9) == 1
    git(folder, "gc", "--quiet", "--prune=now")
    assert git(folder, "for-each-ref", "--format=%(refname)", "refs/coterie") == run_ref("known")
    with pytest.raises(AssertionError):
        git(folder, "cat-file", "-e", gone.commit)


def test_a_hook_of_git_that_starts_us_does_not_lead_us_astray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks have `GIT_DIR` and `GIT_INDEX_FILE` set; they are another repository's here."""
    other, folder = repository(tmp_path / "other"), repository(tmp_path / "r")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    found = find(folder)

    assert found is not None
    assert found.top == folder


def test_no_git_work_tree_is_told_from_one(tmp_path: Path) -> None:
    """A folder outside, a bare repository, git's own folder and a folder that is gone have no files to keep."""
    folder = repository(tmp_path / "r")
    git(tmp_path, "init", "--quiet", "--bare", "bare")

    assert find(tmp_path) is None
    assert find(tmp_path / "bare") is None
    assert find(folder / ".git") is None
    assert find(tmp_path / "gone") is None
    put(folder, "deep/er/x", "")
    inside = find(folder / "deep" / "er")
    assert inside is not None
    assert inside.prefix == "deep/er"


def test_a_failure_names_the_call_and_says_why(tmp_path: Path) -> None:
    """So that it can be told without a traceback."""
    folder = repository(tmp_path / "r")
    with pytest.raises(GitFailed, match=r"git rev-parse failed \(128\): fatal: Needed a single revision"):
        the(folder).tree_of("nothing")


NAMES = st.sampled_from(["a.txt", "b", "d/a", "d/e/f", "x y", "ü"])
CONTENTS = st.binary(max_size=20)
CHANGES = st.lists(st.tuples(NAMES, st.none() | CONTENTS, st.booleans()), max_size=6)


@sampled(3, 40, rounds=st.lists(CHANGES, min_size=1, max_size=3))
def test_whatever_was_kept_is_what_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, bytes | None, bool]]]
) -> None:
    """Any files, in any order of changes, with the index of ours used again from one time to the next."""
    base = tmp_path_factory.mktemp("any")
    folder = repository(base / "r")
    keep = keeper(folder, base)
    kept = []
    for k, changes in enumerate(rounds):
        for name, content, program in changes:
            path = folder / name
            path.unlink(missing_ok=True)
            if content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(0o755 if program else 0o644)
                os.utime(path, ns=(k * 10**9, k * 10**9))  # times that tell nothing
        kept.append((keep.save("r", f"a#{k}", 1).commit, holds(folder)))

    for k, (saved, was) in enumerate(kept):
        assert holds(restored(folder, base / "state", saved, f"again-{k}")) == was

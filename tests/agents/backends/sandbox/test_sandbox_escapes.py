"""One suite of escapes over all implementations: what an agent must not do, and what it must be able to do."""

import os
import pty
import shlex
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from programs import PYTHON
from sandboxes import Neighbourhood

from coterie.agents.backends.agentside.client import TEMPORARY
from coterie.agents.backends.sandbox import choice, landlock
from coterie.errors import Unconfined


def is_landlock() -> bool:
    return (landlock,) == choice.IMPLEMENTATIONS


# -- what it must not do ----------------------------------------------------------------------------------------------


UNWRITTEN = [
    "{home}/new",
    "{home}/.bashrc",
    "{home}/.ssh/authorized_keys",
    "{project}/file",
    "{project}/new",
    "{project}/.git/hooks/pre-commit",
    "{project}/.git/config",
    "{project}/.git/commondir",
    "{project}/.git/info/attributes",
    "{project}/.git/worktrees/r2/HEAD",
    "{project}/.git/worktrees/tree/commondir",
    "{project}/.git/worktrees/tree/gitdir",
    "{tree}/.git",
    "{state}/worktrees/r2/file",
    "{run}/journal.jsonl",
    "{run}/secret",
    "{run}/inbox/forged.json",
    "{other}/autoloops",
    "{own}/stream.jsonl",
    "{own}/kept.status",
    "{own}/turn.json",
    "{own}/autoloops",
    "{own}/new",
    "/etc/hosts",
    "/usr/bin/new",
    "{tree}/../../../../../home/new",
    "/proc/self/cwd/../../../../file",
]
UNREAD = [
    "{home}/.ssh/id_rsa",
    "{home}/.aws/credentials",
    "{home}/.config/gcloud/token",
    "{home}/.netrc",
    "{run}/secret",
    "{run}/journal.jsonl",
    "{other}/autoloops",
    "{tree}/../../../../../home/.ssh/id_rsa",
    "/proc/self/root{home}/.ssh/id_rsa",
]


def test_it_cannot_write(around: Neighbourhood) -> None:
    """Nothing outside of what the policy gives is written, created, or replaced."""
    around.sh("true")  # an attempt has some of these files only once it begins
    before = {path: _content(path) for path in (one.format(**vars(around)) for one in UNWRITTEN)}

    tries = "echo evil > '{0}'; echo evil > new && mv -f new '{0}'; rm -f '{0}'"
    done = around.sh("; ".join([*map(tries.format, before), "echo all"]))

    assert done.stdout.endswith("all\n")
    assert [path for path, content in before.items() if _content(path) != content] == []


def test_it_cannot_read_secrets(around: Neighbourhood) -> None:
    """A secret is not read by its path, through a link, a hard link, or a copy."""
    tries = """
        cat '{0}' | grep SECRET && echo '{0} by its path'
        ln -s '{0}' s; cat s | grep SECRET && echo '{0} through a link'; rm -f s
        ln '{0}' h && cat h | grep SECRET && echo '{0} through a hard link'; rm -f h
        cp '{0}' c && grep SECRET c && echo '{0} in a copy'; rm -f c
        mv '{1}' moved && grep -r SECRET moved && echo '{0} in a moved folder'; rm -rf moved
    """
    paths = [one.format(**vars(around)) for one in UNREAD]

    done = around.sh("".join(tries.format(path, Path(path).parent) for path in paths) + "echo all")

    assert done.stdout == "all\n"


def test_a_link_in_a_writable_folder_leads_nowhere(around: Neighbourhood) -> None:
    """A symbolic link is judged by where it leads."""
    (around.tree / "out").symlink_to(around.home)

    around.tried("echo evil > out/new")
    assert not (around.home / "new").exists()


def test_the_owner_is_out_of_reach(around: Neighbourhood) -> None:
    """The processes outside are not read, signalled or entered."""
    pid = os.getpid()
    with subprocess.Popen(["sleep", "60"], env=os.environ | {"OUTSIDE": "1"}) as victim:
        for number in (pid, victim.pid):  # a process inside may have the same number there
            around.tried(f"tr '\\0' '\\n' < /proc/{number}/environ | grep OUTSIDE")
            around.tried(f"cat /proc/{number}/root{around.home}/.ssh/id_rsa | grep SECRET")
            around.tried(f"cat /proc/{number}/cwd/pyproject.toml | grep .")
        around.tried(f"kill -9 {victim.pid}")
        assert victim.poll() is None
        around.tried(f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(16, {victim.pid}, 0, 0) != 0)'")
        victim.kill()


def test_terminals_and_memory_of_others_are_out_of_reach(around: Neighbourhood) -> None:
    """An agent opens terminals of its own, by their names too, and no other; so it is with files in memory."""
    if is_landlock() and not separates():
        pytest.skip("no namespaces of mounts can be made here")
    near, far = pty.openpty()
    with NamedTemporaryFile(dir="/dev/shm") as memory:
        around.tried(f"cat {memory.name}")
        around.tried(f"echo evil > {os.ttyname(far)}")
        around.sh(f"echo evil > {memory.name}")
        assert memory.read() == b""
    script = "import os, pty; near, far = pty.openpty(); os.write(os.open(os.ttyname(far), os.O_RDWR), b'own')"
    done = around.sh(f"{PYTHON} -c {shlex.quote(f'{script}; print(os.read(near, 3))')}; id -u")
    assert done.stdout.split() == ["b'own'", str(os.getuid())], done.stderr
    os.set_blocking(near, False)
    with pytest.raises(BlockingIOError):
        os.read(near, 1)
    for fd in (near, far):
        os.close(fd)


def separates() -> bool:
    """Whether this user can have a view of the files of the machine of its own."""
    words = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    return subprocess.run([*words, "true"], capture_output=True).returncode == 0


def test_a_repository_without_hooks_gets_none(around: Neighbourhood) -> None:
    """Some make repositories without that folder; git outside would run what an agent put there.

    Landlock has a gap there in the main work tree, which is logged.
    """
    hooks, cwd = around.project / ".git" / "hooks", around.tree if is_landlock() else around.project
    shutil.rmtree(hooks)

    around.tried(f"mkdir -p {hooks}; echo evil > {hooks}/pre-commit", cwd)
    assert not (hooks / "pre-commit").exists()


def test_the_repository_of_a_linked_tree_stays_where_it_is(around: Neighbourhood) -> None:
    """It cannot be moved, and nothing can be made in it that names another."""
    around.sh("cd ../../../..; mv .git .git2; echo /tmp > .git/commondir; echo x > .git/config.worktree")

    assert (around.project / ".git" / "config").is_file()
    assert not (around.project / ".git" / "commondir").exists()
    assert around.git(around.tree, "rev-parse", "--git-common-dir").strip() == str(around.project / ".git")


@pytest.mark.parametrize(
    ("cwd", "entry", "names"),
    [
        ("tree", ".git/worktrees/tree", ["config.worktree"]),
        ("project", ".git", ["commondir", "config.worktree"]),
    ],
)
@pytest.mark.parametrize("left", ["echo x > {}", "ln -s /etc/passwd {}"], ids=["file", "link"])
def test_git_takes_no_commands_from_what_it_left(
    around: Neighbourhood, cwd: str, entry: str, names: list[str], left: str
) -> None:
    """Files that an agent may make, and in which git looks for its configuration, are removed, and each is logged."""
    paths = [around.project / entry / name for name in names]

    done = around.sh(" && ".join(left.format(f"'{path}'") for path in paths), cwd=getattr(around, cwd))

    assert done.returncode == 0, done.stderr
    assert [path for path in paths if os.path.lexists(path)] == []
    removed = [f"sandbox: removed {path}, from which git would take commands" for path in paths]
    assert [line for line in around.gaps if "removed" in line] == removed


def test_its_temporary_files_go_with_the_attempt(around: Neighbourhood) -> None:
    """They lie in the attempt's folder, which is kept."""
    done = around.sh('echo x > "$TMPDIR/left" && echo "$TMPDIR"')

    assert Path(done.stdout.strip()).name.startswith(TEMPORARY) or done.stdout == "/tmp\n"
    assert list(around.own.rglob(f"{TEMPORARY}*")) == []


def test_what_git_had_before_is_not_removed(around: Neighbourhood) -> None:
    """The user may have a configuration for each work tree."""
    own = around.project / ".git" / "config.worktree"
    own.write_text("[user]\n\tname = ada\n")
    try:
        assert around.sh("true", cwd=around.project).returncode == 0
        assert own.read_text() == "[user]\n\tname = ada\n"
    finally:
        own.unlink()


def test_bwrap_shares_no_memory_with_it(around: Neighbourhood) -> None:
    """Segments and queues of other programs of the user are not seen; Landlock has no rights on them."""
    shared = around.sh("readlink /proc/self/ns/ipc").stdout.strip() == os.readlink("/proc/self/ns/ipc")
    assert shared is is_landlock()


def test_session_services_are_not_named(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of keys is not passed on, nor a folder for temporary files that all programs share."""
    for name in ("SSH_AUTH_SOCK", "TMP", "TEMP"):
        monkeypatch.setenv(name, "/tmp/agent")

    assert around.sh("echo [$SSH_AUTH_SOCK$TMP$TEMP]").stdout == "[]\n"


def test_claude_code_is_told_of_it_as_root(around: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses to act without permission requests as root, except in a sandbox."""
    monkeypatch.delenv("IS_SANDBOX", raising=False)
    assert around.sh("echo [$IS_SANDBOX]").stdout == ("[1]\n" if os.geteuid() == 0 else "[]\n")


def test_it_may_be_without_a_network(around: Neighbourhood) -> None:
    """It reaches no port of the machine; Landlock, which has no rights on UDP, is refused."""
    script = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        words = sys.executable, "-c", script, str(server.getsockname()[1])
        assert around.sh(shlex.join(words)).returncode == 0
        if is_landlock():
            stack.enter_context(pytest.raises(Unconfined, match="network"))
        given = stack.enter_context(around.confined(*words, sandbox="no-network"))
        done = subprocess.run(**given, capture_output=True, text=True)  # type: ignore[call-overload]
        assert done.returncode == 1
        assert "refused" in done.stderr


# -- what it must be able to do ---------------------------------------------------------------------------------------


def test_what_leads_git_to_the_repository_is_put_back(around: Neighbourhood) -> None:
    """A link that cannot be protected, or its whole folder, is as before once the attempt is over."""
    entry = around.project / ".git" / "worktrees" / "tree"
    links = [around.tree / ".git", entry / "commondir", entry / "gitdir"]
    before = [_content(str(path)) for path in links]

    around.sh(f"rm -f .git '{entry}/gitdir'; mkdir .git; touch .git/config; ln -sf /etc/passwd '{entry}/commondir'")

    assert [_content(str(path)) for path in links] == before
    assert not any(path.is_symlink() for path in links)
    said = [f"sandbox: put back {path}, by which git finds the repository" for path in links]
    assert [line for line in around.gaps if "put back" in line] == (said if is_landlock() else [])


def test_it_may_be_required_in_a_linked_work_tree(around: Neighbourhood) -> None:
    """Neither implementation has a gap there."""
    with around.confined("true", sandbox="required") as given:
        assert subprocess.run(**given).returncode == 0  # type: ignore[call-overload]
    assert not [gap for gap in around.gaps if "cannot be kept" in gap]


def test_it_may_be_required_in_the_main_work_tree_only_if_it_protects_the_repository(around: Neighbourhood) -> None:
    """Hooks and configuration lie there in a folder that may be written, in which Landlock cannot protect them."""
    words = "sh", "-c", "touch .git/mine && ! echo evil > .git/hooks/pre-commit && ! echo evil >> .git/config"
    with ExitStack() as stack:
        if is_landlock():
            stack.enter_context(pytest.raises(Unconfined, match="cannot be kept from writing"))
        given = stack.enter_context(around.confined(*words, cwd=around.project, sandbox="required"))
        assert subprocess.run(**given, stderr=subprocess.DEVNULL).returncode == 0  # type: ignore[call-overload]
    assert list(around.own.glob("tmp-*")) == []


def test_what_does_not_hold_is_logged(around: Neighbourhood) -> None:
    """Where the sandbox is not required, the program starts all the same."""
    assert around.sh("true", cwd=around.project).returncode == 0
    found = [line for line in around.gaps if line.startswith("sandbox (landlock): it cannot be kept from writing ")]
    assert [str(around.project) in line for line in found] == [True] * is_landlock()


def test_it_commits_in_a_linked_work_tree(around: Neighbourhood) -> None:
    """A commit, a branch and a status work, and are there afterwards."""
    done = around.sh(
        "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n"
        "echo new > new; git add new; git commit -q -m second; git branch side; echo more >> new\n"
        "git status --porcelain; git log --oneline | wc -l"
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["M", "new", "2"]
    assert around.git(around.tree, "log", "-1", "--format=%s", "work").strip() == "second"


def test_it_builds(around: Neighbourhood) -> None:
    """`make` compiles, links and runs a program, with temporary files."""
    if not (shutil.which("make") and shutil.which("cc")):
        pytest.skip("make and a C compiler are not installed")
    script = r"""
        printf 'int main(void) { return 7; }\n' > seven.c
        printf 'all:\n\tcc -o seven seven.c\n\t-./seven\n' > Makefile
        make 2>&1 && mktemp && python3 -c 'import multiprocessing as m; m.Lock()'
    """

    done = around.sh(script)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error 7" in done.stdout


@pytest.mark.parametrize("variable", ["npm_config_cache", "GOCACHE", "UV_CACHE_DIR"])
def test_tools_have_a_cache_that_is_not_the_users(around: Neighbourhood, variable: str) -> None:
    """`npx`, `go` and `uv` fail without one; the user's own holds programs that run without a sandbox."""
    done = around.sh(f'mkdir "${variable}/made" && echo "${variable}"')

    assert done.returncode == 0, done.stderr
    place = Path(done.stdout.strip())
    assert place.parents[1] == around.caches
    assert place.parent.name.startswith(f"{around.project.name}-")
    around.tried("mkdir ~/.npm")
    other = around.caches / "other" / place.name
    other.mkdir(parents=True, exist_ok=True)
    around.tried(f"echo evil > '{other}/program'")


def test_it_reads_the_system_and_the_home(around: Neighbourhood) -> None:
    """System files, the toolchains of the home, and the repository are read; the rest of the home is not."""
    home, project = around.home, around.project
    done = around.sh(f"cat /etc/passwd '{home}/.cargo/env' '{project}/file' '{project}/.git/config' && ls / >/dev/null")

    assert done.returncode == 0, done.stderr
    assert "PLAIN" in done.stdout
    around.tried(f"cat '{home}/.config/plain'")


def test_temporary_files_are_private_and_removed(around: Neighbourhood) -> None:
    """TMPDIR is a folder of the attempt, and gone after it."""
    done = around.sh('touch "$TMPDIR/mine" && ls "$TMPDIR"')

    assert "mine" in done.stdout.split()
    assert [path.name for path in around.own.glob("tmp-*")] == []


def test_a_sandbox_in_a_sandbox_does_not_hang(around: Neighbourhood) -> None:
    """A trial within a sandbox gives an answer in time."""
    script = (
        "from coterie.agents.backends.sandbox import choice; "
        "print([choice.probe(one.NAME) for one in choice.IMPLEMENTATIONS])"
    )

    source = Path(choice.__file__).parents[4]
    done = around.sh(f"PYTHONPATH={shlex.quote(str(source))} {PYTHON} -c '{script}'")

    assert done.stdout.startswith("["), done.stderr


def _content(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


@pytest.mark.parametrize("place", ["project", "tree"])
def test_git_does_not_write_through_a_link_that_an_agent_left(around: Neighbourhood, place: str) -> None:
    """Neither an index, nor a log of a branch, nor an object; a link of the user stays."""
    folder: Path = getattr(around, place)
    victim = around.home / ".bashrc"
    victim.write_text("true\n")
    kept = around.project / ".git" / "refs" / "kept"
    kept.symlink_to("heads/main")
    entry, common = around.git(folder, "rev-parse", "--absolute-git-dir", "--git-common-dir").split()
    common = str((folder / common).resolve())
    links = (f"{entry}/index", f"{entry}/ORIG_HEAD", f"{common}/logs/refs/heads/objects/new", f"{common}/objects/zz")

    around.sh(
        f"mkdir -p {common}/logs/refs/heads/objects; for f in {' '.join(links)}; do ln -sf {victim} $f; done", folder
    )
    around.git(folder, "branch", "objects/new")
    around.git(folder, "read-tree", "HEAD")

    assert victim.read_text() == "true\n"
    assert not [link for link in links if os.path.islink(link)]
    assert len([line for line in around.gaps if "a link through which git would write" in line]) == len(links)
    assert kept.is_symlink()
    kept.unlink()
    around.git(folder, "branch", "-D", "objects/new")

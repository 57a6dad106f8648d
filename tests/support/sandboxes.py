"""Attempts in a sandbox, and a machine around them that an agent would like to break into."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asking import RUN

from coterie.agents.backends.attempt import prepared
from coterie.agents.backends.base import Request
from coterie.team.planning.plan import AgentPlan

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


class Neighbourhood:
    """A home with secrets, a repository with a linked work tree, and a run with two attempts.

    Attributes:
        home: The user's home.
        caches: The folder of the caches that confined agents share.
        project: The repository.
        tree: Its linked work tree.
        run: The folder of the run.
        own, other: The folders of the attempts.
        gaps: What the last sandbox did not hold.
    """

    gaps: list[str]

    def __init__(self, top: Path) -> None:
        self.home, self.project = top / "home", top / f"project-{os.getpid()}"  # names /dev/shm too
        self.caches = self.home / ".cache" / "coterie"
        self.state = self.project / ".coterie"
        self.tree = self.state / "worktrees" / "r1" / "tree"
        self.run = self.state / "runs" / "r1"
        self.own, self.other = self.run / "turns" / "a#1.1", self.run / "turns" / "b#1.1"
        for folder in (self.home / ".ssh", self.home / ".aws", self.home / ".config/gcloud", self.own, self.other):
            folder.mkdir(parents=True)
        for secret in (".ssh/id_rsa", ".aws/credentials", ".config/gcloud/token", ".netrc"):
            (self.home / secret).write_text("SECRET")
        for plain in (self.home / ".config" / "plain", self.home / ".cargo" / "env"):
            plain.parent.mkdir(exist_ok=True)
            plain.write_text("PLAIN")
        for name in ("secret", "journal.jsonl", "lock"):
            (self.run / name).write_text("SECRET")
        (self.other / "autoloops").write_text("SECRET")
        (self.own / "stream.jsonl").write_text("{}")
        self.git(self.project, "init", "-q", "-b", "main")
        (self.project / "file").write_text("x")
        self.git(self.project, "add", "file")
        self.git(self.project, "commit", "-q", "-m", "first")
        self.git(self.project, "worktree", "add", "-q", "-b", "work", str(self.tree))
        self.git(self.project, "worktree", "add", "-q", "-b", "foreign", str(self.state / "worktrees" / "r2"))

    @staticmethod
    def git(cwd: Path, *words: str) -> str:
        return subprocess.run([*GIT, *words], cwd=cwd, check=True, capture_output=True, text=True).stdout

    def request(self, cwd: Path, sandbox: str = "auto") -> Request:
        agent = AgentPlan(name="a", backend="command", options={"sandbox": sandbox}, argv=("sh",))
        return Request(run=RUN, turn="a#1", attempt=1, agent=agent, prompt="", folder=self.own, root=self.run, cwd=cwd)

    @contextmanager
    def confined(self, *argv: str, cwd: Path | None = None, sandbox: str = "auto") -> Iterator[dict[str, object]]:
        """What `subprocess` needs to run *argv* in the sandbox of the own attempt."""
        for left in self.tree.iterdir():
            if left.name not in (".git", "file"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        lines: list[str] = []
        with prepared(self.request(cwd or self.tree, sandbox), lines.append) as environment:
            self.gaps = lines
            environment.env["HOME"] = str(self.home)
            environment.env["XDG_CACHE_HOME"] = str(self.caches.parent)
            yield {"args": environment.confine(list(argv)), "env": environment.env, "cwd": environment.cwd}

    def sh(self, script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The outcome of a shell script in the sandbox."""
        with self.confined("sh", "-c", script, cwd=cwd) as given:
            return subprocess.run(**given, capture_output=True, text=True, timeout=300)  # type: ignore[call-overload,no-any-return]

    def tried(self, script: str, cwd: Path | None = None) -> str:
        """What *script* writes; it must not have succeeded."""
        done = self.sh(script, cwd)
        assert done.returncode != 0, f"{script!r} succeeded: {done.stdout}"
        assert "SECRET" not in done.stdout
        return done.stderr

"""The user's checkout with agents in a sandbox that shows them a private repository."""

import os
import shlex
import subprocess
from pathlib import Path

from coterie.agents.backends.attempt import prepared
from coterie.agents.backends.base import Request
from coterie.agents.workspace.trees.checkout import Checkout
from coterie.team.planning.plan import AgentPlan

IDENTITY = "git config user.name A; git config user.email a@localhost; "


class ConfinedAgents:
    """Agents of the run `x` in a checkout, which work there one after the other or at once.

    Args:
        folder: The checkout, or a folder in it.
        top: Where the run is kept.

    Attributes:
        team: The team's files, which they must not write.
    """

    team: tuple[Path, ...]

    def __init__(self, folder: Path, top: Path) -> None:
        self.folder, self.run = folder, top / "runs" / "x"
        self.checkout, self.team = self.owner(), (self.run / "team.at",)
        self.lines: list[str] = []

    def owner(self) -> Checkout:
        """What an owner of the run has for the checkout; a new one knows what is on disk."""
        return Checkout(self.run / "checkout", "x", "coterie/x")

    def enter(self) -> None:
        self.checkout.enter(self.folder, self.team)

    def sh(self, script: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run *script* as an agent; it ends with the status of its first command that fails."""
        attempt = self.run / "turns" / "a#1.1"
        attempt.mkdir(parents=True, exist_ok=True)
        agent = AgentPlan(name="a", backend="command", options={"sandbox": "required"}, argv=("sh",))
        request = Request(
            run="x",
            turn="a#1",
            attempt=1,
            agent=agent,
            prompt="",
            folder=attempt,
            root=self.run,
            cwd=cwd or self.folder,
            repository=self.checkout.repository,
            team=(*self.team, *self.checkout.obeyed),
        )
        with prepared(request, self.lines.append) as environment:
            argv = environment.confine(["sh", "-ec", IDENTITY + script])
            return subprocess.run(argv, env=environment.env, cwd=environment.cwd, capture_output=True, text=True)

    def does(self, script: str) -> str:
        """What *script*, which must succeed, prints to an agent."""
        done = self.sh(script)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout.rstrip("\n")

    def works(self, script: str) -> tuple[str, ...]:
        """Let an attempt of an agent run *script*; returns what is said at its end."""
        self.enter()
        self.does(script)
        return self.checkout.leave()


def commits(name: str, text: str = "x") -> str:
    """A script that commits a file."""
    return f"echo {shlex.quote(text)} > {name}; git add {name}; git commit -qm {name}; "


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of a person who works in *folder*."""
    return os.environ | {"PWD": str(folder)}

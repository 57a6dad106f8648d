"""Teams of small programs, and the command line as a process."""

import contextlib
import io
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import preforked

from coterie.interfaces.cli.app import main

AGENT = r"""
agent=$COTERIE_AGENT turn=$COTERIE_TURN verdict=approve heard=False
echo "$turn" >> started.log
if [ "$agent" = slow ] && [ "$COTERIE_INTERRUPTED" = 0 ]; then
  : > ready
  exec sleep 600
fi
if [ "$agent" = broken ]; then
  echo "it is broken" >&2
  exit 1
fi
[ -z "$(cat)" ] || heard=True
[ "$turn" != reviewer#1 ] || verdict=revise
echo "$turn read $heard"
echo "{\"verdict\": \"$verdict\"}"
"""
"""What every agent is: a shell's program, which starts in a tenth of the time of a Python."""

TEAMS = {
    "loop": """
        flow {
          writer -> reviewer
          reviewer -> writer [when reviewer.verdict == "revise", max 3]
          reviewer -> publisher [when reviewer.verdict == "approve"]
        }
    """,
    "slow": "flow { writer -> slow -> publisher }",
    "broken": "flow { writer -> broken -> publisher }",
    "human": """
        human boss { outputs { verdict: approve | revise } }
        flow { writer -> boss -> publisher }
    """,
    "nested": """
        agent inner { extensions { coterie { topology: "loop.at" } } }
        flow { writer -> inner -> publisher }
    """,
}
NAMES = ("writer", "reviewer", "publisher", "slow", "broken")


@dataclass(frozen=True)
class Place:
    """A folder with teams, and `coterie` called in it."""

    folder: Path

    def start(self, *words: str, **options: object) -> "subprocess.Popen[str]":
        """Start `coterie` with *words* and the *options* of `subprocess.Popen`."""
        return preforked.start(*words, cwd=self.folder, **options)  # type: ignore[arg-type]

    def call(self, *words: str, status: int = 0) -> "Said":
        """Run `coterie` with *words* and check its status."""
        done = preforked.run(*words, cwd=self.folder)
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return Said(done.stdout, done.stderr)

    def look(self, *words: str, status: int = 0) -> "Said":
        """The same in this process: quicker, for commands that only read."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            ended = main(words)
        assert ended == status, f"{words}: {ended}\n{out.getvalue()}\n{err.getvalue()}"
        return Said(out.getvalue(), err.getvalue())

    def start_slow(self) -> "subprocess.Popen[str]":
        """Run the slow team up to where its slow agent is at work."""
        process = self.start("run", "slow.at")
        (self.folder / "ready").read_text()  # a pipe: opened once the agent opens its end
        return process

    def started(self) -> list[str]:
        """The attempts that were started, in order, by turn."""
        log = self.folder / "started.log"
        return log.read_text().split() if log.exists() else []


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    out: str
    err: str


def make(folder: Path) -> Place:
    """Put every team above into *folder*."""
    (folder / "agent.sh").write_text(AGENT)
    for name, team in TEAMS.items():
        agents = "\n".join(
            f'agent {one} {{ extensions {{ coterie {{ command: ["sh", "{{here}}/agent.sh"] }} }} }}'
            for one in NAMES
            if one in team
        )
        (folder / f"{name}.at").write_text(f"topology {name} : [pipeline] {{\n{agents}\n{team}\n}}\n")
    os.mkfifo(folder / "ready")
    return Place(folder)

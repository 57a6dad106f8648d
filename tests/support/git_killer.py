"""Kill coterie at an append to a journal, or at a call of git, before git runs or after."""

import inspect
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import preforked
import pytest

from coterie.agents.workspace.trees import git as calls

T = TypeVar("T")

GIT = """#!/bin/sh
# Counts the calls of some kind; at that number it kills its parent, before git runs or after.
here={here}
echo "$*" >>$here/calls
if [ -f $here/kill ] && read -r how n what <$here/kill && [ "$(grep -c -e "$what" $here/calls)" -ge "$n" ]; then
  rm $here/kill
  [ "$how" = before ] && kill -9 $PPID
  {git} "$@"
  status=$?
  [ "$how" = after ] && kill -9 $PPID
  exit $status
fi
exec {git} "$@"
"""


def prepare(folder: Path) -> None:
    """Let *folder* hold the git that kills its caller."""
    (folder / "bin").mkdir()
    (folder / "calls").touch()
    (folder / "bin" / "git").write_text(GIT.replace("{here}", str(folder)).replace("{git}", str(shutil.which("git"))))
    (folder / "bin" / "git").chmod(0o755)


def coterie(folder: Path, cwd: Path, *words: str, kill: str = "") -> subprocess.CompletedProcess[str]:
    """Call coterie in *cwd*; *kill* is `append:N` as in `killed`, or `before:N:WORDS`, `after:N:WORDS` of calls of git.

    `counted` kills nothing: the calls of git are written down, as for the last two.
    """
    (folder / "calls").write_text("")
    env = os.environ | {"XDG_STATE_HOME": str(folder / "index")}
    if kill and not kill.startswith("append"):
        env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env['PATH']}"
        if kill != "counted":
            (folder / "kill").write_text(kill.replace(":", " ") + "\n")
        kill = ""
    done = preforked.run(*words, cwd=cwd, env=env, kill=kill)
    (folder / "kill").unlink(missing_ok=True)
    return done


class Killed(BaseException):
    """kill -9, as far as a call of git in this process can tell."""


def kill_at_every_call(
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[int], T],
    work: Callable[[T], object],
    look: Callable[[T], object],
    steps: Sequence[tuple[Any, str]] = (),
) -> int:
    """Kill *work* before and after each of its calls of git, let it happen again, and compare what *look* finds.

    Args:
        begin: Gives the stage of a round, the first of which nothing kills.
        steps: Functions before and after which it is killed as well, each by its owner and its name.

    Returns:
        How many kills there were.
    """
    left, is_dead = [0], [False]

    def count() -> None:
        left[0] -= 1
        is_dead[0] = is_dead[0] or left[0] == 0
        if is_dead[0]:
            raise Killed

    def counted(step: Any) -> Any:
        def called(*given: Any) -> Any:
            count()
            done = step(*given)
            count()
            return done

        async def awaited(*given: Any) -> Any:
            count()
            done = await step(*given)
            count()
            return done

        return awaited if inspect.iscoroutinefunction(step) else called

    wanted: object = None
    for kills in itertools.count():
        with monkeypatch.context() as patched:
            stage = begin(kills)
            for owner, name in ((calls, "perform"), *steps):
                patched.setattr(owner, name, counted(getattr(owner, name)))
            left[0] = kills
            with suppress(Killed):
                work(stage)
            was_killed, is_dead[0], left[0] = is_dead[0], False, 0
            if was_killed:
                work(stage)
        found = look(stage)
        assert kills == 0 or found == wanted, f"kill {kills}"
        if kills and not was_killed:
            return kills - 1
        wanted = found
    raise AssertionError("kills never end")

"""Play tests as another user of the machine, with an interpreter that it can read."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def play(*tests: Path, without: str, tiers: str = "slow or not slow") -> None:
    """Let a second uid play the files *tests*, except those whose names match *without*; they must pass."""
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root, and setpriv")
    top, library = Path(__file__).parents[2], Path(pytest.__file__).parents[1]
    home = Path(tempfile.mkdtemp(prefix="coterie-"))  # where the other user may enter, unlike pytest's own
    home.chmod(0o777)
    user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    user += ["env", "-i", f"HOME={home}", "PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"]
    own = [*user, f"{home}/python/bin/python"]
    needs = f"import coterie.interfaces.cli, pytest, hypothesis; open({str(tests[0])!r}); open('{home}/x', 'w')"
    try:
        subprocess.run([*user, "/usr/bin/python3", "-m", "venv", "--without-pip", f"{home}/python"])
        for site in home.glob("python/lib/*/site-packages"):  # agents without an environment import coterie, too
            (site / "coterie.pth").write_text(f"{top / 'src'}\n{library}\n")
        ready = subprocess.run([*own, "-c", needs], capture_output=True, text=True)
        if ready.returncode:
            pytest.skip(f"another user cannot run the tests here: {(ready.stderr.strip().splitlines() or ['?'])[-1]}")
        options = ["-q", "-p", "no:cacheprovider", "-m", tiers, "--basetemp", f"{home}/tmp", "-k", f"not ({without})"]
        words = [*own, "-m", "pytest", *options, *map(str, tests)]
        done = subprocess.run(words, cwd=top, capture_output=True, text=True, timeout=900)
    finally:
        shutil.rmtree(home, ignore_errors=True)

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout

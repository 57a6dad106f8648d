"""How long each command of a first tour takes on a fresh machine, and how long it prints nothing.

    python benchmarks/first_tour.py

Clones the repository into an empty folder with an empty home directory, and runs the commands of README's sections "Run
it" and "A first tour" and of docs/starting.md one by one in a terminal. pip downloads what it needs. The exit status is
1 if a command fails, or if `coterie` prints nothing for more than `SILENCE` seconds.
"""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTIONS = (("README.md", "Run it"), ("README.md", "A first tour"), ("docs/starting.md", ""))
SILENCE = 2.5
"""Seconds: notices come after two."""


def commands(page: str, section: str) -> list[str]:
    """The commands of the `sh` blocks of a *section*, or of the whole *page*, those joined by `&&` one by one."""
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0] if section else page
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [command for block in blocks for line in block.splitlines() for command in line.split(" && ")]


def run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, float, float, str]:
    """The exit status of *command* in a terminal, its seconds, its longest silence, and what it printed."""
    leader, terminal = pty.openpty()
    began = heard = time.monotonic()
    longest, printed = 0.0, b""
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        while True:
            select.select([leader], [], [])
            try:
                data = os.read(leader, 65536)
            except OSError:  # the last writer has closed the terminal
                data = b""
            longest, heard = max(longest, time.monotonic() - heard), time.monotonic()
            if not data:
                break
            printed += data
    os.close(leader)
    return process.returncode, time.monotonic() - began, longest, printed.decode("utf-8", "replace")


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory() as place:
        home, clone = Path(place) / "home", Path(place) / "clone"
        elsewhere = home / "work"
        elsewhere.mkdir(parents=True)
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG"))}
        path = f"{clone}/.venv/bin:{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        environment = kept | {"HOME": str(home), "PATH": path, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
        print("| seconds | silent | command |\n|---|---|---|", flush=True)
        status = 0
        for file, section in SECTIONS:
            for command in commands((clone / file).read_text(encoding="utf-8"), section):
                code, seconds, silent, printed = run(command, clone if section else elsewhere, environment)
                print(f"| {seconds:.1f} | {silent:.1f} | `{command}` |", flush=True)
                if code:
                    print(f"{command} ended with {code}:\n{printed}", file=sys.stderr)
                if code or (silent > SILENCE and "coterie " in command):
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

"""A file that is run, and imports itself, has its patterns and functions once."""

import subprocess
import sys
from pathlib import Path

import pytest

WHOLE = """
import asyncio
import os
from pathlib import Path

import coterie
from coterie import agent, flow

with Path("executed").open("a") as executed:
    executed.write(f"{__name__}\\n")


def draft(prompt: str) -> str:
    return f"about {prompt}"


def send(draft: str) -> str:
    if not Path("again").exists():
        Path("again").touch()
        os._exit(9)
    return f"sent: {draft}"


drafts, sends = agent(draft), agent(send)
team = flow("order", [drafts, sends], [drafts >> sends], result=sends)

if __name__ == "__main__":
    print(asyncio.run(coterie.run(team, "tea", id="order-1")).result)
"""
PROGRAM = """
import asyncio
import coterie
from coterie import agent
from coterie.patterns import Question, collaboration, pattern

def echo(prompt: str) -> str:
    return prompt

@pattern("twice", key="task")
def twice(team, given):
    answer = yield Question("one", given["task"])
    return answer.text

async def main() -> None:
    print((await coterie.run(collaboration(twice, {"one": agent(echo)}), {"task": "T"})).result.text)

if __name__ == "__main__":
    import program
    asyncio.run(program.main())
"""


@pytest.mark.slow
def test_a_function_may_stand_in_the_file_that_is_run(tmp_path: Path) -> None:
    """The file is a module of its name: it is executed once, and another process resumes the run."""
    (tmp_path / "program.py").write_text(WHOLE)

    def call(*words: str) -> tuple[str, int]:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
        return done.stdout, done.returncode

    assert call("program.py") == ("", 9)
    assert call("-m", "coterie", "recover")[1] == 0
    assert call("program.py") == ("sent: about tea\n", 0)
    assert call("-m", "program") == ("sent: about tea\n", 0)
    assert (tmp_path / "executed").read_text().split() == ["__main__", "program", "__main__", "__main__"]

    for name in ("queue.py", "my-program.py"):  # another process gets the library's, or nothing
        (tmp_path / name).write_text(WHOLE)
        done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True)
        assert f"{name} itself defines it, which cannot be imported under its name" in done.stderr


def test_a_pattern_may_stand_in_the_file_that_is_run(tmp_path: Path) -> None:
    """The function of `__main__` and that of the module are one; two functions of one name are still refused."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("T\n", 0), done.stderr

    (tmp_path / "program.py").write_text(PROGRAM + "\n@pattern('twice')\ndef other(team, given):\n    yield\n")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "two functions are pattern 'twice'" in done.stderr

"""A file that is run, and imports itself, has its patterns and functions once."""

import subprocess
import sys
from pathlib import Path

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


def test_a_pattern_may_stand_in_the_file_that_is_run(tmp_path: Path) -> None:
    """The function of `__main__` and that of the module are one; two functions of one name are still refused."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("T\n", 0), done.stderr

    (tmp_path / "program.py").write_text(PROGRAM + "\n@pattern('twice')\ndef other(team, given):\n    yield\n")
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert "two functions are pattern 'twice'" in done.stderr

"""A function that works until a file is there, for tests of killed processes."""

import time
from pathlib import Path


def waits_for_a_file(prompt: str) -> str:
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return prompt

"""Agents that say what nobody expects: a run completes or fails, in words, and always in the same way."""

import json
import os
import subprocess
import sys

import pattern_hostile
import pytest
from parts import parts
from pattern_hostile import digest, performed

MANY = 70


@parts(3)
def test_whatever_agents_say_a_run_completes_or_fails_in_words(part: int) -> None:
    """No reply raises anything in a pattern, and no success is empty or cannot be written down."""
    ended = set()
    for seed in range(part * MANY, (part + 1) * MANY):
        done = performed(seed)
        ended.add((type(done.ended).__name__, done.ended.status))
        if done.ended.status == "completed":
            assert done.text.strip(), seed
            json.dumps(done.output, allow_nan=False)
        else:
            assert done.ended.status == "failed", seed
            assert done.ended.reason.strip(), seed
            assert "it raised" not in done.ended.reason, (seed, done.ended.reason)
    assert {status for _, status in ended} == {"completed", "failed"}


@pytest.mark.parametrize("pace", [1, 2])
def test_it_does_not_matter_who_is_slow(pace: int) -> None:
    """The same questions are asked, and the same comes of them."""
    for seed in range(0, MANY, 7):
        assert digest(performed(seed, pace)) == digest(performed(seed)), seed


def test_another_process_plays_the_same() -> None:
    """Whatever the seed of Python's hashes: nothing hangs on the order of a set."""
    env = {**os.environ, "PYTHONHASHSEED": "7" if os.environ.get("PYTHONHASHSEED") != "7" else "8"}
    command = [sys.executable, pattern_hostile.__file__, "20"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    assert done.stdout.split() == [digest(performed(seed)) for seed in range(20)]

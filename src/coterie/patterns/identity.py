"""The ids of rows. They follow from the run, so writing a run's rows again writes the same rows.

The running program and a later projection compute the same ids.
"""

from functools import lru_cache
from uuid import UUID, uuid5

_SPACE = UUID("8f1c2a52-6f0b-5d51-9d5a-3a1e0f7c4b26")


@lru_cache(1024)
def execution_id(run: str) -> UUID:
    """The id of the execution that *run* is, a root run or a child run."""
    return uuid5(_SPACE, run)


def instance_id(run: str, slot: str) -> UUID:
    """The id of the instance at *slot* in *run*."""
    return uuid5(execution_id(run), f"instance:{slot}")


def message_id(run: str, n: int) -> UUID:
    """The id of the *n*-th message of *run*, from 1: its sequence number. A message to several recipients is several
    messages.
    """
    return uuid5(execution_id(run), f"message:{n}")


def result_id(run: str, turn: str) -> UUID:
    """The id of the result of *turn* in *run*; for a manually recorded result, of its `result.recorded`'s id."""
    return uuid5(execution_id(run), f"result:{turn}")

"""Functions that make a list and work on its items, for runs with many items."""


def words(prompt: str) -> list[str]:
    """So many file names."""
    return [f"src/file_{k}.py" for k in range(int(prompt))]


async def check(item: str) -> str:
    """What is found; one in ten fails."""
    if item.endswith("7.py"):
        raise ValueError("no")
    return item.upper()


def close(prompt: str) -> str:
    """The end."""
    return "done"

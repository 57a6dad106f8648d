"""Tools of the team: plain functions, described to the model by their docstrings and annotations."""


def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: The text as it is to be published.
    """
    return len(text.split())

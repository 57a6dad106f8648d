"""Whether an agent said the text that completes a loop, rather than repeating it from its question."""


def is_given(promise: str, text: str, prompt: str = "") -> bool:
    """Whether *text* holds *promise* in a line that does not stand in *prompt* as well. An empty one never counts."""
    if not promise or promise not in text:
        return False
    if "\n" in promise:
        return True
    asked = {line.strip() for line in prompt.splitlines() if promise in line}
    return any(promise in line and line.strip() not in asked for line in text.splitlines())

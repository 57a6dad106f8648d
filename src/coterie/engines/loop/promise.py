"""Recognize the text that completes a loop, unless the agent repeats it from its prompt."""


def is_given(promise: str, text: str, prompt: str = "") -> bool:
    """Whether *text* has *promise* in a line that is not also in *prompt*. An empty promise is never given."""
    if not promise or promise not in text:
        return False
    if "\n" in promise:
        return True
    asked = {line.strip() for line in prompt.splitlines() if promise in line}
    return any(promise in line and line.strip() not in asked for line in text.splitlines())

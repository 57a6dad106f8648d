"""A stand-in for a library that asks models: its function says that it is from one."""


def client(prompt: str) -> str:
    return prompt.upper()


client.__module__ = "openai.resources"

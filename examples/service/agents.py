"""The team of the service; replace `draft` by what asks your model."""

import coterie


def draft(prompt: str, context: coterie.Context) -> str:
    """Write a reply, and let watchers see it while it is written."""
    words = f"Dear customer, about {prompt}: we will look into it.".split()
    for word in words:
        context.emit(f"{word} ")
    return " ".join(words)


def send(draft: str, context: coterie.Context) -> str:
    """Send the reply; the key lets the other side send it once, however often this is tried."""
    return f"sent as {context.key}: {draft}"


boss = coterie.human("boss", "Send it?")
writes, sends = coterie.agent(draft), coterie.agent(send)
team = coterie.flow("order", [writes, boss, sends], [writes >> boss >> sends], result=sends)

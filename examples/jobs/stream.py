"""What a function writes, streamed to a browser: `uvicorn stream:app`, then http://127.0.0.1:8000/?about=tea."""

from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import coterie
from coterie import agent, flow


def draft(prompt: str, context: coterie.Context) -> str:
    words = f"Dear customer, about {prompt}".split()
    for word in words:
        context.emit(word)
    return " ".join(words)


writes = agent(draft)
team = flow("order", [writes], result=writes)
app = FastAPI()


async def lines(about: str) -> AsyncIterator[str]:
    async for event in coterie.start(team, about).events(text=True):
        if isinstance(event, coterie.RunText):
            yield f"data: {event.text}\n\n"


@app.get("/")
def stream(about: str) -> StreamingResponse:
    return StreamingResponse(lines(about), media_type="text/event-stream")

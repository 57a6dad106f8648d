"""A service around a team: `fastapi dev examples/service/app.py`; it needs `pip install 'fastapi[standard]'`.

`curl -X POST 'http://127.0.0.1:8000/orders/42?about=tea'` begins an order once, `/orders/42` streams it (again from
where a browser lost it), `/orders/42/question` asks about it. What a stop cuts off goes on at the next start.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape

from fastapi import FastAPI, Header
from fastapi.responses import HTMLResponse, StreamingResponse

import agents  # beside this file
import coterie

runs: dict[str, coterie.StartedRun[str]] = {}
FORM = '<form method="post">{} <button>Yes</button></form>'


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    recovering = asyncio.create_task(coterie.recover())
    yield
    recovering.cancel()
    await asyncio.gather(recovering, *(run.cancel(by="process") for run in runs.values()), return_exceptions=True)


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def begin(order: str, about: str) -> dict[str, str]:
    runs[order] = coterie.start(agents.team, about, id=f"order-{order}")
    return {"run": runs[order].id}


async def lines(run: coterie.Run, after: str) -> AsyncIterator[str]:
    async for event in run.events(text=True, after=after):
        yield f"id: {event.position}\nevent: {event.topic}\ndata: {json.dumps(getattr(event, 'text', ''))}\n\n"


@app.get("/orders/{order}")
def follow(order: str, last_event_id: str = Header("")) -> StreamingResponse:
    found = lines(runs.get(order) or coterie.get(f"order-{order}"), last_event_id)
    return StreamingResponse(found, media_type="text/event-stream")


@app.get("/orders/{order}/question", response_class=HTMLResponse)
def question(order: str) -> str:
    return "".join(FORM.format(escape(one.text)) for one in coterie.get(f"order-{order}").questions())


@app.post("/orders/{order}/question")
async def answer(order: str) -> list[str]:
    run = coterie.get(f"order-{order}")
    said = [run.answer(one.turn, "yes").status for one in run.questions()]
    return said + [one.outcome.status for one in await coterie.recover() if one.outcome]

"""A service with FastAPI: `uvicorn --app-dir examples/service --timeout-graceful-shutdown 3 app:app`.

`curl -X POST 'http://127.0.0.1:8000/orders/42?about=tea'` begins an order, which /orders/42 shows and asks about.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import BackgroundTasks, FastAPI, Header
from fastapi.responses import FileResponse, StreamingResponse

import agents  # beside this file
import coterie

runs: dict[str, coterie.StartedRun[str]] = {}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    recovering = asyncio.create_task(coterie.recover())  # what a stop, or a kill, cut off
    yield
    recovering.cancel()
    await asyncio.gather(recovering, *(run.cancel(by="process") for run in runs.values()), return_exceptions=True)


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}")
async def begin(order: str, about: str) -> dict[str, str]:
    run = coterie.start(agents.team, about, id=f"order-{order}")
    await anext(run.events())  # it has begun; an order of this number about something else is refused
    runs[order] = run
    return {"run": run.id}


@app.get("/orders/{order}")
def page(order: str) -> FileResponse:
    return FileResponse(Path(__file__).with_name("order.html"))


@app.get("/orders/{order}/events")
def events(order: str, last_event_id: str = Header("")) -> StreamingResponse:
    found = (runs.get(order) or coterie.get(f"order-{order}")).events(text=True, after=last_event_id)
    sent = (f"id: {e.position}\nevent: {e.topic}\ndata: {json.dumps(getattr(e, 'text', ''))}\n\n" async for e in found)
    return StreamingResponse(sent, media_type="text/event-stream")


@app.get("/orders/{order}/questions")
def questions(order: str) -> dict[str, str]:
    return {one.turn: one.text for one in coterie.get(f"order-{order}").questions()}


@app.post("/orders/{order}/questions")
async def answer(order: str, turn: str, text: str, later: BackgroundTasks) -> str:
    later.add_task(coterie.recover)  # which carries the run on that waited for it
    return coterie.get(f"order-{order}").answer(turn, text).status

"""An endpoint that starts a run of a team and streams what happens: `fastapi dev examples/flows/server.py`.

    curl -N -X POST 'http://127.0.0.1:8000/reviews?folder=examples/flows'

It needs `pip install 'fastapi[standard]'`. A client that goes away leaves the run alone; `coterie runs` lists it.
"""

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import coterie

sys.path.append(str(Path(__file__).parent))
import review  # beside this file

app = FastAPI()
running: set[coterie.StartedRun[review.Review]] = set()
"""The runs that go on, also after their client has gone."""


@app.post("/reviews")
async def start_review(folder: str) -> StreamingResponse:
    """Review the Python files of a folder; server-sent events, the last of which is the review."""
    run = coterie.start(review.team(), folder)
    running.add(run)
    return StreamingResponse(events(run), media_type="text/event-stream")


async def events(run: coterie.StartedRun[review.Review]) -> AsyncIterator[str]:
    async for event in run:
        yield f"event: {event.topic}\ndata: {json.dumps({'run': event.run, 'seq': event.record.seq})}\n\n"
    outcome = await run
    running.discard(run)
    found = asdict(outcome.result) if outcome.status == "completed" else {"failed": outcome.reason}
    yield f"event: result\ndata: {json.dumps(found)}\n\n"

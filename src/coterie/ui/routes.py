"""The JSON API of the page, which others may use: values as `--json` prints them."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from coterie import __version__
from coterie.errors import CoterieError, NoSuchRun, NoSuchTurn, UsageError, error_line
from coterie.journal.records import Record
from coterie.planning.plan import Plan
from coterie.proofs.worst_case import WorstCase, worst_case
from coterie.runs.changed_files import ChangedFiles, changed_files
from coterie.runs.comparison import compare
from coterie.runs.repository import Runs
from coterie.runs.turn_detail import detail
from coterie.ui.access import SessionAccess
from coterie.ui.actions import ANY, ActionResult, PageAction, act, preview
from coterie.ui.home import GROUPS
from coterie.ui.openapi import (
    ActionPreview,
    ApiEndpoint,
    CostsAndBound,
    LiveState,
    RecordLines,
    RunList,
    SessionCode,
    StreamTopics,
    document,
)
from coterie.ui.places import ServedRun
from coterie.ui.single_file import PAGE, page_of
from coterie.ui.stream import Feeds, events
from coterie.views.compare import RunComparison
from coterie.views.costs import costs, dearest
from coterie.views.failure import FirstFailure, first_failure
from coterie.views.live import LiveRun
from coterie.views.rows import run_row
from coterie.views.timeline import Line, Timeline

KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
VIEWS: Final = ("", "runs", "compare", "team")
"""The first parts of addresses that the page itself reads."""
LARGEST: Final = 1 << 20
"""Bytes of a request's body."""
LINES: Final = 200
"""Records that a page of them has, unless another number is wanted; *MOST* at most."""
MOST: Final = 2000

Value = Callable[[Request], Awaitable[Any]]
MayAct = Callable[[Any], str]


class Api:
    """The routes of one server.

    Args:
        may_act: Why the connection with this scope may not act; empty: it may. None: the server is read-only.
        about: What the page should know of the server.
    """

    def __init__(self, feeds: Feeds, access: SessionAccess, about: dict[str, Any], may_act: MayAct | None) -> None:
        self._feeds, self._access = feeds, access
        self._about = about | {"version": __version__, "read_only": may_act is None}
        self._may_act = may_act
        self._worst: dict[str, WorstCase] = {}
        self._times: dict[str, Timeline] = {}

    def app(self) -> Starlette:
        """The application, without its guard."""
        self._endpoints = [*self._reads(), *(self._acts() if self._may_act is not None else ())]
        return Starlette(
            routes=[
                *(
                    Route(one.path, partial(_answer, one.value), methods=["GET" if one.takes is None else "POST"])
                    for one in self._endpoints
                ),
                Route(
                    "/api/{rest:path}", partial(_answer, _unknown), methods=["GET", "POST", "PUT", "DELETE", "PATCH"]
                ),
                Route("/{path:path}", _static),
            ],
            exception_handlers={404: _problem, 405: _problem},
        )

    def _reads(self) -> Iterator[ApiEndpoint]:
        """What only reads."""
        yield ApiEndpoint(path="/api/openapi.json", value=self._openapi, what="This document.")
        yield ApiEndpoint(path="/api/about", value=self._of_server, what="The server: its version, and what it serves.")
        yield ApiEndpoint(
            path="/api/home",
            value=lambda request: self._feeds.home.shown(request.url.query),
            what="All runs, and what needs a person.",
            returns=RunList,
            query={"q": "Words that a run has.", "state": f"One of {', '.join(GROUPS)}.", "limit": "Rows at most."},
        )
        run, turn = "/api/runs/{key}", {"turn": "A turn by its address in the root run, `team#1.1/writer#2`."}
        below = {"run": "A child run, as `TURN.ATTEMPT/…` below the root run."}
        yield ApiEndpoint(
            path=run, value=self._run, what="The run, as `inspect RUN live` prints it.", returns=LiveState
        )
        yield ApiEndpoint(path=f"{run}/turn", value=self._turn, what="A turn.", query=turn, required=frozenset(turn))
        yield ApiEndpoint(
            path=f"{run}/files",
            value=self._files,
            what="The files that a turn changed.",
            returns=ChangedFiles,
            query=turn,
            required=frozenset(turn),
        )
        yield ApiEndpoint(
            path=f"{run}/records",
            value=self._records,
            what="The records of a run as sentences.",
            returns=RecordLines,
            query={"from": "The first, from 1.", "limit": f"Lines, {LINES} unless said, {MOST} at most."}
            | {"q": "A text that a line has.", "turn": "A turn that it is about.", "topic": "How its topic begins."}
            | below,
        )
        yield ApiEndpoint(
            path=f"{run}/record",
            value=self._record,
            what="A record.",
            returns=Record,
            query={"seq": "Its number, from 1."} | below,
        )
        yield ApiEndpoint(path=f"{run}/cost", value=self._cost, what="What the run cost.", returns=CostsAndBound)
        yield ApiEndpoint(
            path=f"{run}/failure", value=self._failure, what="What failed first.", returns=FirstFailure | None
        )
        yield ApiEndpoint(path=f"{run}/html", value=self._html, what="The run as one file.", returns=dict[str, str])
        yield ApiEndpoint(
            path="/api/diff",
            value=self._diff,
            what="Two runs, aligned by turn.",
            returns=RunComparison,
            query={"a": "A run.", "b": "A run."},
            required=frozenset("ab"),
        )
        yield ApiEndpoint(path="/api/team", value=self._team, what="The team's file that is shown, with its findings.")
        yield ApiEndpoint(
            path="/api/session",
            value=self._session,
            what="The secret of a session, for a code.",
            returns=dict[str, str],
            takes=SessionCode,
        )
        yield ApiEndpoint(
            path="/api/stream",
            value=self._stream,
            what="The state of each topic, then its changes.",
            returns=str,
            takes=StreamTopics,
            media_type="text/event-stream",
        )

    def _acts(self) -> Iterator[ApiEndpoint]:
        """What acts on runs."""
        for word, value, what, returns in (
            ("preview", self._preview, "What an action would do.", ActionPreview),
            ("act", self._act, "Do an action.", ActionResult),
        ):
            yield ApiEndpoint(path=f"/api/runs/{{key}}/{word}", value=value, what=what, returns=returns, takes=ANY)

    async def _openapi(self, request: Request) -> Any:
        return document(self._endpoints)

    async def _of_server(self, request: Request) -> Any:
        return self._about | {"streams": self._feeds.streams}

    async def _session(self, request: Request) -> Any:
        secret = self._access.trade((await body_of(request, SessionCode)).code)
        if not secret:
            raise HTTPException(401, "this address was used before or is older than a minute: run `coterie ui` again")
        return {"secret": secret}

    async def _stream(self, request: Request) -> Response:
        topics = (await body_of(request, StreamTopics)).topics
        return StreamingResponse(events(self._feeds, topics), media_type="text/event-stream")

    async def _run(self, request: Request) -> Any:
        feed = await self._feeds.run(request.path_params["key"])
        state = await feed.with_live(lambda live: live.state())
        return state | {"here": {"run": feed.place.about()}}

    async def _turn(self, request: Request) -> Any:
        runs, run, turn = await self._named(request)
        return (await asyncio.to_thread(detail, runs, run, turn)).data()

    async def _files(self, request: Request) -> Any:
        return await asyncio.to_thread(changed_files, *await self._named(request))

    async def _records(self, request: Request) -> Any:
        """A page of the records of a run as sentences, those that fit; and how many fit."""
        query = request.query_params
        runs, run = await self._place(request)
        text, turn, topic = query.get("q", "").lower(), query.get("turn", ""), query.get("topic", "")
        begin, most = _number(query.get("from"), 1), min(_number(query.get("limit"), LINES), MOST)

        def fits(line: Line) -> bool:
            return turn in ("", line.turn) and line.topic.startswith(topic) and text in line.text.lower()

        def read() -> Any:
            lines = self._lines(runs, run)
            found = [line for line in lines if fits(line)]
            shown = found[begin - 1 : begin - 1 + most]
            return {"lines": shown, "of": len(found), "topics": sorted({line.topic for line in lines})}

        return await asyncio.to_thread(read)

    def _lines(self, runs: Runs, run: str) -> list[Line]:
        """The records of *run* as sentences; what was read before is kept."""
        name = str(runs.folder(run))
        view = self._times.pop(name, None) or Timeline()
        self._times[name] = view
        while len(self._times) > 4:
            del self._times[next(iter(self._times))]
        for record in runs.read(run, len(view.lines) + 1):
            view.apply(record)
        return view.lines

    async def _record(self, request: Request) -> Any:
        runs, run = await self._place(request)
        seq = _number(request.query_params.get("seq"), 1)
        found = await asyncio.to_thread(lambda: list(islice(runs.read(run, seq), 1)))
        if not found:
            raise HTTPException(404, f"run {run} has no record {seq}")
        return found[0]

    async def _cost(self, request: Request) -> Any:
        feed = await self._feeds.run(request.path_params["key"])

        def of(live: LiveRun) -> Any:
            known = live.runs[live.run]
            found = costs(live.costs.values(), live.run, run_row(known).max_cost)
            plan = known.plan.plan
            worst = self._worst_of(known.view.plan, plan, dearest(found)) if plan is not None else None
            return CostsAndBound(**structs.asdict(found), worst=worst)

        return await feed.with_live(of)

    def _worst_of(self, text: str, plan: Plan, prices: Any) -> WorstCase:
        key = f"{text}{sorted(prices.items())}"
        if key not in self._worst:
            self._worst = {key: worst_case(plan, prices)}
        return self._worst[key]

    async def _failure(self, request: Request) -> Any:
        return await (await self._feeds.run(request.path_params["key"])).with_live(first_failure)

    async def _html(self, request: Request) -> Any:
        """The run as one page that opens without a server."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        return {"html": await asyncio.to_thread(page_of, place.runs, place.run)}

    async def _diff(self, request: Request) -> Any:
        sides = []
        for name in ("a", "b"):
            place = await asyncio.to_thread(self._feeds.places.find, request.query_params.get(name, ""))
            sides.append((place.runs, place.run))
        return await asyncio.to_thread(compare, *sides)

    async def _team(self, request: Request) -> Any:
        try:
            event, _ = await (await self._feeds.open("team")).state("")
        except LookupError:
            raise HTTPException(404, "no team's file is shown: run `coterie ui FILE`") from None
        assert event is not None
        return msgspec.Raw(event.data)

    async def _preview(self, request: Request) -> Any:
        """What an action would do, and the command that does the same."""
        place, action = await self._action(request)
        return await asyncio.to_thread(preview, place, action)

    async def _act(self, request: Request) -> Any:
        """Do an action, if the process behind the connection may."""
        assert self._may_act is not None
        place, action = await self._action(request)
        if why := await asyncio.to_thread(self._may_act, request.scope):
            command = await asyncio.to_thread(action.command, place)
            raise HTTPException(403, f"{why}; in a terminal: {command}")
        feed = await self._feeds.run(place.key)
        epoch = await feed.with_live(lambda live: live.runs[live.run].view.epoch)
        return await asyncio.to_thread(act, place, action, epoch)

    async def _action(self, request: Request) -> tuple[ServedRun, PageAction]:
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        action: PageAction = await body_of(request, ANY)
        return place, action

    async def _place(self, request: Request) -> tuple[Runs, str]:
        """The run of a request; `run` names one below the root run as `TURN.ATTEMPT/…`."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        below = request.query_params.get("run", "")
        return place.runs, f"{place.run}/{below}" if below else place.run

    async def _named(self, request: Request) -> tuple[Runs, str, str]:
        """The turn of a request, by its address in the root run."""
        place = await asyncio.to_thread(self._feeds.places.find, request.path_params["key"])
        below, _, turn = request.query_params.get("turn", "").rpartition("/")
        return place.runs, f"{place.run}/{below}" if below else place.run, turn


async def body_of(request: Request, type_: Any) -> Any:
    """The JSON of the body as a *type_*.

    Raises:
        HTTPException: It is none, or it is too large.
    """
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > LARGEST:
            raise HTTPException(413, "the body is too large")
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError as error:
        raise HTTPException(422, f"the body is not what {request.url.path} takes: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise HTTPException(422, "the body is not JSON") from None


async def _answer(value: Value, request: Request) -> Response:
    """The response with *value*, or with the reason why there is none."""
    try:
        found = await value(request)
        return found if isinstance(found, Response) else _json(found)
    except HTTPException as error:
        return _json({"error": error.detail}, error.status_code)
    except (NoSuchRun, NoSuchTurn) as error:
        return _json({"error": str(error)}, 404)
    except UsageError as error:
        return _json({"error": str(error)}, 409)
    except (OSError, CoterieError) as error:
        return _json({"error": str(error)}, 500)
    except Exception as error:  # a defect, which the page shows as one
        if os.environ.get("COTERIE_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        return _json({"error": f"this is a bug in coterie: {error_line(error)}; please report it"}, 500)


async def _unknown(request: Request) -> Any:
    raise HTTPException(404, f"nothing is at {request.url.path}")


async def _problem(request: Request, error: Any) -> Response:
    return _json({"error": str(error.detail)}, error.status_code)


async def _static(request: Request) -> Response:
    """A file of the page, or the page itself."""
    name = request.path_params["path"]
    name = "index.html" if name.partition("/")[0] in VIEWS else name
    data = _files().get(name)
    if data is None:
        return _json({"error": f"nothing is at {request.url.path}"}, 404)
    return Response(data, media_type=KINDS[Path(name).suffix])


@cache
def _files() -> dict[str, bytes]:
    """The files of the page."""
    return {one.relative_to(PAGE).as_posix(): one.read_bytes() for one in PAGE.rglob("*") if one.suffix in KINDS}


def _number(text: str | None, usual: int) -> int:
    return max(int(text), 1) if text is not None and text.isdecimal() else usual


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), status, media_type="application/json")
